#include "filters.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "cursor.h"

namespace dgx::bundle {
namespace {

constexpr unsigned kDeflate = 1;
constexpr unsigned kShuffle = 2;
constexpr unsigned kFletcher32 = 3;
constexpr unsigned kZstd = 32015;

Status inflate_chunk(std::uint64_t most, Bytes& bytes) {
  Bytes out(most);
  uLongf size = out.size();
  if (::uncompress(out.data(), &size, bytes.data(), bytes.size()) != Z_OK)
    return malformed(fmt::format("is not a deflate stream of at most {} bytes", most));
  out.resize(size);
  bytes = std::move(out);
  return {};
}

Status unpack_zstd(std::uint64_t most, Bytes& bytes) {
  const unsigned long long stated = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (stated > most) return malformed(fmt::format("is not a zstd frame of at most {} bytes", most));
  Bytes out(stated);
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) || size != stated) return malformed("is a damaged zstd frame");
  bytes = std::move(out);
  return {};
}

/// Bytes after the last whole number were not shuffled.
void undo_shuffle(std::size_t number_bytes, Bytes& bytes) {
  if (number_bytes < 2) return;
  Bytes out(bytes);
  const std::size_t count = bytes.size() / number_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t byte = 0; byte < number_bytes; ++byte)
      out[i * number_bytes + byte] = bytes[byte * count + i];
  }
  bytes = std::move(out);
}

/// HDF5 before 1.6.3 swapped the bytes of each half on some machines; its readers still accept both.
std::uint32_t swapped_halves(std::uint32_t sum) {
  return (sum & 0x00ff00ffU) << 8 | (sum & 0xff00ff00U) >> 8;
}

Status check_sum(Bytes& bytes) {
  if (bytes.size() < 4) return malformed(fmt::format("has {} bytes, too few for its checksum", bytes.size()));
  const ByteView content = ByteView(bytes).first(bytes.size() - 4);
  const std::uint32_t stated = Cursor(ByteView(bytes).last(4)).u32();
  const std::uint32_t found = fletcher32(content);
  if (stated != found && stated != swapped_halves(found)) return malformed("has a wrong checksum");
  bytes.resize(content.size());
  return {};
}

}  // namespace

std::uint32_t fletcher32(ByteView bytes) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  // Sums of 65,536 words fit; HDF5 folds more often, with the same result.
  const auto fold = [](std::uint64_t sum) { return (sum & 0xffff) + (sum >> 16); };
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const unsigned next = i + 1 < bytes.size() ? bytes[i + 1] : 0;
    low = fold(low + (std::uint64_t{bytes[i]} << 8 | next));
    high = fold(high + low);
  }
  return static_cast<std::uint32_t>(fold(high) << 16 | fold(low));
}

Status undo_filters(const std::vector<unsigned>& filters, std::uint32_t skipped, std::size_t number_bytes,
                    std::uint64_t chunk_bytes, Bytes& bytes) {
  const std::uint64_t most = chunk_bytes + 4 * filters.size();
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((skipped >> i & 1) != 0) continue;
    if (filters[i] == kDeflate) {
      DGX_CHECK(inflate_chunk(most, bytes));
    } else if (filters[i] == kZstd) {
      DGX_CHECK(unpack_zstd(most, bytes));
    } else if (filters[i] == kFletcher32) {
      DGX_CHECK(check_sum(bytes));
    } else if (filters[i] == kShuffle) {
      undo_shuffle(number_bytes, bytes);
    } else {
      return malformed(fmt::format("has filter {}", filters[i]),
                       "supported filters are deflate, shuffle, fletcher32 and zstd");
    }
  }
  if (bytes.size() == chunk_bytes) return {};
  return malformed(fmt::format("has {} bytes, not {}", bytes.size(), chunk_bytes));
}

}  // namespace dgx::bundle
