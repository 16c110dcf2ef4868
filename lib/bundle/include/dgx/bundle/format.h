#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// The content of a bundle: its root attribute `dgx`. dgx-bundle(5), "Kinds".
enum class Kind { kDataset, kState, kRun, kSample, kTrace };

/// "dataset", "state", "run", "sample" or "trace".
[[nodiscard]] std::string_view name_of(Kind kind);

/// The kind of the bundle at `path`. kMissing, or kMalformed if it is not a bundle of ours.
[[nodiscard]] Result<Kind> kind_of(const std::string& path);

/// The root attribute `version` of every bundle written; a reader refuses every other.
inline constexpr std::int64_t kVersion = 2;

/// Limits of every reader. A file that exceeds one is kMalformed before anything of that size is allocated.
inline constexpr std::size_t kMaxObjects = 65536;
inline constexpr std::size_t kMaxNameBytes = 512;
inline constexpr std::size_t kMaxDepth = 16;
inline constexpr std::size_t kMaxAttributeBytes = 4096;
inline constexpr std::size_t kMaxChunkBytes = std::size_t{64} << 20;
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 36;

/// The digests that a reader recomputes: with kDigests all, which costs a SHA-256 of everything read and
/// finds every flipped bit of the logical content; with kNothing none, which suits callers that hash anyway.
enum class Check { kNothing, kDigests };

/// The way in which a writer stores large tensors: in compressed chunks, or as they are, so that programs
/// which do not have dgx's filter can read them.
enum class Storage { kCompressed, kPlain };

/// Resources for reading and writing numbers: worker threads (0: as many as the process may use); the most
/// bytes of numbers one read may allocate, for callers who know what they expect; and the size from which a
/// dataset's field is kept in a file (core/bulk.h).
struct Effort {
  int threads = 0;
  std::uint64_t max_bytes = kMaxTensorBytes;
  std::uint64_t bulk_bytes = kBulkBytes;
};

}  // namespace dgx::bundle
