#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "dgx/core/version.h"
#include "dgx/crypto/random.h"
#include "dgx/jobs/verify.h"
#include "verify/forced_rows.h"
#include "verify/replay_means.h"
#include "verify/shard_files.h"

namespace dgx::jobs {
namespace {

using manifest::VerdictRow;

Digest random_nonce() {
  Digest nonce;
  if (!crypto::random_bytes(nonce.bytes).ok()) return Digest{};
  return nonce;
}

/// The options by which a shard's call names the draw and the verifier.
std::string draw_words(const MergeOptions& options, const protocol::Shard& shard) {
  if (shard.assignment.draw == manifest::Draw::kPolicy)
    return fmt::format("--beacon {}", options.beacon.value_or("BEACON.json"));
  if (shard.assignment.draw == manifest::Draw::kAudit)
    return fmt::format("--round {} --audits {} --key {}", options.beacon.value_or("ROUND.json"),
                       options.audits.value_or("VERDICT.json"), options.key.path);
  const bool all = !shard.drawn.empty() && shard.drawn.back() + 1 == std::ssize(shard.drawn);
  const std::string drawn = all ? "--all" : fmt::format("--segments {}", fmt::join(shard.drawn, ","));
  return fmt::format("{} --key {}", drawn, options.key.path);
}

/// The call that makes a shard of a verification of which `other` is one, to `output`.
std::string call_for(const MergeOptions& options, const protocol::Shard& other, std::int64_t index,
                     const std::string& output) {
  return fmt::format("dgx-verify {} {} --from RUN --data DATA.h5 {} --shard {}/{}{} -o {}", options.task,
                     options.proof, draw_words(options, other), index, other.count,
                     options.work_key ? fmt::format(" --work-key {}", *options.work_key) : "", output);
}

/// The shards that are not among these, of a verification of which they are.
std::vector<std::int64_t> absent(std::span<const protocol::Shard> shards) {
  std::set<std::int64_t> there;
  for (const protocol::Shard& shard : shards) there.insert(shard.index);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; !shards.empty() && i < shards.front().count; ++i)
    if (!there.contains(i)) out.push_back(i);
  return out;
}

/// An error about shards, with a hint that has the command which makes the missing ones, and the files that
/// repeat others.
Error with_mending(Error error, const MergeOptions& options, std::span<const protocol::Shard> shards) {
  if (error.code != ErrorCode::kInconclusive || shards.empty()) return error;
  std::map<std::int64_t, std::size_t> first;
  std::vector<std::string> repeated;
  for (std::size_t n = 0; n < shards.size(); ++n) {
    const auto [at, is_new] = first.emplace(shards[n].index, n);
    if (!is_new)
      repeated.push_back(fmt::format("{}, which is {} again", options.shards[n], options.shards[at->second]));
  }
  const std::vector<std::int64_t> missing = absent(shards);
  std::string hint;
  if (!repeated.empty()) hint = fmt::format("leave out {}", fmt::join(repeated, ", "));
  if (!missing.empty()) {
    hint += fmt::format("{}make it: {}", hint.empty() ? "" : "; ",
                        call_for(options, shards.front(), missing.front(), "SHARD.json"));
    if (missing.size() > 1) hint += fmt::format(", and {} more likewise", missing.size() - 1);
  }
  if (error.hint.empty()) error.hint = hint;
  return error;
}

/// Reads all shards. The error is that of the first which cannot be believed, and names the others.
Result<std::vector<protocol::Shard>> read_shards(const MergeOptions& options, const WorkKeys& keys) {
  std::vector<protocol::Shard> good;
  std::vector<std::string> bad;
  std::optional<Error> first;
  for (const std::string& path : options.shards) {
    auto shard = read_shard(path, protocol::ShardRole::kShard, keys);
    if (shard.ok()) {
      good.push_back(std::move(shard).value());
      continue;
    }
    bad.push_back(path);
    if (!first) first = std::move(shard).error();
  }
  if (!first) return good;
  if (bad.size() > 1)
    first->message += fmt::format("; nor can {} be used", fmt::join(bad.begin() + 1, bad.end(), ", "));
  const std::vector<std::int64_t> missing = absent(good);
  if (missing.empty()) return *std::move(first);
  const std::string call = call_for(options, good.front(), missing.front(), bad.front() + " --force");
  const bool certain = missing.size() == 1;
  first->hint +=
      fmt::format("{}{}: {}", first->hint.empty() ? "" : "; or ",
                  certain ? "make it again"
                          : fmt::format("make it again, as one of the shards {}", fmt::join(missing, ", ")),
                  call);
  return *std::move(first);
}

/// The assignment of shards with this draw; of the policy's if a beacon or round draws.
Result<protocol::Assignment> assignment_of(const MergeOptions& options,
                                           const manifest::Signed<manifest::Task>& task,
                                           const ProofFiles& proof, protocol::Assignment assigned,
                                           manifest::Draw draw) {
  const bool audit = draw == manifest::Draw::kAudit;
  if (options.audits.has_value() != audit)
    return audit ? usage_error("these shards belong to an audit", "give --audits as well")
                 : usage_error("these shards belong to no audit", "leave out --audits");
  if (draw == manifest::Draw::kChosen) {
    if (assigned.beacon) return usage_error("these shards belong to a chosen draw", "leave out --beacon");
    return assigned;
  }
  if (!assigned.beacon)
    return usage_error("these shards belong to the policy's draw", "give --beacon as well");
  if (!audit) return assigned;
  DGX_TRY(const auto drawn, protocol::policy_draw(task.body, proof.segments, assigned));
  DGX_TRY([[maybe_unused]] const auto stated, begin_audit(*options.audits, proof.segments, drawn, assigned));
  return assigned;
}

}  // namespace

Result<VerdictFiles> claim_verdict(const std::string& output, Clobber clobber) {
  if (output.empty() || output == "-")
    return usage_error("-o VERDICT.json is required: a verdict's rows are written next to it");
  DGX_TRY(Output verdict, Output::claim(output, clobber));
  DGX_TRY(Output rows, claim_beside(beside(output, ".rows.jsonl"), clobber));
  return VerdictFiles{std::move(verdict), std::move(rows)};
}

Result<VerifyResult> publish_verdict(const manifest::Task& task, const protocol::Assignment& assignment,
                                     const ProofFiles& proof, std::vector<VerdictRow> rows,
                                     const crypto::SecretKey& key, VerdictFiles files,
                                     std::vector<std::int64_t> denied) {
  VerifyResult out;
  const Digest nonce = random_nonce();
  if (nonce == Digest{}) return internal_error("the system provides no random bytes");
  DGX_TRY(out.verdict, protocol::assemble_verdict(task, proof.segments, assignment, proof.states, rows, nonce,
                                                  std::move(denied)));
  DGX_TRY(const auto sealed, manifest::seal(out.verdict, key));
  out.id = sealed.id;
  out.rows = std::move(rows);
  DGX_CHECK(files.verdict.check());
  DGX_CHECK(files.rows.write(manifest::encode_rows(out.rows)));
  DGX_CHECK(files.verdict.write(sealed.envelope + "\n"));
  return out;
}

Result<protocol::Shard> read_shard(const std::string& path, protocol::ShardRole role, const WorkKeys& keys) {
  DGX_TRY(const std::string text, read_file(path, protocol::kMaxShardBytes));
  const auto line = keys.open(text);
  if (!line.ok()) return within(path, line.error());
  auto shard = protocol::decode_shard(*line);
  if (!shard.ok()) return within(path, std::move(shard).error());
  if (shard->role != role)
    return malformed(fmt::format("{}: is a {}, expected a {}", path, name_of(shard->role), name_of(role)));
  if (shard->version == version()) return shard;
  return malformed(fmt::format("{}: was made by dgx {}, this is {}", path, shard->version, version()),
                   "make it again with this version");
}

Result<VerifyResult> merge_verdict(const MergeOptions& options, const JobContext& context) {
  DGX_TRY(VerdictFiles files, claim_verdict(options.output, context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const ProofFiles proof, open_proof(options.proof, task, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  std::optional<protocol::DrawSource> beacon;
  if (options.beacon) {
    DGX_TRY(beacon, read_draw_source(*options.beacon, proof.proof.id, std::nullopt));
  }
  DGX_TRY(const WorkKeys keys, WorkKeys::find(&key, options.work_key, context.progress));
  DGX_TRY(const std::vector<protocol::Shard> shards, read_shards(options, keys));
  auto merged = protocol::merge_shards(shards);
  if (!merged.ok()) return with_mending(std::move(merged).error(), options, shards);
  auto assigned = protocol::assign(task, proof.proof, beacon, crypto::key_id(key.public_key()));
  if (!assigned.ok()) return within(options.beacon.value_or(options.proof), std::move(assigned).error());
  const protocol::Assignment& theirs = shards.front().assignment;
  DGX_TRY(const protocol::Assignment assignment,
          assignment_of(options, task, proof, *std::move(assigned), theirs.draw));
  if (theirs.verifier != assignment.verifier) {
    return unauthorised(fmt::format("the shards were made for key {}, {} is key {}", theirs.verifier.brief(),
                                    options.key.path, assignment.verifier.brief()));
  }
  if (theirs != assignment || shards.front().dataset != task.body.dataset.digest)
    return malformed("the shards do not belong to this task, proof and beacon");
  DGX_TRY(const auto secret, secret_for(options.commitment, task, assignment));
  if (assignment.draw == manifest::Draw::kPolicy)
    misstate(task.body, proof.segments, beacon, secret, merged->rows);
  return publish_verdict(task.body, assignment, proof, std::move(merged->rows), key, std::move(files),
                         std::move(merged->denied));
}

}  // namespace dgx::jobs
