#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/position.h"
#include "dgx/kernels/primitive.h"

namespace dgx::protocol {

/// One list of running results that the defender shows of a fold's element. Units are counted from the fold's
/// beginning.
struct FoldList {
  enum class What : std::uint8_t {
    kRunning,  ///< chain, max, argmax: the result after positions
    kTotals,   ///< dot: the total after groups
    kGroup,    ///< dot: the group after its blocks
    kBlock,    ///< dot: the block after its positions
    kSum,      ///< sum: the sum itself
    kItems,  ///< sum: the items of one block of level `level`, each the result of a block of the level below
    kLanes,  ///< sum: the lane's result after each position of a block
  };
  What what = What::kRunning;
  int level = 0;
  std::int64_t begin = 0;  ///< the list covers units begin … end-1,
  std::int64_t end = 0;
  std::int64_t stride = 1;  ///< entry k says what there is after unit min(begin + (k+1) stride, end) - 1

  [[nodiscard]] std::int64_t count() const { return (end - begin + stride - 1) / stride; }
  [[nodiscard]] std::int64_t end_of(std::int64_t entry) const {
    return std::min(begin + (entry + 1) * stride, end);
  }
};

/// A dispute about one element of a fold, which narrows from its result to one position (dgx-dispute(7),
/// "Numbers"). The order of additions is that of dgx-numerics(7), "Folds".
class FoldLevels {
 public:
  /// A list that does not give what the defender showed before: with the addition that it breaks, if it is
  /// one.
  struct Contradiction {
    std::optional<kernels::ScalarRecord> scalar;
    kernels::Number claimed;
    std::int64_t position = 0;  ///< the last one that went into it
    std::string words;
  };
  /// One position, with the running result before it and after it. No `before`: the fold's start.
  struct Position {
    std::int64_t position = 0;
    std::optional<kernels::Running> before;
    kernels::Running after;
  };
  /// A party's own entries of a list.
  using Show = std::function<Result<std::vector<kernels::Running>>(const FoldList&)>;

  /// `line` is a fold, `element` its element as the defender claims it, stored.
  FoldLevels(const kernels::Primitive& line, std::int64_t positions, const kernels::Number& element);

  /// Takes what the defender shows; kMalformed if it has not the length that follows from the rules, or a NaN
  /// of another form.
  [[nodiscard]] Result<std::optional<Contradiction>> post(ByteView numbers);
  /// The list that the defender shows next, from his own numbers.
  [[nodiscard]] Result<Bytes> compose(const Show& show) const;

  /// The list shown last, and its entries.
  [[nodiscard]] const FoldList& list() const { return list_; }
  [[nodiscard]] const std::vector<kernels::Running>& shown() const { return shown_; }
  /// True if an entry is one position: then it is claimed, not named.
  [[nodiscard]] bool at_position() const;
  /// Narrows to entry `entry`, below shown().size(); not at_position(): asserted.
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
  std::vector<std::int64_t> level_sizes_;  // of a sum: items of each level
  FoldList list_;                          // shown, or to be shown next
  std::vector<kernels::Running> shown_;
  std::optional<kernels::Running> before_;  // what the list starts from
  std::optional<kernels::Running> after_;   // what its entries must give; none: the element
};

/// The bytes of running results as moves carry them, and back (kMalformed).
[[nodiscard]] Bytes encode_numbers(std::span<const kernels::Running> numbers, kernels::NumberType type,
                                   bool with_position);

}  // namespace dgx::protocol
