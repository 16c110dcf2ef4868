#include "dgx/jobs/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "dgx/core/version.h"
#include "dgx/crypto/random.h"
#include "task/allow_urls.h"
#include "task/work_keys.h"
#include "verify/forced_rows.h"
#include "verify/replay_means.h"
#include "verify/shard_files.h"
#include "verify/start_states.h"
#include "verify/verify_draw.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using manifest::VerdictRow;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Replays segments of one verification with one executor, in ascending order.
///
/// Loading a state is cheap compared with recomputing one that the run did not keep. So after a segment that
/// agrees, the executor's state, which is the committed start of the next one, is noted with the start
/// states, and a state after it is recomputed from there if no kept one is nearer. After anything else the
/// executor holds some state that nobody committed to, and that is noted instead.
///
/// A start state that cannot be had is not a fault of the proof, nor an error that ends the verification: the
/// other segments can still refute. It is a warning, and no row.
class Replayer {
 public:
  Replayer(const Verification& verification, StartStates& starts, exec::StepExecutor& executor,
           const JobContext& context)
      : verification_(verification), starts_(starts), executor_(executor), context_(context) {}

  /// The segment's row, or nullopt if the start state cannot be had. `denied` becomes whether an audit denies
  /// the verdict's witness.
  Result<std::optional<VerdictRow>> replay(std::int64_t index, bool& denied) {
    auto start = starts_.start(index, &executor_, context_.stop);
    if (!start.ok() && start.error().code == ErrorCode::kInconclusive) {
      context_.progress.warning(fmt::format("segment {}: {}", index, start.error().message));
      starts_.reached(std::nullopt);
      return std::optional<VerdictRow>();
    }
    if (!start.ok()) return std::move(start).error();
    const protocol::Segments& segments = verification_.proof.segments;
    const auto& states = verification_.proof.states;
    const auto at = static_cast<std::size_t>(index);
    const std::optional<Digest> end = protocol::committed_end(segments, states, index);
    starts_.reached(std::nullopt);
    Digest theirs;
    DGX_TRY(const VerdictRow row, protocol::replay_segment(
                                      executor_, *start, segments[index], states[at], end,
                                      verification_.assignment, [this] { return one_more_step(); }, &theirs));
    // A replay that did not end where the proof says may not have had the state of the witness.
    denied = row.agrees && verification_.assignment.audited && theirs != stated_witness(index);
    if (row.agrees && end) starts_.reached(index + 1);
    return std::optional<VerdictRow>(row);
  }

  /// Begins the progress bar.
  void expect(std::span<const std::int64_t> segments) {
    std::int64_t steps = 0;
    for (const std::int64_t index : segments) steps += verification_.proof.segments[index].length();
    context_.progress.start("replaying", steps);
  }

 private:
  /// The witness that the audited verdict states for a segment.
  [[nodiscard]] const Digest& stated_witness(std::int64_t index) const {
    const auto& drawn = verification_.drawn;
    const auto place = std::lower_bound(drawn.begin(), drawn.end(), index) - drawn.begin();
    return verification_.stated[static_cast<std::size_t>(place)];
  }
  bool one_more_step() {
    ++steps_;
    if (steps_ % 16 == 0) context_.progress.update(steps_);
    return !context_.stop.requested();
  }

  const Verification& verification_;
  StartStates& starts_;
  exec::StepExecutor& executor_;
  const JobContext& context_;
  std::int64_t steps_ = 0;
};

Error inconclusive(const std::string& from, std::span<const std::int64_t> missing) {
  return {ErrorCode::kInconclusive,
          fmt::format("{}: has no start state of these segments of the draw: {}", from, listed(missing)),
          "a sample holds the segments that its beacon drew: choose among those, or verify from a run"};
}

Status check_files(const VerifyOptions& options) {
  if (options.from.empty())
    return usage_error("--from is required", "name a sample from dgx-prove open, or a run");
  if (options.data.empty()) return usage_error("--data is required");
  return {};
}

/// kCannotCreate, before the replay, if the rows file that is there cannot be what this verification would
/// write: rows of other segments, or of another proof.
Status check_rows_there(const std::string& path, const Verification& v, Clobber clobber) {
  if (clobber != Clobber::kRefuse || !exists(path)) return {};
  const Error other{ErrorCode::kCannotCreate,
                    path + ": is there already, with the rows of another verification",
                    "use --force to replace it"};
  const auto text = read_file(path, manifest::kMaxRowsBytes);
  if (!text.ok()) return other;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const auto value = json::parse_canonical(rest.substr(0, end));
    const auto row = value.ok() ? VerdictRow::from_json(*value) : Result<VerdictRow>(value.error());
    if (!row.ok() || !std::binary_search(v.drawn.begin(), v.drawn.end(), row->index)) return other;
    const auto expected = protocol::committed_end(v.proof.segments, v.proof.states, row->index);
    if (row->expected != expected.value_or(manifest::diverged_end())) return other;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

/// The finished rows of a verdict or shard on disk, FILE.json.part, so that an interrupted call continues.
///
/// It is replaced whole, with a code under the work key, so that it is never half written, and rows that
/// somebody else put there are not taken for one's own. It is written when the call is interrupted and, for a
/// process that is killed, at most once a second while it replays. A call that is stopped twice without
/// having finished a segment would go on so for ever: that is an error.
///
/// Segments drawn at random are drawn anew by the next call, which can continue nothing: they have no file.
class PartFile {
 public:
  PartFile(std::optional<std::string> path, const WorkKeys& keys) : path_(std::move(path)), keys_(keys) {}

  /// Takes up what an earlier call finished. kUnauthorised if it was made under none of the keys, kMalformed
  /// if it belongs to another verification.
  Status resume(protocol::Shard& shard, std::span<const std::int64_t> due) {
    resumed_ = path_ && exists(*path_);
    if (!resumed_) return {};
    auto found = read_shard(*path_, protocol::ShardRole::kPart, keys_);
    if (found.ok() && (!of_one_verification(*found, shard) || found->index != shard.index))
      found = malformed(*path_ + ": is not the beginning of this verification");
    if (!found.ok()) {
      Error error = std::move(found).error();
      const bool elsewhere = error.code == ErrorCode::kUnauthorised;
      error.hint = (elsewhere ? error.hint + "; or " : std::string()) + "remove it to start again";
      return error;
    }
    for (const VerdictRow& row : found->rows) {
      if (!std::binary_search(due.begin(), due.end(), row.index)) {
        return malformed(
            fmt::format("{}: segment {} does not belong to this verification", *path_, row.index));
      }
    }
    shard.rows = std::move(found->rows);
    shard.denied = std::move(found->denied);
    return {};
  }

  Status save(const protocol::Shard& shard) {
    saved_ = Clock::now();
    if (!path_) return {};
    return write_file(*path_, keys_.seal(protocol::encode_shard(as_part(shard))), Clobber::kReplace);
  }
  /// Saves at most once a second, so that many short segments do not cause as many synced writes.
  Status save_sometimes(const protocol::Shard& shard) {
    return seconds_since(saved_) < 1 ? Status() : save(shard);
  }

  /// Saves the rows of a call that was stopped. Always an error: kInterrupted, or internal if an earlier call
  /// was stopped too and this one has finished no segment.
  Status interrupted(const protocol::Shard& shard, std::size_t rows_before, std::size_t due) {
    const std::string stopped = fmt::format("stopped after {} of {} segments", shard.rows.size(), due);
    if (!path_)
      return Error{ErrorCode::kInterrupted, stopped + "; nothing is saved, since they were drawn at random",
                   "--beacon or --segments draws the same ones again, and keeps those that are finished"};
    DGX_CHECK(save(shard));
    const std::string saved = shard.rows.empty() ? "" : "; they are saved";
    if (resumed_ && shard.rows.size() == rows_before) {
      return internal_error("stopped again without having finished a segment", "give the job more time");
    }
    return Error{ErrorCode::kInterrupted, stopped + saved, "run the same command again to continue"};
  }

  void remove() const {
    if (path_) static_cast<void>(remove_file(*path_));
  }

 private:
  static protocol::Shard as_part(protocol::Shard shard) {
    shard.role = protocol::ShardRole::kPart;
    return shard;
  }

  std::optional<std::string> path_;
  const WorkKeys& keys_;
  bool resumed_ = false;
  Clock::time_point saved_ = Clock::now();
};

/// A shard with its rows, as far as they could be had, and how they came to be.
struct Replayed {
  protocol::Shard shard;
  PartFile part;
  std::int64_t resumed = 0;                ///< rows that an earlier call had finished
  std::vector<std::int64_t> missing = {};  ///< segments whose start states cannot be had
  double seconds = 0;
};

void add_sorted(std::vector<std::int64_t>& numbers, std::int64_t number) {
  numbers.insert(std::lower_bound(numbers.begin(), numbers.end(), number), number);
}

/// Replays the segments of `due` that have no row yet.
Status replay_due(const Verification& v, const VerifyOptions& options, ReplayMeans& means,
                  const JobContext& context, std::span<const std::int64_t> due, Replayed& out) {
  std::vector<VerdictRow>& rows = out.shard.rows;
  const std::size_t before = rows.size();
  std::set<std::int64_t> done;
  for (const VerdictRow& row : rows) done.insert(row.index);
  std::vector<std::int64_t> left;
  std::copy_if(due.begin(), due.end(), std::back_inserter(left),
               [&](std::int64_t index) { return !done.contains(index); });

  DGX_TRY(StartStates starts, StartStates::open(options.from, v.proof, context.threads));
  DGX_CHECK(starts.check_shared(*v.files.program));
  if (const auto absent = starts.missing(left); !absent.empty()) return inconclusive(options.from, absent);
  if (left.empty()) return {};
  DGX_TRY(exec::StepExecutor* const executor, means.executor(options, v.files, context));
  Replayer replayer(v, starts, *executor, context);
  replayer.expect(left);
  const auto begin = Clock::now();
  for (const std::int64_t index : left) {
    bool denied = false;
    auto row = replayer.replay(index, denied);
    if (!row.ok() && row.error().code == ErrorCode::kInterrupted)
      DGX_CHECK(out.part.interrupted(out.shard, before, due.size()));
    if (!row.ok()) return std::move(row).error();
    if (!*row) {
      out.missing.push_back(index);
      continue;
    }
    rows.push_back(**row);
    if (denied) add_sorted(out.shard.denied, index);
    DGX_CHECK(out.part.save_sometimes(out.shard));
  }
  out.seconds = seconds_since(begin);
  context.progress.finish();
  return {};
}

/// Takes up part `name` of the drawn segments where an earlier call left it.
Result<Replayed> take_up_part(const Verification& v, const VerifyOptions& options, const ShardName& name,
                              const WorkKeys& keys) {
  DGX_TRY(const auto due, protocol::shard_segments(v.drawn, name.index, name.count));
  const bool at_random = options.choice.fraction && !options.beacon;
  Replayed out{{protocol::ShardRole::kShard,
                std::string(version()),
                v.assignment,
                v.files.body().dataset.digest,
                name.index,
                name.count,
                v.drawn,
                {}},
               PartFile(at_random ? std::nullopt : std::optional(options.output + ".part"), keys)};
  DGX_CHECK(out.part.resume(out.shard, due));
  out.resumed = std::ssize(out.shard.rows);
  return out;
}

/// Replays what is left of a part.
Status replay_part(const Verification& v, const VerifyOptions& options, ReplayMeans& means,
                   const JobContext& context, Replayed& out) {
  DGX_TRY(const auto due, protocol::shard_segments(v.drawn, out.shard.index, out.shard.count));
  DGX_CHECK(replay_due(v, options, means, context, due, out));
  std::vector<VerdictRow>& rows = out.shard.rows;
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  if (!out.missing.empty() && !rows.empty()) DGX_CHECK(out.part.save(out.shard));
  return {};
}

}  // namespace

Result<VerifyResult> verify(const VerifyOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_CHECK(check_files(options));
  DGX_CHECK(allow_urls({options.from, options.data}, options.insecure, context));
  if (options.key.path.empty()) return usage_error("--key is required: a verdict is signed");
  DGX_TRY(VerdictFiles files, claim_verdict(options.output, context.clobber));
  DGX_TRY(const Verification v, open_verification(options, context));
  if (!v.key) {
    return malformed(options.key.path + ": is a public key, expected a private key",
                     "a verdict is signed; --shard and --plan take a public key");
  }
  ReplayMeans means;
  auto out = verify_opened(options, v, *v.key, std::move(files), means, context);
  means.warn(context);
  return out;
}

Result<VerifyResult> verify_opened(const VerifyOptions& options, const Verification& v,
                                   const crypto::SecretKey& key, VerdictFiles files, ReplayMeans& means,
                                   const JobContext& context) {
  DGX_TRY(const auto secret, secret_for(options.commitment, v.files.task, v.assignment));
  const WorkKeys keys = WorkKeys::of(key);
  DGX_TRY(Replayed replayed, take_up_part(v, options, {0, 1}, keys));
  DGX_CHECK(check_rows_there(files.rows.path(), v, context.clobber));
  DGX_CHECK(files.verdict.check());
  DGX_CHECK(replay_part(v, options, means, context, replayed));

  std::vector<VerdictRow>& rows = replayed.shard.rows;
  protocol::Assignment assignment = v.assignment;
  if (!replayed.missing.empty()) {
    const bool refuted =
        std::any_of(rows.begin(), rows.end(), [](const VerdictRow& row) { return !row.agrees; });
    if (!refuted || v.assignment.audited) {
      // Whoever reads this chooses other segments or brings other start states.
      replayed.part.remove();
      return inconclusive(options.from, replayed.missing);
    }
    // No longer the whole draw, but a refutation needs none.
    assignment.draw = manifest::Draw::kChosen;
  }
  if (assignment.draw == manifest::Draw::kPolicy)
    misstate(v.files.body(), v.proof.segments, v.source, secret, rows);
  DGX_TRY(auto out, publish_verdict(v.files.body(), assignment, v.proof, std::move(rows), key,
                                    std::move(files), std::move(replayed.shard.denied)));
  replayed.part.remove();
  out.missing = std::move(replayed.missing);
  out.resumed = replayed.resumed;
  out.seconds = replayed.seconds;
  return out;
}

Result<ShardResult> verify_shard(const VerifyOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_CHECK(check_files(options));
  DGX_CHECK(allow_urls({options.from, options.data}, options.insecure, context));
  if (options.output.empty() || options.output == "-") return usage_error("-o SHARD.json is required");
  DGX_TRY(const ShardName name, parse_shard(*options.shard));
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const Verification v, open_verification(options, context));
  DGX_TRY(const WorkKeys keys, WorkKeys::find(v.key ? &*v.key : nullptr, options.work_key, context.progress));
  DGX_TRY(Replayed replayed, take_up_part(v, options, name, keys));
  DGX_CHECK(output.check());
  ReplayMeans means;
  DGX_CHECK(replay_part(v, options, means, context, replayed));
  means.warn(context);
  if (!replayed.missing.empty()) return inconclusive(options.from, replayed.missing);
  DGX_CHECK(output.write(keys.seal(protocol::encode_shard(replayed.shard))));
  replayed.part.remove();
  return ShardResult{name.index, name.count, std::move(replayed.shard.rows), replayed.resumed,
                     replayed.seconds};
}

}  // namespace dgx::jobs
