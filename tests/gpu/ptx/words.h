#pragma once

// PTX's instructions, each a function of the same name, for modules that translate.py has translated: by
// NVIDIA's "Parallel Thread Execution ISA". Registers are unsigned integers of their size, whatever they
// hold. Where the manual leaves a choice, this takes the one that hides the fewest bugs: asynchronous copies
// leave garbage when they begin and complete as late as allowed, and a result that is not a number has the
// bits that a GPU gives it.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#ifdef DGX_GENERATED_LIBRARY
#include "emulated/generated_words.h"
#else
#include "emulated/words.h"
#endif

// Laid out by hand: most of it is macros that are called without a semicolon.
// clang-format off
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;
__extension__ using u128 = unsigned __int128;

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "PTX: %s\n", what);
  std::abort();
}

// Bits and numbers.

template <class T>
inline T from(u64 bits) {
  if constexpr (sizeof(T) == 4 && !std::is_integral_v<T>) {
    const auto half = static_cast<u32>(bits);
    T number;
    std::memcpy(&number, &half, sizeof number);
    return number;
  } else if constexpr (!std::is_integral_v<T>) {
    T number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  } else {
    return static_cast<T>(bits);
  }
}
inline u32 bits(f32 x) {
  if (x != x) return 0x7fffffffU;
  u32 out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}
inline u64 bits(f64 x) {
  if (x != x) return 0x7fffffffffffffffULL;
  u64 out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}
inline u64 bits(s64 x) { return static_cast<u64>(x); }
inline u64 bits(u64 x) { return x; }
inline u32 bits(s32 x) { return static_cast<u32>(x); }
inline u32 bits(u32 x) { return x; }
inline u16 bits(s16 x) { return static_cast<u16>(x); }
inline u16 bits(u16 x) { return x; }

// Memory. Generic addresses are the host's; those of shared memory are offsets.

constexpr u64 kSharedBytes = 1 << 21;
alignas(256) u8 shared_memory[kSharedBytes];

inline u64 address_of(const volatile void* memory) { return reinterpret_cast<u64>(memory); }
inline u64 shared_address(u64 offset) {
  if (offset >= kSharedBytes) fail("an address beyond shared memory");
  return address_of(shared_memory) + offset;
}
inline u8* at(u64 address) { return reinterpret_cast<u8*>(address); }

inline void check_alignment(u64 address, u64 size) {
  if (address % size != 0) fail("a misaligned address");
}

template <class T>
inline T load(u64 address) {
  T out;
  std::memcpy(&out, at(address), sizeof out);
  return out;
}
template <class T>
inline void store(u64 address, u64 number) {
  const T value = static_cast<T>(number);
  std::memcpy(at(address), &value, sizeof value);
}

#define PTX_MEMORY(kind, type)                        \
  inline auto ld_##kind(u64 address) { return load<type>(address); } \
  inline void st_##kind(u64 address, u64 number) { store<type>(address, number); }
PTX_MEMORY(u8, u8) PTX_MEMORY(b8, u8) PTX_MEMORY(s8, std::int8_t)
PTX_MEMORY(u16, u16) PTX_MEMORY(b16, u16) PTX_MEMORY(s16, s16)
PTX_MEMORY(u32, u32) PTX_MEMORY(b32, u32) PTX_MEMORY(s32, s32) PTX_MEMORY(f32, u32)
PTX_MEMORY(u64, u64) PTX_MEMORY(b64, u64) PTX_MEMORY(s64, s64) PTX_MEMORY(f64, u64)
#undef PTX_MEMORY

inline u64 cvta_to_global_u64(u64 a) { return a; }
inline u64 cvta_to_local_u64(u64 a) { return a; }
inline u64 cvta_local_u64(u64 a) { return a; }
inline u64 cvta_global_u64(u64 a) { return a; }
inline u64 cvta_shared_u64(u64 a) { return shared_address(a); }
inline u64 cvta_to_shared_u64(u64 a) { return a - address_of(shared_memory); }

// Asynchronous copies, thread by thread.

struct Copy {
  u64 to, from, size, read;
};
struct Copies {
  std::vector<Copy> begun;
  std::deque<std::vector<Copy>> groups;
};
Copies copies_of[1024];

inline void cp_async(u64 to, u64 source, u64 size, u64 read) {
  check_alignment(to, size);
  if (read > 0) check_alignment(source, size);
  std::memset(at(shared_address(to)), 0xa5, size);
  copies_of[threadIdx.x].begun.push_back({to, source, size, read < size ? read : size});
}
inline void cp_async_commit_group() {
  Copies& mine = copies_of[threadIdx.x];
  mine.groups.push_back(std::move(mine.begun));
  mine.begun.clear();
}
inline void cp_async_wait_group(u64 left) {
  Copies& mine = copies_of[threadIdx.x];
  for (; mine.groups.size() > left; mine.groups.pop_front()) {
    for (const Copy& copy : mine.groups.front()) {
      u8* const to = at(shared_address(copy.to));
      std::memset(to, 0, copy.size);
      if (copy.read > 0) std::memcpy(to, at(copy.from), copy.read);
    }
  }
}

// Threads of a warp synchronise here as all threads of their block do: kernels call these only where all of them are.

inline u32 of_warp[1024];
inline void check_warp(u64 mask) {
  if (from<u32>(mask) != 0xffffffffU || blockDim.x % 32 != 0) fail("not all threads of a warp");
}
inline u32 shfl_sync_bfly_b32(u64 a, u64 lanes, u64 c, u64 mask) {
  check_warp(mask);
  if (c != 31) fail("a part of a warp");
  of_warp[threadIdx.x] = from<u32>(a);
  ::dgx::kernels::cuda::emulated::barrier("PTX", __LINE__);
  const u32 out = of_warp[threadIdx.x ^ from<u32>(lanes)];
  ::dgx::kernels::cuda::emulated::barrier("PTX", __LINE__);
  return out;
}
inline u32 vote_sync_ballot_b32(bool holds, u64 mask) {
  check_warp(mask);
  of_warp[threadIdx.x] = holds;
  ::dgx::kernels::cuda::emulated::barrier("PTX", __LINE__);
  u32 out = 0;
  for (u32 lane = 0; lane < 32; ++lane) out |= of_warp[threadIdx.x / 32 * 32 + lane] << lane;
  ::dgx::kernels::cuda::emulated::barrier("PTX", __LINE__);
  return out;
}
inline u32 brev_b32(u64 a) {
  u32 out = 0;
  for (u32 n = 0; n < 32; ++n) out |= (from<u32>(a) >> n & 1U) << (31 - n);
  return out;
}
inline u32 bfind_shiftamt_u32(u64 a) { return from<u32>(a) == 0 ? ~u32{0} : static_cast<u32>(__builtin_clz(from<u32>(a))); }

// Integers. Undefined results (division by zero) are values that a test would notice.

#define PTX_INTEGER(width)                                                                       \
  inline u##width add_s##width(u64 a, u64 b) { return static_cast<u##width>(a + b); }               \
  inline u##width add_u##width(u64 a, u64 b) { return static_cast<u##width>(a + b); }               \
  inline u##width sub_s##width(u64 a, u64 b) { return static_cast<u##width>(a - b); }               \
  inline u##width sub_u##width(u64 a, u64 b) { return static_cast<u##width>(a - b); }               \
  inline u##width mul_lo_s##width(u64 a, u64 b) { return static_cast<u##width>(a * b); }            \
  inline u##width mul_lo_u##width(u64 a, u64 b) { return static_cast<u##width>(a * b); }            \
  inline u##width mad_lo_s##width(u64 a, u64 b, u64 c) { return static_cast<u##width>(a * b + c); } \
  inline u##width mad_lo_u##width(u64 a, u64 b, u64 c) { return static_cast<u##width>(a * b + c); } \
  inline u##width neg_s##width(u64 a) { return static_cast<u##width>(0 - a); }                      \
  inline u##width and_b##width(u64 a, u64 b) { return static_cast<u##width>(a & b); }               \
  inline u##width or_b##width(u64 a, u64 b) { return static_cast<u##width>(a | b); }                \
  inline u##width xor_b##width(u64 a, u64 b) { return static_cast<u##width>(a ^ b); }               \
  inline u##width not_b##width(u64 a) { return static_cast<u##width>(~a); }                         \
  inline u##width min_s##width(u64 a, u64 b) { return bits(from<s##width>(a) < from<s##width>(b) ? from<s##width>(a) : from<s##width>(b)); } \
  inline u##width max_s##width(u64 a, u64 b) { return bits(from<s##width>(a) > from<s##width>(b) ? from<s##width>(a) : from<s##width>(b)); } \
  inline u##width min_u##width(u64 a, u64 b) { return from<u##width>(a) < from<u##width>(b) ? from<u##width>(a) : from<u##width>(b); } \
  inline u##width max_u##width(u64 a, u64 b) { return from<u##width>(a) > from<u##width>(b) ? from<u##width>(a) : from<u##width>(b); } \
  inline u##width abs_s##width(u64 a) { return from<s##width>(a) < 0 ? static_cast<u##width>(0 - a) : static_cast<u##width>(a); } \
  inline u##width shl_b##width(u64 a, u64 n) { return from<u32>(n) >= width ? 0 : static_cast<u##width>(a << n); } \
  inline u##width shr_u##width(u64 a, u64 n) { return from<u32>(n) >= width ? 0 : static_cast<u##width>(from<u##width>(a) >> n); } \
  inline u##width shr_b##width(u64 a, u64 n) { return shr_u##width(a, n); }                         \
  inline u##width shr_s##width(u64 a, u64 n) { return bits(static_cast<s##width>(from<s##width>(a) >> (from<u32>(n) >= width ? width - 1 : from<u32>(n)))); } \
  inline u##width selp_b##width(u64 a, u64 b, bool p) { return static_cast<u##width>(p ? a : b); }  \
  inline u##width selp_u##width(u64 a, u64 b, bool p) { return static_cast<u##width>(p ? a : b); }  \
  inline u##width selp_s##width(u64 a, u64 b, bool p) { return static_cast<u##width>(p ? a : b); }
PTX_INTEGER(16) PTX_INTEGER(32) PTX_INTEGER(64)
#undef PTX_INTEGER

#define PTX_DIVISION(width)                                                              \
  inline u##width div_u##width(u64 a, u64 b) {                                           \
    return from<u##width>(b) == 0 ? static_cast<u##width>(~u64{0}) : from<u##width>(a) / from<u##width>(b); \
  }                                                                                      \
  inline u##width rem_u##width(u64 a, u64 b) { return static_cast<u##width>(a - div_u##width(a, b) * b); } \
  inline u##width div_s##width(u64 a, u64 b) {                                           \
    const auto x = from<s##width>(a), y = from<s##width>(b);                             \
    if (y == 0) return static_cast<u##width>(~u64{0});                                   \
    return y == -1 ? static_cast<u##width>(0 - a) : bits(static_cast<s##width>(x / y));  \
  }                                                                                      \
  inline u##width rem_s##width(u64 a, u64 b) { return static_cast<u##width>(a - div_s##width(a, b) * b); }
PTX_DIVISION(16) PTX_DIVISION(32) PTX_DIVISION(64)
#undef PTX_DIVISION

inline u64 mul_wide_s32(u64 a, u64 b) { return bits(s64{from<s32>(a)} * s64{from<s32>(b)}); }
inline u64 mul_wide_u32(u64 a, u64 b) { return u64{from<u32>(a)} * u64{from<u32>(b)}; }
inline u32 mul_wide_u16(u64 a, u64 b) { return u32{from<u16>(a)} * u32{from<u16>(b)}; }
inline u64 mad_wide_s32(u64 a, u64 b, u64 c) { return mul_wide_s32(a, b) + c; }
inline u64 mad_wide_u32(u64 a, u64 b, u64 c) { return mul_wide_u32(a, b) + c; }
inline u64 mul_hi_u64(u64 a, u64 b) { return static_cast<u64>((static_cast<u128>(a) * b) >> 64); }
inline u64 mul_hi_s64(u64 a, u64 b) { return mul_hi_u64(a, b) - (from<s64>(a) < 0 ? b : 0) - (from<s64>(b) < 0 ? a : 0); }
inline u16 mul_hi_u16(u64 a, u64 b) { return static_cast<u16>(u32{from<u16>(a)} * from<u16>(b) >> 16); }
inline u32 mul_hi_u32(u64 a, u64 b) { return static_cast<u32>(mul_wide_u32(a, b) >> 32); }
inline u32 mul_hi_s32(u64 a, u64 b) { return static_cast<u32>(mul_wide_s32(a, b) >> 32); }
inline u32 clz_b32(u64 a) { return from<u32>(a) == 0 ? 32 : static_cast<u32>(__builtin_clz(from<u32>(a))); }
inline u32 clz_b64(u64 a) { return a == 0 ? 64 : static_cast<u32>(__builtin_clzll(a)); }
inline u32 popc_b32(u64 a) { return static_cast<u32>(__builtin_popcount(from<u32>(a))); }

inline u64 field_mask(u32 length) { return length >= 64 ? ~u64{0} : (u64{1} << length) - 1; }
inline u64 bfi_b64(u64 a, u64 b, u64 position, u64 length) {
  const u32 p = position & 255U, n = length & 255U;
  if (p >= 64) return b;
  const u64 mask = field_mask(n) << p;
  return (b & ~mask) | ((a << p) & mask);
}
inline u32 bfi_b32(u64 a, u64 b, u64 position, u64 length) {
  const u32 p = position & 255U, n = length & 255U;
  if (p >= 32) return from<u32>(b);
  const u64 mask = field_mask(n) << p;
  return static_cast<u32>((b & ~mask) | ((a << p) & mask));
}
inline u32 bfe_u32(u64 a, u64 position, u64 length) {
  const u32 p = position & 255U, n = length & 255U;
  return p >= 32 ? 0 : static_cast<u32>((u64{from<u32>(a)} >> p) & field_mask(n));
}
inline u64 bfe_u64(u64 a, u64 position, u64 length) {
  const u32 p = position & 255U, n = length & 255U;
  return p >= 64 ? 0 : (a >> p) & field_mask(n);
}
// A pair of words, the lower one first.
inline u64 pair(u64 low, u64 high) { return high << 32 | from<u32>(low); }
inline u32 shf_l_wrap_b32(u64 low, u64 high, u64 n) { return static_cast<u32>(pair(low, high) << (n & 31U) >> 32); }
inline u32 shf_r_wrap_b32(u64 low, u64 high, u64 n) { return static_cast<u32>(pair(low, high) >> (n & 31U)); }
inline u32 shf_l_clamp_b32(u64 low, u64 high, u64 n) { return n >= 32 ? from<u32>(low) : static_cast<u32>(pair(low, high) << n >> 32); }
inline u32 shf_r_clamp_b32(u64 low, u64 high, u64 n) { return n >= 32 ? from<u32>(high) : static_cast<u32>(pair(low, high) >> n); }
inline u32 prmt_b32(u64 a, u64 b, u64 selector) {
  const u64 bytes = pair(a, b);
  u32 out = 0;
  for (u32 n = 0; n < 4; ++n) {
    const u32 s = selector >> (4 * n) & 15U;
    u32 byte = bytes >> (8 * (s & 7U)) & 255U;
    if ((s & 8U) != 0) byte = (byte & 128U) != 0 ? 255 : 0;
    out |= byte << (8 * n);
  }
  return out;
}

/// Dot product of a's two 16-bit halves and b's two lower bytes (lo) or upper bytes (hi), plus c.
inline u32 dp2a_lo_u32_u32(u64 a, u64 b, u64 c) { return static_cast<u32>((a & 0xffffU) * (b & 255U) + (a >> 16 & 0xffffU) * (b >> 8 & 255U) + c); }
inline u32 dp2a_hi_u32_u32(u64 a, u64 b, u64 c) { return dp2a_lo_u32_u32(a, b >> 16, c); }

bool carry;  // CC.CF; shared by all threads, none of which yields between writing and reading it
#define PTX_CARRY(name, type)                                        \
  inline type add_cc_##name(u64 x, u64 y) {                          \
    const type a = static_cast<type>(x), b = static_cast<type>(y);   \
    carry = static_cast<type>(a + b) < a;                            \
    return static_cast<type>(a + b);                                 \
  }                                                                  \
  inline type addc_cc_##name(u64 x, u64 y) {                         \
    const type a = static_cast<type>(x), b = static_cast<type>(y);   \
    const u128 sum = static_cast<u128>(a) + b + carry;               \
    carry = sum > static_cast<type>(~type{0});                       \
    return static_cast<type>(sum);                                   \
  }                                                                  \
  inline type addc_##name(u64 x, u64 y) {                            \
    return static_cast<type>(static_cast<type>(x) + static_cast<type>(y) + carry); \
  }                                                                  \
  inline type sub_cc_##name(u64 x, u64 y) {                          \
    const type a = static_cast<type>(x), b = static_cast<type>(y);   \
    carry = a < b;                                                   \
    return static_cast<type>(a - b);                                 \
  }                                                                  \
  inline type subc_cc_##name(u64 x, u64 y) {                         \
    const type a = static_cast<type>(x), b = static_cast<type>(y);   \
    const bool borrow = static_cast<u128>(a) < static_cast<u128>(b) + carry; \
    const type out = static_cast<type>(a - b - carry);               \
    carry = borrow;                                                  \
    return out;                                                      \
  }                                                                  \
  inline type subc_##name(u64 x, u64 y) {                            \
    return static_cast<type>(static_cast<type>(x) - static_cast<type>(y) - carry); \
  }
PTX_CARRY(u32, u32) PTX_CARRY(s32, u32) PTX_CARRY(u64, u64) PTX_CARRY(s64, u64)
#undef PTX_CARRY

inline bool and_pred(bool a, bool b) { return a && b; }
inline bool or_pred(bool a, bool b) { return a || b; }
inline bool xor_pred(bool a, bool b) { return a != b; }
inline bool not_pred(bool a) { return !a; }

// Comparisons of numbers. Those that end with u, and nan, are true if either side is NaN.

#define PTX_COMPARE(kind, type)                                                           \
  inline bool setp_eq_##kind(u64 a, u64 b) { return from<type>(a) == from<type>(b); }     \
  inline bool setp_ne_##kind(u64 a, u64 b) { return from<type>(a) < from<type>(b) || from<type>(a) > from<type>(b); } \
  inline bool setp_lt_##kind(u64 a, u64 b) { return from<type>(a) < from<type>(b); }      \
  inline bool setp_le_##kind(u64 a, u64 b) { return from<type>(a) <= from<type>(b); }     \
  inline bool setp_gt_##kind(u64 a, u64 b) { return from<type>(a) > from<type>(b); }      \
  inline bool setp_ge_##kind(u64 a, u64 b) { return from<type>(a) >= from<type>(b); }
PTX_COMPARE(s16, s16) PTX_COMPARE(u16, u16) PTX_COMPARE(b16, u16)
PTX_COMPARE(s32, s32) PTX_COMPARE(u32, u32) PTX_COMPARE(b32, u32)
PTX_COMPARE(s64, s64) PTX_COMPARE(u64, u64) PTX_COMPARE(b64, u64)
PTX_COMPARE(f32, f32) PTX_COMPARE(f64, f64)
#undef PTX_COMPARE
#define PTX_UNORDERED(type)                                                                \
  inline bool setp_equ_##type(u64 a, u64 b) { return !setp_ne_##type(a, b); }              \
  inline bool setp_neu_##type(u64 a, u64 b) { return !setp_eq_##type(a, b); }              \
  inline bool setp_ltu_##type(u64 a, u64 b) { return !setp_ge_##type(a, b); }              \
  inline bool setp_leu_##type(u64 a, u64 b) { return !setp_gt_##type(a, b); }              \
  inline bool setp_gtu_##type(u64 a, u64 b) { return !setp_le_##type(a, b); }              \
  inline bool setp_geu_##type(u64 a, u64 b) { return !setp_lt_##type(a, b); }              \
  inline bool setp_num_##type(u64 a, u64 b) { return from<type>(a) == from<type>(a) && from<type>(b) == from<type>(b); } \
  inline bool setp_nan_##type(u64 a, u64 b) { return !setp_num_##type(a, b); }
PTX_UNORDERED(f32) PTX_UNORDERED(f64)
#undef PTX_UNORDERED

// Floating-point numbers.

#define PTX_NUMBER(type, out, sign)                                                              \
  inline out add_rn_##type(u64 a, u64 b) { return bits(from<type>(a) + from<type>(b)); }         \
  inline out sub_rn_##type(u64 a, u64 b) { return bits(from<type>(a) - from<type>(b)); }         \
  inline out mul_rn_##type(u64 a, u64 b) { return bits(from<type>(a) * from<type>(b)); }         \
  inline out div_rn_##type(u64 a, u64 b) { return bits(from<type>(a) / from<type>(b)); }         \
  inline out rcp_rn_##type(u64 a) { return bits(1 / from<type>(a)); }                            \
  inline out sqrt_rn_##type(u64 a) { return bits(std::sqrt(from<type>(a))); }                    \
  inline out fma_rn_##type(u64 a, u64 b, u64 c) { return bits(std::fma(from<type>(a), from<type>(b), from<type>(c))); } \
  inline out abs_##type(u64 a) { return static_cast<out>(a) & ~(sign); }                         \
  inline out neg_##type(u64 a) { return static_cast<out>(a) ^ (sign); }                          \
  inline out copysign_##type(u64 a, u64 b) { return (static_cast<out>(b) & ~(sign)) | (static_cast<out>(a) & (sign)); } \
  inline out selp_##type(u64 a, u64 b, bool p) { return static_cast<out>(p ? a : b); }
PTX_NUMBER(f32, u32, u32{1} << 31) PTX_NUMBER(f64, u64, u64{1} << 63)
#undef PTX_NUMBER
/// Minimum of two numbers; if one is NaN, the other. -0 is less than +0.
inline u32 min_f32(u64 a, u64 b) {
  const f32 x = from<f32>(a), y = from<f32>(b);
  if (x != x || y != y) return bits(x != x ? y : x);
  return bits(x < y || (x == y && std::signbit(x)) ? x : y);
}
inline u32 max_f32(u64 a, u64 b) { return neg_f32(min_f32(neg_f32(a), neg_f32(b))); }

// Conversions.

#define PTX_RESIZE(to, source, out) \
  inline out cvt_##to##_##source(u64 a) { return static_cast<out>(static_cast<to>(from<source>(a))); }
PTX_RESIZE(u32, u64, u32) PTX_RESIZE(u64, u32, u64) PTX_RESIZE(s64, s32, u64) PTX_RESIZE(u32, u16, u32) PTX_RESIZE(u64, u16, u64)
PTX_RESIZE(u16, u32, u16) PTX_RESIZE(u16, u64, u16) PTX_RESIZE(s32, s64, u32) PTX_RESIZE(s32, s16, u32) PTX_RESIZE(s64, s16, u64)
PTX_RESIZE(u32, u8, u32) PTX_RESIZE(u16, u8, u16) PTX_RESIZE(u64, u8, u64)
#undef PTX_RESIZE
inline u64 cvt_f64_f32(u64 a) { return bits(static_cast<f64>(from<f32>(a))); }
inline u32 cvt_rn_f32_f64(u64 a) { return bits(static_cast<f32>(from<f64>(a))); }
inline u64 cvt_rn_f64_s64(u64 a) { return bits(static_cast<f64>(from<s64>(a))); }
inline u64 cvt_rn_f64_u64(u64 a) { return bits(static_cast<f64>(a)); }
inline u64 cvt_rn_f64_s32(u64 a) { return bits(static_cast<f64>(from<s32>(a))); }
inline u64 cvt_rn_f64_u32(u64 a) { return bits(static_cast<f64>(from<u32>(a))); }
inline u32 cvt_rn_f32_s64(u64 a) { return bits(static_cast<f32>(from<s64>(a))); }
inline u32 cvt_rn_f32_u64(u64 a) { return bits(static_cast<f32>(a)); }
inline u32 cvt_rn_f32_s32(u64 a) { return bits(static_cast<f32>(from<s32>(a))); }
inline u32 cvt_rn_f32_u32(u64 a) { return bits(static_cast<f32>(from<u32>(a))); }
inline u32 cvt_rn_f32_s16(u64 a) { return bits(static_cast<f32>(from<s16>(a))); }
inline u32 cvt_rn_f32_u16(u64 a) { return bits(static_cast<f32>(from<u16>(a))); }
inline u32 cvt_rn_f32_u8(u64 a) { return bits(static_cast<f32>(from<u8>(a))); }
inline u32 cvt_rni_f32_f32(u64 a) { return bits(std::nearbyint(from<f32>(a))); }
inline u32 cvt_rzi_f32_f32(u64 a) { return bits(std::trunc(from<f32>(a))); }
inline u32 cvt_rmi_f32_f32(u64 a) { return bits(std::floor(from<f32>(a))); }
inline u32 cvt_rpi_f32_f32(u64 a) { return bits(std::ceil(from<f32>(a))); }
/// Conversion to an integer, clamped; NaN gives 0 or, for 64 bits, the least integer.
template <class To, class From>
inline To clamped(From x, To of_none) {
  if (x != x) return of_none;
  const auto limit = std::ldexp(From{1}, static_cast<int>(sizeof(To)) * 8 - 1);
  if (x >= limit) return static_cast<To>(~(u64{1} << (sizeof(To) * 8 - 1)));
  return x < -limit ? static_cast<To>(u64{1} << (sizeof(To) * 8 - 1)) : static_cast<To>(x);
}
inline u64 cvt_rzi_s64_f32(u64 a) { return bits(clamped<s64>(from<f32>(a), s64{-1} << 63)); }
inline u64 cvt_rzi_s64_f64(u64 a) { return bits(clamped<s64>(from<f64>(a), s64{-1} << 63)); }
inline u32 cvt_rzi_s32_f32(u64 a) { return bits(clamped<s32>(from<f32>(a), s32{0})); }
inline u32 cvt_rni_s32_f32(u64 a) { return bits(clamped<s32>(std::nearbyint(from<f32>(a)), s32{0})); }

}  // namespace
