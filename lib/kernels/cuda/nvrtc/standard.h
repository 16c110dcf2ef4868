// The parts of the standard library that the formulas need and NVRTC lacks: handed to it under the name of
// every standard header that they include.
#pragma once
#ifndef DGX_NVRTC_STANDARD_H  // it is included under many names
#define DGX_NVRTC_STANDARD_H

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;

#define DGX_BOTH __host__ __device__
#define __extension__  // a GNU keyword

namespace std {

using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr));

template <class To, class From>
DGX_BOTH constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  DGX_BOTH static constexpr float infinity() { return bit_cast<float>(0x7f800000U); }
};
template <>
struct numeric_limits<int64_t> {
  DGX_BOTH static constexpr int64_t max() { return 0x7fffffffffffffffLL; }
  DGX_BOTH static constexpr int64_t min() { return -max() - 1; }
};

template <class T>
DGX_BOTH constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
DGX_BOTH constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
DGX_BOTH constexpr const T& clamp(const T& x, const T& low, const T& high) {
  return x < low ? low : high < x ? high : x;
}
template <class T, size_t kSize>
DGX_BOTH constexpr size_t size(const T (&)[kSize]) {
  return kSize;
}

DGX_BOTH inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
DGX_BOTH inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
DGX_BOTH inline float sqrt(float x) { return ::sqrtf(x); }
DGX_BOTH inline float fabs(float x) { return ::fabsf(x); }
DGX_BOTH inline double fabs(double x) { return ::fabs(x); }
DGX_BOTH inline float abs(float x) { return ::fabsf(x); }
DGX_BOTH inline float floor(float x) { return ::floorf(x); }
DGX_BOTH inline float trunc(float x) { return ::truncf(x); }
DGX_BOTH inline float nearbyint(float x) { return ::nearbyintf(x); }
DGX_BOTH inline float rint(float x) { return ::rintf(x); }
DGX_BOTH inline float copysign(float x, float sign) { return ::copysignf(x, sign); }
DGX_BOTH inline double copysign(double x, double sign) { return ::copysign(x, sign); }

}  // namespace std

#undef DGX_BOTH

#endif
