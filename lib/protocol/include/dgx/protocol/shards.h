#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/protocol/verify.h"

/// Shards: a verification cut into parts that are replayed by different machines, or one after another.
///
/// All parts are of one draw. Part i of n has every n-th of the drawn segments, from the i-th on, so parts
/// differ by at most one segment, and which they are depends on nothing but i, n and the draw. A part that is
/// interrupted leaves the rows it has (kPart), from which it continues.
///
/// Each shard names the whole verification: task, proof, verifier, beacon, dataset, all drawn segments, and
/// the version of dgx. merge_shards() takes only shards that agree on all of it, each once and complete. So
/// what was made for another proof, key or beacon cannot get into a verdict by mistake. Against a stranger's
/// shards, which could claim anything, only their maker's code helps (dgx-verify(1), "Work keys"): nothing in
/// a shard proves that its rows were computed.
namespace dgx::protocol {

/// A complete part of a verification, or the beginning of one that will be continued.
enum class ShardRole : std::uint8_t { kShard, kPart };
[[nodiscard]] std::string_view name_of(ShardRole role);

/// Part `index` of `count` of a verification. Not signed, since only the verdict made of all parts is a
/// statement: whoever reads one back must know that it is their own (dgx-verify(1), "Work keys").
struct Shard {
  ShardRole role = ShardRole::kShard;
  std::string version;  ///< version of dgx that made it
  Assignment assignment;
  Digest dataset;
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::vector<std::int64_t> drawn;         ///< the whole verification's segments, sorted
  std::vector<manifest::VerdictRow> rows;  ///< this part's
  /// The segments, of its rows, whose witnesses an audit denies; ascending.
  std::vector<std::int64_t> denied = {};
};

/// Bytes of a shard's text; that of a proof's 65,536 segments has fewer.
inline constexpr std::size_t kMaxShardBytes = std::size_t{1} << 28;

/// Segments of part `index` of `count`: every count-th of the drawn ones; together the parts are `drawn`.
/// kUsage unless 0 ≤ index < count ≤ 65536.
[[nodiscard]] Result<std::vector<std::int64_t>> shard_segments(std::span<const std::int64_t> drawn,
                                                               std::int64_t index, std::int64_t count);

/// True if two shards are parts of one verification by one version: equal but for role, index and rows.
[[nodiscard]] bool of_one_verification(const Shard& a, const Shard& b);

/// A shard as one canonical JSON object, without a newline, and back (kMalformed with the field).
[[nodiscard]] std::string encode_shard(const Shard& shard);
[[nodiscard]] Result<Shard> decode_shard(std::string_view text);

/// The findings of all shards together.
struct MergedShards {
  std::vector<manifest::VerdictRow> rows;  ///< sorted
  std::vector<std::int64_t> denied;        ///< by an audit; ascending
};
/// kInconclusive with a list if a shard is missing, given twice or incomplete; kMalformed if they are not of
/// one verification, or one denies what is not among its rows or does not agree.
[[nodiscard]] Result<MergedShards> merge_shards(std::span<const Shard> shards);

}  // namespace dgx::protocol
