#include "dgx/protocol/shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/fields.h"

namespace dgx::protocol {
namespace {

using manifest::Draw;
using manifest::VerdictRow;

/// Changes with the fields of a shard; a reader takes no other.
constexpr std::string_view kFormat = "dgx-shard-2";
constexpr std::int64_t kMaxShards = 65536;
constexpr std::size_t kMaxVersionBytes = 32;

json::Object assignment_json(const Assignment& assignment) {
  json::Object out{{"task", assignment.task.hex()},
                   {"proof", assignment.proof.hex()},
                   {"verifier", assignment.verifier.hex()},
                   {"beacon_value", assignment.beacon_value.hex()},
                   {"draw", manifest::name_of(assignment.draw)}};
  if (assignment.beacon) out.emplace("beacon", assignment.beacon->hex());
  if (assignment.audited)
    out.emplace("audited", json::Object{{"verdict", assignment.audited->verdict.hex()},
                                        {"verifier", assignment.audited->verifier.hex()}});
  return out;
}

Audited read_audited(json::Fields& in) {
  Audited out;
  out.verdict = manifest::read_digest(in, "verdict");
  out.verifier = manifest::read_digest(in, "verifier");
  return out;
}

Assignment read_assignment(json::Fields& in) {
  Assignment out;
  out.task = manifest::read_digest(in, "task");
  out.proof = manifest::read_digest(in, "proof");
  out.verifier = manifest::read_digest(in, "verifier");
  out.beacon_value = manifest::read_digest(in, "beacon_value");
  out.draw = manifest::read_enum(in, "draw", std::array{Draw::kPolicy, Draw::kChosen, Draw::kAudit});
  out.beacon = manifest::read_optional_digest(in, "beacon");
  if (in.has("audited")) out.audited = manifest::read_object(in, "audited", read_audited);
  return out;
}

std::vector<std::int64_t> read_numbers(json::Fields& in, const char* key) {
  std::vector<std::int64_t> out;
  for (const json::Value& item : in.array(key, manifest::kMaxStates)) {
    const std::int64_t* index = item.as_int();
    if (index == nullptr || *index < 0 || (!out.empty() && *index <= out.back())) {
      in.fail(key, fmt::format("entry {} is not an ascending segment number", out.size()));
      return out;
    }
    out.push_back(*index);
  }
  return out;
}

std::vector<VerdictRow> read_rows(json::Fields& in) {
  std::vector<VerdictRow> out;
  for (const json::Value& item : in.array("rows", manifest::kMaxStates)) {
    const auto row = VerdictRow::from_json(item);
    if (!row.ok()) {
      in.fail("rows", fmt::format("{}: {}", out.size(), row.error().message));
      return out;
    }
    out.push_back(*row);
  }
  return out;
}

/// Checks that a shard's rows are those of its part of the draw.
Status check_complete(const Shard& shard) {
  DGX_TRY(const std::vector<std::int64_t> segments, shard_segments(shard.drawn, shard.index, shard.count));
  const bool same = std::equal(segments.begin(), segments.end(), shard.rows.begin(), shard.rows.end(),
                               [](std::int64_t index, const VerdictRow& row) { return index == row.index; });
  if (same) return {};
  return Error{ErrorCode::kInconclusive,
               fmt::format("shard {}/{}: does not have exactly the rows of its {} segments", shard.index,
                           shard.count, segments.size()),
               {}};
}

/// Checks that an audit denies the witnesses of rows of its own that agree.
Status check_denied(const Shard& shard) {
  for (const std::int64_t index : shard.denied) {
    const bool agrees = std::any_of(shard.rows.begin(), shard.rows.end(), [index](const VerdictRow& row) {
      return row.index == index && row.agrees;
    });
    if (!agrees)
      return malformed(fmt::format("shard {}/{}: denies segment {}, of which it has no row that agrees",
                                   shard.index, shard.count, index));
  }
  return {};
}

std::string listed(const std::vector<std::int64_t>& indices) {
  return fmt::format("{}", fmt::join(indices, ", "));
}

/// kInconclusive, naming each index of 0 … count − 1 that is missing or occurs more than once.
Status check_each_once(std::span<const Shard> shards) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(shards[0].count));
  for (const Shard& shard : shards) ++times[static_cast<std::size_t>(shard.index)];
  std::vector<std::int64_t> missing;
  std::vector<std::int64_t> repeated;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 0) missing.push_back(static_cast<std::int64_t>(i));
    if (times[i] > 1) repeated.push_back(static_cast<std::int64_t>(i));
  }
  if (missing.empty() && repeated.empty()) return {};
  std::string message = fmt::format("of {} shards", times.size());
  if (!missing.empty()) message += fmt::format(", missing: {}", listed(missing));
  if (!repeated.empty()) message += fmt::format(", given more than once: {}", listed(repeated));
  return Error{ErrorCode::kInconclusive, message, {}};
}

}  // namespace

Result<std::vector<std::int64_t>> shard_segments(std::span<const std::int64_t> drawn, std::int64_t index,
                                                 std::int64_t count) {
  if (count < 1 || count > kMaxShards || index < 0 || index >= count) {
    return usage_error(
        fmt::format("shard {}/{}: must be 0/N to N-1/N with N at most {}", index, count, kMaxShards));
  }
  std::vector<std::int64_t> out;
  for (auto i = static_cast<std::size_t>(index); i < drawn.size(); i += static_cast<std::size_t>(count)) {
    out.push_back(drawn[i]);
  }
  return out;
}

std::string_view name_of(ShardRole role) { return role == ShardRole::kShard ? "shard" : "part"; }

bool of_one_verification(const Shard& a, const Shard& b) {
  return a.version == b.version && a.assignment == b.assignment && a.dataset == b.dataset &&
         a.count == b.count && a.drawn == b.drawn;
}

std::string encode_shard(const Shard& shard) {
  json::Array drawn;
  for (const std::int64_t index : shard.drawn) drawn.emplace_back(index);
  json::Array rows;
  for (const VerdictRow& row : shard.rows) rows.push_back(row.to_json());
  const json::Object out{{"format", kFormat},
                         {"role", name_of(shard.role)},
                         {"version", shard.version},
                         {"assignment", assignment_json(shard.assignment)},
                         {"dataset", shard.dataset.hex()},
                         {"index", shard.index},
                         {"count", shard.count},
                         {"drawn", drawn},
                         {"rows", rows}};
  if (!shard.assignment.audited) return json::Value(out).dump();
  json::Object audit = out;
  audit.emplace("denied", json::Array(shard.denied.begin(), shard.denied.end()));
  return json::Value(audit).dump();
}

Result<Shard> decode_shard(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse_canonical(text, {.bytes = kMaxShardBytes, .depth = 4}));
  json::Fields in(value, "shard");
  if (in.string("format", 32) != kFormat) in.fail("format", fmt::format("is not \"{}\"", kFormat));
  Shard out;
  out.role = manifest::read_enum(in, "role", std::array{ShardRole::kShard, ShardRole::kPart});
  out.version = in.string("version", kMaxVersionBytes);
  out.assignment = manifest::read_object(in, "assignment", read_assignment);
  out.dataset = manifest::read_digest(in, "dataset");
  out.count = in.integer("count", 1, kMaxShards);
  out.index = in.integer("index", 0, out.count - 1);
  out.drawn = read_numbers(in, "drawn");
  out.rows = read_rows(in);
  if (out.assignment.audited) out.denied = read_numbers(in, "denied");
  DGX_CHECK(in.finish());
  return out;
}

Result<MergedShards> merge_shards(std::span<const Shard> shards) {
  if (shards.empty()) return Error{ErrorCode::kInconclusive, "no shards", {}};
  for (const Shard& shard : shards) {
    if (!of_one_verification(shard, shards[0]))
      return malformed(fmt::format("shard {}/{}: belongs to another verification", shard.index, shard.count));
    DGX_CHECK(check_complete(shard));
    DGX_CHECK(check_denied(shard));
  }
  DGX_CHECK(check_each_once(shards));
  MergedShards out;
  for (const Shard& shard : shards) {
    out.rows.insert(out.rows.end(), shard.rows.begin(), shard.rows.end());
    out.denied.insert(out.denied.end(), shard.denied.begin(), shard.denied.end());
  }
  std::sort(out.rows.begin(), out.rows.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  std::sort(out.denied.begin(), out.denied.end());
  return out;
}

}  // namespace dgx::protocol
