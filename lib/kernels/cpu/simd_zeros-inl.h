// Included by simd_kernels.cc after simd_matmul-inl.h: the searches for zeros and non-finite numbers that
// zero_terms.h calls. Loops end at the first number that decides, so that operands without zeros, the usual
// case, cost almost nothing.

// True if `count` numbers at each of `rows` places are ±0. `count` is 16, or there is one row of at most 16.
HWY_INLINE bool all_zero(const float* x, int rows, std::int64_t stride, int count) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToUnsigned<decltype(d)> u;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  if (count < lanes) return std::all_of(x, x + count, [](float number) { return number == 0.0F; });
  auto bits = hn::Zero(u);
  for (int r = 0; r < rows; ++r, x += stride) {
    for (int i = 0; i < count; i += lanes) {
      bits = hn::Or(bits, hn::BitCast(u, hn::LoadU(d, x + std::min(i, count - lanes))));
    }
  }
  return hn::AllTrue(u, hn::Eq(hn::Add(bits, bits), hn::Zero(u)));
}

// `is_zero(k)`: positions [k, k + step) are all zero.
template <class IsZero>
HWY_INLINE Range without_zeros_at_ends(std::int64_t depth, std::int64_t step, const IsZero& is_zero) {
  Range terms{0, depth};
  while (terms.begin + step <= terms.end && is_zero(terms.begin)) terms.begin += step;
  while (terms.begin + step <= terms.end && is_zero(terms.end - step)) terms.end -= step;
  return terms;
}

Range terms_of_row_panel(const TileTask& task, int rows) {
  if (task.a_row_stride == 1) {
    return without_zeros_at_ends(
        task.depth, 1, [&](std::int64_t k) { return all_zero(task.a + k * task.a_step, 1, 0, rows); });
  }
  constexpr int kStep = 16;
  return without_zeros_at_ends(task.depth, kStep, [&](std::int64_t k) {
    return all_zero(task.a + k, rows, task.a_row_stride, kStep);
  });
}

Range terms_of_panels(const TileTask& task, int panels) {
  return without_zeros_at_ends(task.depth, 1, [&](std::int64_t k) {
    return all_zero(task.b + k * task.b_step, panels, task.b_panel_stride, 16);
  });
}

bool all_finite(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  const D d;
  const hn::RebindToUnsigned<D> u;
  const auto exponent = hn::Set(u, 0x7f800000u);
  auto largest = hn::Zero(u);  // of the exponent fields: all ones only in infinities and NaNs
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
    std::int64_t i = 0;
    for (; i + kLanes <= columns; i += kLanes) {
      largest = hn::Max(largest, hn::And(hn::BitCast(u, hn::LoadU(d, x + i)), exponent));
    }
    for (; i < columns; ++i) {
      if (!std::isfinite(x[i])) return false;
    }
  }
  return hn::AllFalse(u, hn::Eq(largest, exponent));
}
