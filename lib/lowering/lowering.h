#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder.h"
#include "dgx/lowering/aten.h"
#include "line_writer.h"
#include "pieces.h"
#include "tensor_form.h"

namespace dgx::lowering {

/// The progress of a graph's lowering: the program being built, and the form of every tensor defined so far.
struct LoweringState {
  const CapturedGraph& graph;
  Builder builder;
  std::vector<std::optional<TensorForm>> forms;  // by TensorId
  std::map<TensorId, Pieces> pieces;             // tensors that are 0 elsewhere; some have no form yet

  explicit LoweringState(const CapturedGraph& of) : graph(of), forms(of.tensors.size()) {}
  [[nodiscard]] bool is_defined(TensorId id) const;
  /// The form of a tensor that is defined; pieces are put together when the form is first asked for.
  [[nodiscard]] const TensorForm& form(TensorId id);
};

/// Makes `form` a value of its own, unless it is already the whole of one.
[[nodiscard]] TensorForm materialise(Builder& builder, const std::string& provenance, const TensorForm& form);
/// `form` in another shape of equal count; a copy if one access cannot express it.
[[nodiscard]] TensorForm reshaped(Builder& builder, const std::string& provenance, const TensorForm& form,
                                  const Shape& shape);
/// A form that a dot can read: a splat becomes a constant value.
[[nodiscard]] TensorForm without_splat(Builder& builder, const TensorForm& form);
/// The number that a splat is everywhere, nullopt for any other form.
[[nodiscard]] std::optional<double> splat_number(const TensorForm& form);
/// A form that picked indices (LineWriter::pick) can read with one access: a copy, unless each of its indices
/// has a coordinate to itself.
[[nodiscard]] TensorForm pickable(Builder& builder, const std::string& provenance, const TensorForm& form);
/// The sum over `dimensions` (sorted), kept as 1: trailing dimensions as a sum, others as a dot with 1
/// (dgx-lowerings(7), "Lowering guarantees").
[[nodiscard]] TensorForm sum_over(Builder& builder, const std::string& provenance, const TensorForm& form,
                                  const std::vector<std::size_t>& dimensions);

/// One ATen call being lowered. Arguments are read by their schema names. The first error sticks, and later
/// results are harmless, so that a lowering reads like a formula; lowerings that index shapes check ok()
/// first.
class Call {
 public:
  Call(LoweringState& state, std::size_t number);

  /// For example "aten::relu".
  [[nodiscard]] std::string_view name() const { return call_.name; }
  [[nodiscard]] bool has(std::string_view name) const;
  /// True if the argument is present and not None.
  [[nodiscard]] bool given(std::string_view name) const;
  [[nodiscard]] TensorForm tensor(std::string_view name);
  [[nodiscard]] std::vector<TensorForm> tensors(std::string_view name);
  /// A list of tensors, some of which may be None.
  [[nodiscard]] std::vector<std::optional<TensorForm>> optional_tensors(std::string_view name);
  /// A tensor argument, or a number of any kind as a splat.
  [[nodiscard]] TensorForm number_or_tensor(std::string_view name);
  [[nodiscard]] double number(std::string_view name);
  [[nodiscard]] double number(std::string_view name, double otherwise) {
    return given(name) ? number(name) : otherwise;
  }
  [[nodiscard]] float real(std::string_view name) { return static_cast<float>(number(name)); }
  [[nodiscard]] std::int64_t integer(std::string_view name);
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) {
    return given(name) ? integer(name) : otherwise;
  }
  [[nodiscard]] bool boolean(std::string_view name, bool otherwise);
  [[nodiscard]] std::string text(std::string_view name, std::string otherwise);
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name);
  /// A dimension of a tensor of this rank; negative ones count from the end.
  [[nodiscard]] std::size_t dimension(std::string_view name, std::size_t rank) {
    return wrap(integer(name), rank);
  }
  /// Sorted dimensions; None or an empty list means all.
  [[nodiscard]] std::vector<std::size_t> dimensions(std::string_view name, std::size_t rank);
  [[nodiscard]] std::size_t wrap(std::int64_t dimension, std::size_t rank);

  [[nodiscard]] const Shape& result_shape(std::size_t n = 0) const;
  [[nodiscard]] DType result_dtype(std::size_t n = 0) const;
  /// True if the argument is a tensor of torch.bool.
  [[nodiscard]] bool is_boolean(std::string_view name) const;
  /// True if the result is torch.bool, held as u8 0 or 1.
  [[nodiscard]] bool result_is_boolean(std::size_t n = 0) const;
  [[nodiscard]] bool wants(std::size_t n) const {
    return n < call_.results.size() && call_.results[n].has_value();
  }
  /// Gives `form`, in the captured result's shape, as result n. Refuses the call if type or count differ.
  void give(const TensorForm& form, std::size_t n = 0);
  /// The argument's pieces; null if it is not known to be 0 elsewhere.
  [[nodiscard]] const Pieces* pieces(std::string_view name) const;
  /// Gives result 0 as pieces, which are put together when it is needed.
  void give_pieces(Pieces pieces);
  /// Ends a map of the result's shape, and gives it as result `n`.
  void give(LineWriter& line, const Expression& result, std::size_t n = 0) {
    give(line.finish(result_dtype(n), result), n);
  }

  /// The line's `g`, for example "41 addmm".
  [[nodiscard]] const std::string& provenance() const { return provenance_; }
  [[nodiscard]] Builder& builder() { return state_.builder; }

  /// Refuses the call, naming op and place, unless `condition` holds. Returns it.
  bool require(bool condition, std::string_view what);
  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  [[nodiscard]] const AtenArgument* find(std::string_view name) const;
  [[nodiscard]] TensorForm form_of(const std::optional<TensorId>& id, std::string_view name);

  LoweringState& state_;
  const AtenCall& call_;
  std::string provenance_;
  std::optional<Error> error_;
};

/// The form as a value with zeros around it: coordinates outside the form are outside the value.
[[nodiscard]] TensorForm zeros_around(Call& call, const TensorForm& form);

/// Gives `form` unchanged as the call's result if it fits, and returns whether it did: sums with zero and
/// products with one cost nothing.
bool give_unchanged(Call& call, const TensorForm& form);

/// A lowering: a function that defines a call's results from its arguments, and the ATen ops that it lowers,
/// without "aten::" and with a space between them. A new op is a name in a row or a row with its function, in
/// one file.
struct LoweringRow {
  std::string_view ops;
  void (*lower)(Call&);
};

/// The rows of lowerings_*.cc. lowering_table.cc finds a call's lowering in them.
extern const std::span<const LoweringRow> kActivationRows, kArithmeticRows, kConvolutionRows, kFunctionRows,
    kIndexingRows, kLossRows, kNormRows, kPaddingRows, kPatchRows, kPieceRows, kPoolingRows, kProductRows,
    kRandomRows, kReductionRows, kSortingRows, kStatisticRows, kUpsampleRows, kViewRows;

/// The lowering of `name` ("aten::relu"), or null.
[[nodiscard]] decltype(LoweringRow::lower) find_lowering(std::string_view name);

/// Lowers call `number`; kUsage if its op has no lowering, or the lowering does not take its arguments.
[[nodiscard]] Status lower_call(LoweringState& state, std::size_t number);

}  // namespace dgx::lowering
