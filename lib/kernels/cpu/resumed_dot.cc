#include "dgx/kernels/cpu/resumed_dot.h"

#include <vector>

#include "dgx/kernels/cpu/column_sum.h"

namespace dgx::kernels::cpu {
namespace {

const Output& at(const DotOutputs& words, DotWord word) { return words[static_cast<std::size_t>(word)]; }

/// into[i] = into[i] + from[i], or +0 + from[i] if `fresh`. Both may be the same.
void add_row(const float* from, float* into, std::int64_t count, bool fresh) {
  if (fresh) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = 0.0F + from[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
  }
}

/// The same for a part of two matrices.
void add_part(const Output& from, const Output& into, const Part& part, bool fresh) {
  for (std::int64_t row = part.row_begin; row < part.row_end; ++row) {
    for (std::int64_t column = part.column_begin; column < part.column_end; column += kPanelWidth) {
      const auto place = [&](const Output& of) {
        return of.data + row * of.row_stride + column / kPanelWidth * of.panel_stride;
      };
      add_row(place(from), place(into), std::min(kPanelWidth, part.column_end - column), fresh);
    }
  }
}

Matrix from_row(const Matrix& b, std::int64_t row) {
  return {b.data + row * b.row_stride, b.row_stride, b.column_stride};
}
PackedMatrix from_row(const PackedMatrix& b, std::int64_t row) {
  return {b.data + row * kPanelWidth, b.depth, b.columns};
}

template <class B>
void resume(const DotShare& share, const MatmulShape& shape, Matrix a, B b, const DotOutputs& words,
            const Part& part, Scratch& scratch) {
  take_share(
      share,
      [&](DotWord word, Start start, std::int64_t begin, std::int64_t end) {
        const Matrix left{a.data + begin * a.column_stride, a.row_stride, a.column_stride};
        matmul({shape.rows, shape.columns, end - begin}, left, from_row(b, begin), at(words, word), part, {},
               scratch, start);
      },
      [&](DotWord from, DotWord into, bool fresh) {
        add_part(at(words, from), at(words, into), part, fresh);
      });
}

}  // namespace

void resume_matmul(const DotShare& share, const MatmulShape& shape, Matrix a, Matrix b,
                   const DotOutputs& words, const Part& part, Scratch& scratch) {
  resume(share, shape, a, b, words, part, scratch);
}

void resume_matmul(const DotShare& share, const MatmulShape& shape, Matrix a, PackedMatrix b,
                   const DotOutputs& words, const Part& part, Scratch& scratch) {
  resume(share, shape, a, b, words, part, scratch);
}

void resume_column_dot_one(const DotShare& share, std::int64_t columns, const float* x,
                           std::int64_t row_stride, const std::array<float*, kDotWords>& words) {
  std::vector<float> sums(static_cast<std::size_t>(columns));
  const auto at_word = [&](DotWord word) { return words[static_cast<std::size_t>(word)]; };
  take_share(
      share,
      [&](DotWord word, Start start, std::int64_t begin, std::int64_t end) {
        const float* const from = x + begin * row_stride;
        float* const into = at_word(word);
        if (start == Start::kBlock) {  // fma(1, x, block) is block + x
          for (std::int64_t row = 0; row < end - begin; ++row)
            add_row(from + row * row_stride, into, columns, false);
          return;
        }
        // Groups of a share begin at group edges, so their sums are those of a dot.
        std::int64_t row = 0;
        if (start == Start::kZero) {
          row = std::min(end - begin, kDotGroupPositions);
          column_dot_one(row, columns, from, row_stride, into);
        }
        for (; row < end - begin; row += kDotGroupPositions) {
          column_dot_one(std::min(end - begin - row, kDotGroupPositions), columns, from + row * row_stride,
                         row_stride, sums.data());
          add_row(sums.data(), into, columns, false);
        }
      },
      [&](DotWord from, DotWord into, bool fresh) { add_row(at_word(from), at_word(into), columns, fresh); });
}

}  // namespace dgx::kernels::cpu
