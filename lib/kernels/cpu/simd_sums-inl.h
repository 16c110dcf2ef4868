// Included by simd_kernels.cc after simd_matmul-inl.h.

// Adds up columns [0, kVectors · lanes) of kBlocks blocks of kDotBlock rows at a time: the blocks are
// independent chains, which hide the latency of the additions when the matrix is narrow.
template <int kVectors, int kBlocks>
void add_blocks(const float* x, std::int64_t stride, std::int64_t rows, V* group) {
  const D d;
  V sums[kBlocks][kVectors];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[b][v] = hn::Zero(d);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[b][v] = hn::Add(sums[b][v], hn::LoadU(d, x + b * kDotBlock * stride + v * kLanes));
      }
    }
    x += stride;
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int v = 0; v < kVectors; ++v) group[v] = hn::Add(group[v], sums[b][v]);
  }
}

template <int kVectors>
void column_vectors(std::int64_t rows, const float* x, std::int64_t stride, float* out) {
  constexpr int kBlocks = 8 / kVectors;
  const D d;
  V total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = hn::Zero(d);
  for (std::int64_t first = 0; first < rows; first += kDotGroupPositions) {
    const std::int64_t end = std::min(rows, first + kDotGroupPositions);
    V group[kVectors];
    for (int v = 0; v < kVectors; ++v) group[v] = hn::Zero(d);
    std::int64_t r = first;
    for (; r + kBlocks * kDotBlock <= end; r += kBlocks * kDotBlock) {
      add_blocks<kVectors, kBlocks>(x + r * stride, stride, kDotBlock, group);
    }
    for (; r < end; r += kDotBlock) {
      add_blocks<kVectors, 1>(x + r * stride, stride, std::min(kDotBlock, end - r), group);
    }
    for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], group[v]);
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, out + v * kLanes);
}

void column_dot_one(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t stride,
                    float* out) {
  if (columns < kLanes) return scalar_kernels().column_dot_one(rows, columns, x, stride, out);
  std::int64_t c = 0;
  for (; c + 8 * kLanes <= columns; c += 8 * kLanes) column_vectors<8>(rows, x + c, stride, out + c);
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) column_vectors<2>(rows, x + c, stride, out + c);
  for (; c + kLanes <= columns; c += kLanes) column_vectors<1>(rows, x + c, stride, out + c);
  // The last columns, with some that are already done: a column has the same sum however often it is
  // computed.
  if (c < columns) column_vectors<1>(rows, x + columns - kLanes, stride, out + columns - kLanes);
}

template <int kVectors>
HWY_INLINE void add_rows_of(float* to, const float* from, std::int64_t rows, std::int64_t width) {
  const D d;
  V sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::LoadU(d, to + v * kLanes);
  for (; rows > 0; --rows, from += width) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], hn::LoadU(d, from + v * kLanes));
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, to + v * kLanes);
}

void add_rows(float* to, const float* from, std::int64_t rows, std::int64_t width) {
  std::int64_t i = 0;
  for (; i + 8 * kLanes <= width; i += 8 * kLanes) add_rows_of<8>(to + i, from + i, rows, width);
  for (; i + kLanes <= width; i += kLanes) add_rows_of<1>(to + i, from + i, rows, width);
}

inline constexpr int kItems = kSumLanes;  // read at a time
inline constexpr int kSumVectors = kItems / kLanes;

float block_sum(const float* x, std::int64_t count) {
  const D d;
  V sums[kSumVectors];
  for (int v = 0; v < kSumVectors; ++v) sums[v] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kItems <= count; i += kItems) {
    for (int v = 0; v < kSumVectors; ++v) sums[v] = hn::Add(sums[v], hn::LoadU(d, x + i + v * kLanes));
  }
  alignas(64) float lanes[kItems] = {};
  if (i < count) {  // a lane is never −0, so that adding +0 to it changes nothing
    std::memcpy(lanes, x + i, static_cast<std::size_t>(count - i) * sizeof(float));
    for (int v = 0; v < kSumVectors; ++v) sums[v] = hn::Add(sums[v], hn::Load(d, lanes + v * kLanes));
  }
  for (int v = 0; v < kSumVectors; ++v) hn::Store(sums[v], d, lanes + v * kLanes);
  for (int distance = kItems / 2; distance > 0; distance /= 2) {
    for (int l = 0; l < distance; ++l) lanes[l] += lanes[l + distance];
  }
  return lanes[0];
}

float max_of(const float* x, std::int64_t count) {
  const D d;
  const V zero = hn::Zero(d);
  V best[4];
  for (V& b : best) b = hn::Set(d, -std::numeric_limits<float>::infinity());
  V poison = zero;  // NaN once a NaN was seen: x · 0 would be NaN for infinities too, so it is selected
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) {
      const V value = hn::Add(hn::LoadU(d, x + i + v * kLanes), zero);
      best[v] = hn::Max(best[v], value);
      poison = hn::IfThenElse(hn::IsNaN(value), value, poison);
    }
  }
  alignas(64) float lanes[2][kLanes];
  hn::Store(hn::Max(hn::Max(best[0], best[1]), hn::Max(best[2], best[3])), d, lanes[0]);
  hn::Store(poison, d, lanes[1]);
  float result = scalar_kernels().max(lanes[0], kLanes);
  for (const float p : lanes[1]) result = p == p ? result : p;
  const float rest = scalar_kernels().max(x + i, count - i);
  if (result != result) return result;
  return rest > result || rest != rest ? rest : result;
}
