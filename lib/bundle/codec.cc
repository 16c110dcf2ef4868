#include "codec.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <memory>

namespace dgx::bundle {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// One context, of about a megabyte, per thread; threads live as long as one bundle is written or read.
ZSTD_CCtx* compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  return context.get();
}

ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

void grow(Scratch& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

// Writes all byte planes of a block in one pass, so that the numbers are read once and stay in the
// first-level cache.
template <std::size_t kBytes>
void shuffle_numbers(const std::uint8_t* in, std::size_t count, std::uint8_t* out) {
  constexpr std::size_t kBlock = 2048;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t size = std::min(kBlock, count - first);
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      const std::uint8_t* from = in + first * kBytes + byte;
      std::uint8_t* to = out + byte * count + first;
      for (std::size_t i = 0; i < size; ++i) to[i] = from[i * kBytes];
    }
  }
}

template <std::size_t kBytes>
void unshuffle_numbers(const std::uint8_t* in, std::size_t stride, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t byte = 0; byte < kBytes; ++byte) out[i * kBytes + byte] = in[byte * stride + i];
  }
}

}  // namespace

void shuffle(ByteView in, std::size_t number_bytes, std::span<std::uint8_t> out) {
  assert(in.size() == out.size() && in.size() % number_bytes == 0);
  const std::size_t count = in.size() / number_bytes;
  if (number_bytes == 4) return shuffle_numbers<4>(in.data(), count, out.data());
  if (number_bytes == 8) return shuffle_numbers<8>(in.data(), count, out.data());
  std::copy_n(in.begin(), in.size(), out.begin());
}

void unshuffle(ByteView in, std::size_t number_bytes, std::span<std::uint8_t> out) {
  assert(in.size() >= out.size() && out.size() % number_bytes == 0);
  const std::size_t stride = in.size() / number_bytes;
  const std::size_t count = out.size() / number_bytes;
  if (number_bytes == 4) return unshuffle_numbers<4>(in.data(), stride, count, out.data());
  if (number_bytes == 8) return unshuffle_numbers<8>(in.data(), stride, count, out.data());
  std::copy_n(in.begin(), out.size(), out.begin());
}

Result<ByteView> encode_chunk(ByteView numbers, std::size_t number_bytes, std::size_t chunk_bytes,
                              Scratch& scratch, Scratch& out) {
  assert(numbers.size() <= chunk_bytes);
  ByteView plain = numbers;
  Scratch padded;
  if (numbers.size() < chunk_bytes) {
    padded.assign(numbers.begin(), numbers.end());
    padded.resize(chunk_bytes);
    plain = padded;
  }
  if (number_bytes > 1) {
    grow(scratch, chunk_bytes);
    shuffle(plain, number_bytes, {scratch.data(), chunk_bytes});
    plain = {scratch.data(), chunk_bytes};
  }
  grow(out, ZSTD_compressBound(chunk_bytes));
  const std::size_t size =
      ZSTD_compressCCtx(compressor(), out.data(), out.size(), plain.data(), plain.size(), kZstdLevel);
  if (ZSTD_isError(size)) return internal_error(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  return ByteView{out.data(), size};
}

Status decode_chunk(ByteView stored, std::size_t number_bytes, std::size_t chunk_bytes,
                    std::span<std::uint8_t> numbers, Scratch& scratch) {
  assert(numbers.size() <= chunk_bytes);
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != chunk_bytes) {
    return malformed(fmt::format("is not a zstd frame of {} bytes", chunk_bytes));
  }
  if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
    return malformed("is not exactly one zstd frame");
  }
  const bool direct = number_bytes == 1 && numbers.size() == chunk_bytes;
  if (!direct) grow(scratch, chunk_bytes);
  std::uint8_t* const target = direct ? numbers.data() : scratch.data();
  const std::size_t size =
      ZSTD_decompressDCtx(decompressor(), target, chunk_bytes, stored.data(), stored.size());
  if (ZSTD_isError(size)) return malformed(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  if (size != chunk_bytes) return malformed(fmt::format("holds {} bytes, expected {}", size, chunk_bytes));
  if (!direct) unshuffle({scratch.data(), chunk_bytes}, number_bytes, numbers);
  return {};
}

std::size_t max_stored_bytes(std::size_t chunk_bytes) { return ZSTD_compressBound(chunk_bytes); }

}  // namespace dgx::bundle
