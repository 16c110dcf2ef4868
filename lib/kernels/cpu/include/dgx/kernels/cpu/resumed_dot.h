#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cpu {

/// Dots that are cut between positions (dgx-placement(7), "Running states"): their words lie in memory, each
/// word of all elements like the value itself. DotState (kernels/dot_state.h) is the definition for one
/// element.
enum class DotWord : std::uint8_t { kBlock, kGroup, kTotal };
inline constexpr std::size_t kDotWords = 3;

/// The positions first … first + count − 1 of dots; `last` if no further ones come, so that the total is the
/// dot.
struct DotShare {
  std::int64_t first = 0, count = 0;
  bool last = false;
};

/// Takes a share's positions, from block to block and from group to group, in as few products as the words
/// allow. Calls, in the order of the positions,
///   product(word, start, begin, end): positions begin … end−1 of the share go into `word`, of which `start`
///     says what it holds. With kZero and kSum they are whole blocks, or in kTotal whole groups, but for the
///     share's or the dots' last ones;
///   close(from, into, fresh): `from` is complete: into = into + from; +0 + from if `fresh`, as `into` then
///     holds nothing.
template <class Product, class Close>
void take_share(const DotShare& share, Product product, Close close) {
  const std::int64_t end = share.first + share.count;
  for (std::int64_t p = share.first; p < end;) {
    const std::int64_t at = p, in_block = p % kDotBlock, in_group = p % kDotGroupPositions;
    const auto take = [&](DotWord word, Start start, std::int64_t to) {
      p = std::min(end, to);
      product(word, start, at - share.first, p - share.first);
    };
    const auto done = [&](std::int64_t size) { return p % size == 0 || (share.last && p == end); };
    if (in_block == 0 && in_group == 0) {
      const std::int64_t groups = (end - p) / kDotGroupPositions, blocks = (end - p) / kDotBlock;
      if (share.last || groups > 0) {
        const auto start = p == 0 ? Start::kZero : Start::kSum;
        take(DotWord::kTotal, start, share.last ? end : p + groups * kDotGroupPositions);
      } else if (blocks > 0) {
        take(DotWord::kGroup, Start::kZero, p + blocks * kDotBlock);
      } else {
        take(DotWord::kBlock, Start::kZero, end);
      }
      continue;
    }
    if (in_block != 0) {
      take(DotWord::kBlock, Start::kBlock, p - in_block + kDotBlock);
      if (!done(kDotBlock)) continue;
      close(DotWord::kBlock, DotWord::kGroup, in_group < kDotBlock);
    } else if (share.last || end - p >= kDotBlock) {
      take(DotWord::kGroup, Start::kSum, p + kDotBlock);
    } else {
      take(DotWord::kBlock, Start::kZero, end);
      continue;
    }
    if (done(kDotGroupPositions)) close(DotWord::kGroup, DotWord::kTotal, p <= kDotGroupPositions);
  }
}

/// For each word where it lies: at itself, or, where one never holds anything while the other does, in place
/// of the one above. A dot of at most a group needs no total of its own, one of at most a block no group.
[[nodiscard]] constexpr DotWord place_of(DotWord word, std::int64_t positions) {
  if (word == DotWord::kTotal && positions <= kDotGroupPositions) word = DotWord::kGroup;
  if (word == DotWord::kGroup && positions <= kDotBlock) word = DotWord::kBlock;
  return word;
}

/// The words that shares between these bounds (positions, from 0 to all) use, by place_of().
[[nodiscard]] inline std::array<bool, kDotWords> words_used(std::span<const std::int64_t> bounds) {
  std::array<bool, kDotWords> used{};
  const auto use = [&](DotWord word) {
    used[static_cast<std::size_t>(place_of(word, bounds.back()))] = true;
  };
  for (std::size_t q = 0; q + 1 < bounds.size(); ++q) {
    take_share(
        {bounds[q], bounds[q + 1] - bounds[q], q + 2 == bounds.size()},
        [&](DotWord word, Start, std::int64_t, std::int64_t) { use(word); },
        [&](DotWord from, DotWord into, bool) { use(from), use(into); });
  }
  use(DotWord::kTotal);
  return used;
}

/// By DotWord: where a word of C lies.
using DotOutputs = std::array<Output, kDotWords>;

/// Lets `part` of C = A · B take a share of its positions: those of A and B, which have share.count of depth.
/// After the last share the total is C. Words of one place are the same memory.
void resume_matmul(const DotShare& share, const MatmulShape& shape, Matrix a, Matrix b,
                   const DotOutputs& words, const Part& part, Scratch& scratch);
void resume_matmul(const DotShare& share, const MatmulShape& shape, Matrix a, PackedMatrix b,
                   const DotOutputs& words, const Part& part, Scratch& scratch);

/// The same for column_dot_one() (column_sum.h): dots of the columns of x, share.count rows, with the
/// number 1.
void resume_column_dot_one(const DotShare& share, std::int64_t columns, const float* x,
                           std::int64_t row_stride, const std::array<float*, kDotWords>& words);

}  // namespace dgx::kernels::cpu
