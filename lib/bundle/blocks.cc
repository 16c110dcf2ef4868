#include "blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "cursor.h"

namespace dgx::bundle {
namespace {

/// No block of metadata that we write is larger: a header with every attribute at its limit is smaller.
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 20;
constexpr std::size_t kChecksumBytes = 4;

constexpr std::uint32_t rotated(std::uint32_t value, int by) { return value << by | value >> (32 - by); }

/// The state of lookup3 and its two mixing functions.
struct Mixer {
  std::uint32_t a, b, c;

  void mix() {
    a -= c, a ^= rotated(c, 4), c += b;
    b -= a, b ^= rotated(a, 6), a += c;
    c -= b, c ^= rotated(b, 8), b += a;
    a -= c, a ^= rotated(c, 16), c += b;
    b -= a, b ^= rotated(a, 19), a += c;
    c -= b, c ^= rotated(b, 4), b += a;
  }
  void finish() {
    c ^= b, c -= rotated(b, 14);
    a ^= c, a -= rotated(c, 11);
    b ^= a, b -= rotated(a, 25);
    c ^= b, c -= rotated(b, 16);
    a ^= c, a -= rotated(c, 4);
    b ^= a, b -= rotated(a, 14);
    c ^= b, c -= rotated(b, 24);
  }
  /// Adds up to 12 bytes, as three little-endian words padded with zeros.
  void add(ByteView bytes) {
    std::array<std::uint32_t, 3> words{};
    for (std::size_t i = 0; i < bytes.size(); ++i) words[i / 4] |= std::uint32_t{bytes[i]} << (8 * (i % 4));
    a += words[0], b += words[1], c += words[2];
  }
};

}  // namespace

std::uint32_t lookup3(ByteView bytes) {
  const std::uint32_t start = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size());
  Mixer mixer{start, start, start};
  if (bytes.empty()) return mixer.c;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    mixer.add(bytes.first(12));
    mixer.mix();
  }
  mixer.add(bytes);
  mixer.finish();
  return mixer.c;
}

Status Blocks::claim(std::uint64_t begin, std::uint64_t size) {
  if (size == 0 || begin > file_.size_bytes() || size > file_.size_bytes() - begin)
    return malformed(fmt::format("refers to {} bytes at {}, outside the file", size, begin));
  const auto after = used_.lower_bound(begin);
  const bool free = (after == used_.end() || after->first >= begin + size) &&
                    (after == used_.begin() || std::prev(after)->second <= begin);
  if (!free) return malformed(fmt::format("uses {} bytes at {} twice", size, begin));
  used_.emplace_hint(after, begin, begin + size);
  return {};
}

Result<Bytes> Blocks::raw(std::uint64_t begin, std::uint64_t size) {
  if (size > kMaxBlockBytes) return malformed(fmt::format("has a block of {} bytes at {}", size, begin));
  DGX_CHECK(claim(begin, size));
  Bytes block(static_cast<std::size_t>(size));
  DGX_CHECK(file_.read(begin, block));
  return block;
}

Result<Bytes> Blocks::checked(std::uint64_t begin, std::uint64_t size, std::string_view signature) {
  DGX_TRY(Bytes block, raw(begin, size));
  const std::size_t head = signature.size() + 1;
  if (block.size() < head + kChecksumBytes || !as_text(block).starts_with(signature) || block[head - 1] != 0)
    return malformed(fmt::format("has no {} block at {}", signature, begin));
  DGX_CHECK(compare_sum(block, fmt::format("{} block", signature)));
  return Bytes(block.begin() + static_cast<std::ptrdiff_t>(head), block.end() - kChecksumBytes);
}

Status Blocks::compare_sum(ByteView bytes, std::uint32_t stated, std::string_view name) const {
  if (sums_ == Checksums::kIgnore || lookup3(bytes) == stated) return {};
  return malformed(fmt::format("has a {} with a wrong checksum", name));
}

Status Blocks::compare_sum(ByteView block, std::string_view name) const {
  if (block.size() < kChecksumBytes) return malformed(fmt::format("has a {} that is cut off", name));
  const ByteView content = block.first(block.size() - kChecksumBytes);
  return compare_sum(content, Cursor(block.subspan(content.size())).u32(), name);
}

Result<Bytes> Blocks::peek(std::uint64_t begin, std::uint64_t size) const {
  if (begin >= file_.size_bytes())
    return malformed(fmt::format("refers to bytes at {}, outside the file", begin));
  Bytes out(static_cast<std::size_t>(std::min(size, file_.size_bytes() - begin)));
  DGX_CHECK(file_.read(begin, out));
  return out;
}

}  // namespace dgx::bundle
