#include "sha256_each.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <optional>

#include "dgx/core/checked.h"
#include "dgx/core/processor.h"
#include "dgx/crypto/sha256.h"

namespace dgx::crypto {
namespace {

constexpr std::size_t kBlock = 64;
using Block = std::array<std::uint8_t, kBlock>;

/// Fewer messages than this are hashed one after another: all lanes of AVX2 or AVX-512 together take as long
/// as 2.8 messages of libcrypto.
constexpr std::size_t kFewest = 3;

/// The state before the first block: the first 32 bits of the fractional parts of the square roots of the
/// first eight primes.
constexpr std::array<std::uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// Writes `value` big-endian to `size` bytes.
void put(std::uint64_t value, std::size_t size, std::uint8_t* out) {
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(value >> 8 * (size - 1 - i));
}

/// One message of those that are hashed at once: a byte, then `rest`.
struct Message {
  std::uint8_t prefix;
  ByteView rest;

  [[nodiscard]] std::size_t size() const { return 1 + rest.size(); }
  /// The message's blocks, padded as FIPS 180-4, section 5.1.1, says.
  [[nodiscard]] std::size_t blocks() const { return ceil_div(size() + 9, kBlock); }

  /// Block `index`, where it lies if it has neither the prefix nor padding, else made in `made`.
  const std::uint8_t* block(std::size_t index, Block& made) const {
    const std::size_t begin = index * kBlock;
    if (index > 0 && begin + kBlock <= size()) return rest.data() + begin - 1;
    made.fill(0);
    if (index == 0) made[0] = prefix;
    const std::size_t from = std::max<std::size_t>(begin, 1);
    const std::size_t end = std::min(begin + kBlock, size());
    if (from < end) std::memcpy(made.data() + (from - begin), rest.data() + (from - 1), end - from);
    if (size() >= begin && size() < begin + kBlock) made[size() - begin] = 0x80;
    if (index + 1 == blocks()) put(std::uint64_t{8} * size(), 8, made.data() + kBlock - 8);
    return made.data();
  }
};

/// The widest vectors; none where libcrypto, with SHA instructions, is faster one message after another.
std::optional<LaneCompressor> choose_compressor() {
  const auto compressors = lane_compressors();
#if defined(__x86_64__)
  const bool libcrypto_is_faster = this_processor().sha;
#else
  const bool libcrypto_is_faster = true;  // most processors have SHA instructions
#endif
  if (libcrypto_is_faster || compressors.empty()) return std::nullopt;
  return compressors.back();
}

}  // namespace

void sha256_in_lanes(const LaneCompressor& compressor, std::uint8_t prefix, ByteView data,
                     std::span<Digest> out) {
  const std::size_t lanes = compressor.lanes;
  const std::size_t each = data.size() / out.size();
  std::array<Message, kMostLanes> messages{};
  // Lanes without a message of their own compute the last one again.
  for (std::size_t lane = 0; lane < lanes; ++lane)
    messages[lane] = {prefix, data.subspan(std::min(lane, out.size() - 1) * each, each)};
  std::array<std::uint32_t, 8 * kMostLanes> state{};
  for (std::size_t word = 0; word < 8; ++word) std::fill_n(&state[word * lanes], lanes, kStart[word]);
  std::array<Block, kMostLanes> made;
  std::array<const std::uint8_t*, kMostLanes> blocks{};
  for (std::size_t index = 0; index < messages[0].blocks(); ++index) {
    for (std::size_t lane = 0; lane < lanes; ++lane) blocks[lane] = messages[lane].block(index, made[lane]);
    compressor.compress(state.data(), blocks.data());
  }
  for (std::size_t lane = 0; lane < out.size(); ++lane) {
    for (std::size_t word = 0; word < 8; ++word)
      put(state[word * lanes + lane], 4, &out[lane].bytes[4 * word]);
  }
}

void sha256_each(std::uint8_t prefix, ByteView data, std::span<Digest> out) {
  static const auto kCompressor = choose_compressor();
  if (out.empty()) return;
  assert(data.size() % out.size() == 0);
  const std::size_t each = data.size() / out.size();
  std::size_t done = 0;
  while (kCompressor && out.size() - done >= kFewest) {
    const std::size_t count = std::min(out.size() - done, kCompressor->lanes);
    sha256_in_lanes(*kCompressor, prefix, data.subspan(done * each, count * each), out.subspan(done, count));
    done += count;
  }
  for (; done < out.size(); ++done) out[done] = sha256({&prefix, 1}, data.subspan(done * each, each));
}

}  // namespace dgx::crypto
