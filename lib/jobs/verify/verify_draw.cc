#include "verify/verify_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "dgx/crypto/random.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {
namespace {

/// Takes a whole number off the beginning of `text`; nullopt if there is none.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.starts_with('-')) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

Result<std::vector<std::int64_t>> parse_segments(std::string_view text, std::int64_t count) {
  std::vector<std::int64_t> out;
  for (std::string_view rest = text;;) {
    const auto number = take_number(rest);
    if (!number || (!rest.empty() && rest[0] != ',')) {
      return usage_error(fmt::format("--segments: '{}' is not a list such as 3,17", text));
    }
    if (*number >= count)
      return usage_error(fmt::format("--segments: {}: the proof has segments 0 to {}", *number, count - 1));
    out.push_back(*number);
    if (rest.empty()) break;
    rest.remove_prefix(1);
  }
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) return usage_error(fmt::format("--segments: {} is given twice", *twice));
  return out;
}

/// A share of the segments between committed states that the prover could not foresee, drawn from the beacon
/// if there is one, else at random; and, as in the policy's draw, the diverging step.
Result<std::vector<std::int64_t>> draw_share(const VerifyOptions& options, const protocol::Segments& segments,
                                             const protocol::Assignment& assignment) {
  const double fraction = *options.choice.fraction;
  if (!(fraction > 0 && fraction <= 1)) return usage_error("--fraction must be above 0 and at most 1");
  Digest value = assignment.beacon_value;
  if (!assignment.beacon) {
    if (options.shard) {
      return usage_error(
          "--fraction with --shard needs --beacon, so that every shard draws the same segments");
    }
    DGX_CHECK(crypto::random_bytes(value.bytes));
  }
  std::vector<std::int64_t> out;
  if (const std::int64_t count = segments.between(); count > 0) {
    const auto share = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count)));
    DGX_TRY(out, protocol::draw_segments(value, assignment.proof, assignment.verifier, count,
                                         std::clamp<std::int64_t>(share, 1, count)));
  }
  if (segments.diverged()) out.push_back(segments.between());
  return out;
}

/// The segments to replay, ascending: those chosen or, without a choice, those that the policy draws.
Result<std::vector<std::int64_t>> draw(const VerifyOptions& options, const manifest::Task& task,
                                       const protocol::Segments& segments,
                                       const protocol::Assignment& assignment) {
  const Choice& choice = options.choice;
  const std::int64_t count = segments.count();
  if (choice.segments) return parse_segments(*choice.segments, count);
  if (choice.fraction) return draw_share(options, segments, assignment);
  if (!choice.all) return protocol::policy_draw(task, segments, assignment);
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Result<Digest> verifier_of(const VerifyOptions& options, const EitherKey* key,
                           const std::optional<protocol::DrawSource>& source) {
  if (key) return crypto::key_id(key->public_key);
  if (source && !source->is_round) return source->signer;
  if (options.shard) {
    return usage_error("a shard without --beacon needs --key: it belongs to one verifier",
                       "the public key is enough");
  }
  return usage_error("one of --key and --beacon is required, to say who verifies");
}

/// Opens the task, or takes it from the shelf.
Result<TaskFiles> open_shared_task(const VerifyOptions& options, const manifest::TrustView& trust,
                                   const SharedByVerifications& shared) {
  if (shared.tasks == nullptr) return open_task(options.task, options.program, trust, shared.programs);
  if (const auto found = shared.tasks->find(options)) return *found;
  DGX_TRY(TaskFiles files, open_task(options.task, options.program, trust, shared.programs));
  shared.tasks->add(options, std::make_shared<const TaskFiles>(files));
  return files;
}

}  // namespace

std::shared_ptr<const TaskFiles> TaskShelf::find(const VerifyOptions& options) const {
  const std::scoped_lock lock(using_);
  const auto found = tasks_.find({options.task, options.program});
  return found == tasks_.end() ? nullptr : found->second;
}

void TaskShelf::add(const VerifyOptions& options, std::shared_ptr<const TaskFiles> files) {
  const std::scoped_lock lock(using_);
  tasks_.emplace(std::pair(options.task, options.program), std::move(files));
}

Result<Verification> open_verification(const VerifyOptions& options, const JobContext& context,
                                       const SharedByVerifications& shared) {
  const manifest::TrustView trust =
      shared.trust != nullptr ? manifest::TrustView(*shared.trust) : manifest::TrustView(context.trust);
  DGX_TRY(TaskFiles files, open_shared_task(options, trust, shared));
  DGX_TRY(ProofFiles proof, open_proof(options.proof, files.task, trust, options.from));
  std::optional<protocol::DrawSource> source;
  if (options.beacon) {
    DGX_TRY(source, read_draw_source(*options.beacon, proof.proof.id, std::nullopt));
  }
  std::optional<EitherKey> key;
  if (shared.key == nullptr && !options.key.path.empty()) {
    DGX_TRY(key, read_either_key(options.key));
  }
  DGX_TRY(const Digest verifier, verifier_of(options, key ? &*key : shared.key, source));
  auto assigned = protocol::assign(files.task, proof.proof, source, verifier);
  if (!assigned.ok()) return within(options.beacon.value_or(options.proof), std::move(assigned).error());
  protocol::Assignment assignment = *assigned;
  DGX_TRY(auto drawn, draw(options, files.body(), proof.segments, assignment));
  if (options.choice.made()) {
    // The witnesses of a chosen draw depend on no beacon: dgx-protocol(7), "Witness".
    assignment.draw = manifest::Draw::kChosen;
    assignment.beacon.reset();
    assignment.beacon_value = Digest{};
  }
  std::vector<Digest> stated;
  if (options.audits) {
    if (options.choice.made()) return usage_error("--audits replays all of the policy's draw");
    DGX_TRY(stated, begin_audit(*options.audits, proof.segments, drawn, assignment));
  }
  std::optional<crypto::SecretKey> secret;
  if (key) secret = std::move(key->secret);
  return Verification{std::move(files),
                      std::move(proof),
                      std::move(secret),
                      assignment,
                      std::move(drawn),
                      std::move(stated),
                      source};
}

Result<std::vector<Digest>> begin_audit(const std::string& path, const protocol::Segments& segments,
                                        std::span<const std::int64_t> drawn,
                                        protocol::Assignment& assignment) {
  DGX_TRY(const auto verdict, manifest::read_statement<manifest::Verdict>(path));
  const manifest::Verdict& body = verdict.body;
  if (body.task != assignment.task || body.proof != assignment.proof)
    return malformed(path + ": is about another proof");
  if (body.draw != manifest::Draw::kPolicy || body.outcome != manifest::Outcome::kAccepted)
    return malformed(path + ": is no acceptance of the policy's draw: only such a verdict is audited");
  if (body.beacon != assignment.beacon) return malformed(path + ": is of another round");
  if (body.witnesses.size() != drawn.size())
    return malformed(path + ": does not state the witnesses of the segments drawn");
  if (Status stated = protocol::check_stated_witnesses(segments, drawn, body); !stated.ok())
    return within(path, std::move(stated).error());
  if (verdict.key_id == assignment.verifier)
    return unauthorised(path + ": is by the same key: a verifier cannot re-check their own verdict");
  assignment.draw = manifest::Draw::kAudit;
  assignment.audited = protocol::Audited{verdict.id, verdict.key_id};
  return body.witnesses;
}

Result<ShardName> parse_shard(std::string_view text) {
  std::string_view rest = text;
  const auto index = take_number(rest);
  const bool slash = rest.starts_with('/');
  if (slash) rest.remove_prefix(1);
  const auto count = take_number(rest);
  if (index && slash && count && rest.empty() && *index < *count) return ShardName{*index, *count};
  return usage_error(fmt::format("--shard: '{}' is not I/N with I from 0 to N-1", text));
}

}  // namespace dgx::jobs
