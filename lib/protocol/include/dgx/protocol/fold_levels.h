#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/checked.h"
#include "dgx/core/result.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/position.h"
#include "dgx/kernels/primitive.h"

namespace dgx::protocol {

/// One list of running results that the defender shows for an element of a fold. Units are counted from the
/// fold's beginning.
struct FoldList {
  enum class What : std::uint8_t {
    kRunning,  ///< chain, max, argmax: the result after a position
    kTotals,   ///< dot: the total after a group
    kGroup,    ///< dot: a group's running result after each of its blocks
    kBlock,    ///< dot: a block's running result after each of its positions
    kSum,      ///< sum: the sum itself
    kItems,  ///< sum: the items of one block of level `level`, each the result of a block of the level below
    kLanes,  ///< sum: the running result of its lane after each position of a block
  };
  What what = What::kRunning;
  int level = 0;
  std::int64_t begin = 0;  ///< the list covers units begin … end - 1
  std::int64_t end = 0;
  std::int64_t stride = 1;  ///< entry k is the result after unit min(begin + (k+1) stride, end) - 1

  [[nodiscard]] std::int64_t count() const { return ceil_div(end - begin, stride); }
  [[nodiscard]] std::int64_t end_of(std::int64_t entry) const {
    return std::min(begin + (entry + 1) * stride, end);
  }
};

/// A dispute about one element of a fold, narrowed from its result to one position (dgx-dispute(7),
/// "Numbers"). The order of additions is that of dgx-numerics(7), "Folds".
class FoldLevels {
 public:
  /// A list that contradicts what the defender showed before, with the addition that it breaks, if it breaks
  /// one.
  struct Contradiction {
    std::optional<kernels::ScalarRecord> scalar;
    kernels::Number claimed;
    std::int64_t position = 0;  ///< the last position that went into it
    std::string words;
  };
  /// One position, with the running result before and after it. `before` is empty at the fold's start.
  struct Position {
    std::int64_t position = 0;
    std::optional<kernels::Running> before;
    kernels::Running after;
  };
  /// A party's own entries of a list.
  using Show = std::function<Result<std::vector<kernels::Running>>(const FoldList&)>;

  /// `line` is a fold; `element` is its element as stored, as the defender claims it.
  FoldLevels(const kernels::Primitive& line, std::int64_t positions, const kernels::Number& element);

  /// Takes what the defender shows; kMalformed if its length is not the one that the rules give, or if it has
  /// a NaN of another form than may be posted.
  [[nodiscard]] Result<std::optional<Contradiction>> post(ByteView numbers);
  /// The bytes of what the defender shows next, from their own numbers.
  [[nodiscard]] Result<Bytes> compose(const Show& show) const;

  /// The list shown last, and its entries.
  [[nodiscard]] const FoldList& list() const { return list_; }
  [[nodiscard]] const std::vector<kernels::Running>& shown() const { return shown_; }
  /// True if each entry is one position, which is claimed, not named.
  [[nodiscard]] bool at_position() const;
  /// Narrows to entry `entry`, below shown().size(). Asserted: not at_position().
  void name(std::int64_t entry);
  [[nodiscard]] Position position(std::int64_t entry) const;

 private:
  [[nodiscard]] FoldList running(FoldList::What what, std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] FoldList block_of(int level, std::int64_t block) const;
  [[nodiscard]] std::optional<Contradiction> take(std::vector<kernels::Running> entries);
  [[nodiscard]] std::optional<Contradiction> check_end() const;
  [[nodiscard]] std::optional<Contradiction> check_added() const;
  [[nodiscard]] std::optional<Contradiction> check_combined() const;
  [[nodiscard]] bool leaves_nothing_to_name() const { return shown_.size() == 1 && !at_position(); }
  [[nodiscard]] std::size_t entry_bytes() const;

  kernels::Kind kind_;
  DType dtype_;
  kernels::NumberType type_;
  bool type_known_;
  kernels::Number element_;
  std::vector<std::int64_t> level_sizes_;  // for a sum: items of each level
  FoldList list_;                          // shown, or to be shown next
  std::vector<kernels::Running> shown_;
  std::optional<kernels::Running> before_;  // the running result that the list starts from
  std::optional<kernels::Running> after_;   // what its entries must give; if empty, the element
};

/// The bytes of running results as moves carry them.
[[nodiscard]] Bytes encode_numbers(std::span<const kernels::Running> numbers, kernels::NumberType type,
                                   bool with_position);

}  // namespace dgx::protocol
