#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dgx/kernels/cpu/resumed_dot.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"

namespace dgx::kernels::cpu {

/// Sums that a block of terms of a window gradient is added to. They lie tile after tile, as micro-kernels
/// read and write them: a set, one float an element.
struct BlockSums {
  const float* group = nullptr;  ///< the open group's before the block; null: +0
  float* out = nullptr;          ///< where the sums go
  bool accumulate = false;       ///< added to `out`, which holds the groups before
  bool resumes = false;          ///< `out` holds a block that is not complete, before and after

  /// Tells a micro-kernel the sums of the tile that begins at `at`.
  void give(TileTask& task, std::int64_t at) const {
    task.group = group == nullptr ? nullptr : group + at;
    task.out = out + at;
    task.accumulate = accumulate;
    task.resumes = resumes;
  }
};

/// Visitors of sums and their places in the caller's memory: copy one to the other.
inline void store_sum(const float& sum, float& number) { number = sum; }
inline void load_sum(float& sum, const float& number) { sum = number; }

/// Adds terms begin … end−1, whole blocks and groups but for the last ones, to `total`; `goes_on`: it holds
/// the groups before them. `group` is scratch. Calls add_block(first, end, sums) block by block.
template <class AddBlock>
void add_groups_of_terms(std::int64_t begin, std::int64_t end, bool goes_on, float* group, float* total,
                         AddBlock add_block) {
  for (std::int64_t k = begin; k < end; k += kDotBlock) {
    const std::int64_t stop = std::min(end, k + kDotBlock);
    const bool opens = (k - begin) % kDotGroupPositions == 0;
    const bool closes = (stop - begin) % kDotGroupPositions == 0 || stop == end;
    const bool accumulates = closes && (goes_on || k - begin >= kDotGroupPositions);
    add_block(k, stop, BlockSums{opens ? nullptr : group, closes ? total : group, accumulates, false});
  }
}

/// Takes a share of the terms of a window gradient (take_share, resumed_dot.h). `words`: by DotWord, the
/// words of all elements in the caller's memory; null if there is none, the same if two are of one place.
/// `sets`: three sets of `size` floats. Calls add_block(begin, end, sums) with terms of the share, and
/// load(set, word) and store(set, word), which copy a set of sums.
template <class AddBlock, class Load, class Store>
void take_window_share(const DotShare& share, const std::array<float*, kDotWords>& words, float* sets,
                       std::int64_t size, AddBlock add_block, Load load, Store store) {
  // The set of a word: that of the first one in its memory.
  const auto index_of = [&](DotWord word) {
    const float* const place = words[static_cast<std::size_t>(word)];
    const auto first = std::ranges::find(words, place) - words.begin();
    return place == nullptr ? static_cast<std::int64_t>(word) : first;
  };
  const auto set_of = [&](DotWord word) { return sets + index_of(word) * size; };
  const auto for_each_place = [&](auto visit) {
    for (const DotWord word : {DotWord::kBlock, DotWord::kGroup, DotWord::kTotal}) {
      float* const place = words[static_cast<std::size_t>(word)];
      if (place != nullptr && index_of(word) == static_cast<std::int64_t>(word)) visit(set_of(word), place);
    }
  };
  std::fill_n(sets, static_cast<std::int64_t>(kDotWords) * size, 0.0F);
  if (share.first != 0) for_each_place(load);
  take_share(
      share,
      [&](DotWord word, Start start, std::int64_t begin, std::int64_t end) {
        float* const into = set_of(word);
        switch (word) {
          case DotWord::kBlock:
            if (start == Start::kZero) std::fill_n(into, size, 0.0F);
            return add_block(begin, end, BlockSums{nullptr, into, false, true});
          case DotWord::kGroup:
            for (std::int64_t k = begin; k < end; k += kDotBlock) {
              const bool opens = start == Start::kZero && k == begin;
              add_block(k, std::min(end, k + kDotBlock),
                        BlockSums{opens ? nullptr : into, into, false, false});
            }
            return;
          case DotWord::kTotal:
            // At the edge of a group, its word holds nothing.
            return add_groups_of_terms(begin, end, start == Start::kSum, set_of(DotWord::kGroup), into,
                                       add_block);
        }
      },
      [&](DotWord from, DotWord into, bool fresh) {
        const float* const complete = set_of(from);
        float* const sums = set_of(into);
        for (std::int64_t i = 0; i < size; ++i) sums[i] = (fresh ? 0.0F : sums[i]) + complete[i];
      });
  for_each_place(store);
}

}  // namespace dgx::kernels::cpu
