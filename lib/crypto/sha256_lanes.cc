#include "sha256_lanes.h"

#include <cstring>

#include "dgx/core/processor.h"

#define HWY_TARGET_INCLUDE "sha256_lanes.cc"
#include "dgx/core/vector_targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dgx::crypto::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<std::uint32_t> kTag;
using V = hn::Vec<decltype(kTag)>;
constexpr std::size_t kLanes = hn::MaxLanes(kTag);

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kRoundWords[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// The bits of `yes` where `mask` has ones, of `no` elsewhere: one instruction of AVX-512. Highway's function
/// of AVX2 looks at one bit a byte, so masks must be of whole lanes.
HWY_INLINE V select(V mask, V yes, V no) {
  if constexpr (HWY_TARGET == HWY_AVX3) return hn::IfVecThenElse(mask, yes, no);
  return hn::Xor(no, hn::And(mask, hn::Xor(yes, no)));
}

HWY_INLINE V small_sigma_0(V x) {
  return hn::Xor3(hn::RotateRight<7>(x), hn::RotateRight<18>(x), hn::ShiftRight<3>(x));
}

HWY_INLINE V small_sigma_1(V x) {
  return hn::Xor3(hn::RotateRight<17>(x), hn::RotateRight<19>(x), hn::ShiftRight<10>(x));
}

HWY_INLINE V big_sigma_0(V x) {
  return hn::Xor3(hn::RotateRight<2>(x), hn::RotateRight<13>(x), hn::RotateRight<22>(x));
}

HWY_INLINE V big_sigma_1(V x) {
  return hn::Xor3(hn::RotateRight<6>(x), hn::RotateRight<11>(x), hn::RotateRight<25>(x));
}

/// The big-endian words of one block a lane, from rows to lanes. Words are copied one by one: gathers are
/// slow on processors whose microcode keeps them from leaking.
void load_words(const std::uint8_t* const* blocks, V* words) {
  HWY_ALIGN std::uint32_t transposed[16][kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, blocks[lane] + 4 * i, sizeof(word));
      transposed[i][lane] = __builtin_bswap32(word);
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) words[i] = hn::Load(kTag, transposed[i]);
}

void compress(std::uint32_t* state, const std::uint8_t* const* blocks) {
  V words[16];  // of the message schedule, the last 16
  load_words(blocks, words);
  const auto row = [state](std::size_t i) { return state + i * kLanes; };
  V a = hn::LoadU(kTag, row(0));
  V b = hn::LoadU(kTag, row(1));
  V c = hn::LoadU(kTag, row(2));
  V d = hn::LoadU(kTag, row(3));
  V e = hn::LoadU(kTag, row(4));
  V f = hn::LoadU(kTag, row(5));
  V g = hn::LoadU(kTag, row(6));
  V h = hn::LoadU(kTag, row(7));
  for (std::size_t first = 0; first < 64; first += 16) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) {
      const V word = hn::Add(words[i], hn::Set(kTag, kRoundWords[first + i]));
      const V choice = select(e, f, g);
      const V majority = select(hn::Xor(a, b), c, b);
      const V first_sum = hn::Add(hn::Add(h, big_sigma_1(e)), hn::Add(choice, word));
      const V second_sum = hn::Add(big_sigma_0(a), majority);
      h = g;
      g = f;
      f = e;
      e = hn::Add(d, first_sum);
      d = c;
      c = b;
      b = a;
      a = hn::Add(first_sum, second_sum);
      if (first == 48) continue;
      words[i] = hn::Add(hn::Add(words[i], small_sigma_0(words[(i + 1) % 16])),
                         hn::Add(words[(i + 9) % 16], small_sigma_1(words[(i + 14) % 16])));
    }
  }
  const V rounds[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) hn::StoreU(hn::Add(hn::LoadU(kTag, row(i)), rounds[i]), kTag, row(i));
}

constexpr LaneCompressor kCompressor{kLanes, compress};

}  // namespace
}  // namespace dgx::crypto::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dgx::crypto {

std::vector<LaneCompressor> lane_compressors() {
  std::vector<LaneCompressor> out;
#if defined(__x86_64__)
  static_assert(N_AVX3::kLanes == kMostLanes);
  if (this_processor().avx2) out.push_back(N_AVX2::kCompressor);
  if (this_processor().avx512) out.push_back(N_AVX3::kCompressor);
#elif defined(__aarch64__)
  out.push_back(N_NEON::kCompressor);
#endif
  return out;
}

}  // namespace dgx::crypto
#endif
