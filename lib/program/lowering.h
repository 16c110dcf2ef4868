#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/program/aten.h"
#include "dgx/program/builder.h"
#include "line_writer.h"
#include "pieces.h"
#include "tensor_form.h"

namespace dgx::program {

/// What the lowering of a graph has so far: the program being built, and the form of every tensor already
/// defined.
struct LoweringState {
  const CapturedGraph& graph;
  Builder builder;
  std::vector<std::optional<TensorForm>> forms;  // by TensorId
  std::map<TensorId, Pieces> pieces;             // of tensors that are 0 elsewhere; some have no form yet

  explicit LoweringState(const CapturedGraph& of) : graph(of), forms(of.tensors.size()) {}
  [[nodiscard]] bool is_defined(TensorId id) const;
  /// The form of a tensor that is defined; pieces are put together when they are first asked for.
  [[nodiscard]] const TensorForm& form(TensorId id);
};

/// Makes `form` a value of its own, unless it is one whole already.
[[nodiscard]] TensorForm materialise(Builder& builder, const std::string& provenance, const TensorForm& form);
/// `form` in another shape of equal count; a copy where one access cannot say it.
[[nodiscard]] TensorForm reshaped(Builder& builder, const std::string& provenance, const TensorForm& form,
                                  const Shape& shape);
/// A form that a dot can read: a splat becomes a constant value.
[[nodiscard]] TensorForm without_splat(Builder& builder, const TensorForm& form);
/// A form whose element at integers that a tensor holds (line_writer.h, pick) is one access: a copy, unless
/// each of its indices has a coordinate to itself.
[[nodiscard]] TensorForm pickable(Builder& builder, const std::string& provenance, const TensorForm& form);
/// The sum over `dimensions` (sorted), kept as 1: trailing dimensions as a sum, others as a dot with one
/// (dgx-lowerings(7), "Lowering guarantees").
[[nodiscard]] TensorForm sum_over(Builder& builder, const std::string& provenance, const TensorForm& form,
                                  const std::vector<std::size_t>& dimensions);

/// One ATen call under its lowering. Arguments are asked for by their schema names. The first thing that is
/// wrong sticks, and what is returned then is harmless, so that a lowering reads like a formula; lowerings
/// that index shapes check ok() first.
class Call {
 public:
  Call(LoweringState& state, std::size_t number);

  /// "aten::relu".
  [[nodiscard]] std::string_view name() const { return call_.name; }
  [[nodiscard]] bool has(std::string_view name) const;
  /// Present and not None.
  [[nodiscard]] bool given(std::string_view name) const;
  [[nodiscard]] TensorForm tensor(std::string_view name);
  [[nodiscard]] std::vector<TensorForm> tensors(std::string_view name);
  /// A list in which some may be None.
  [[nodiscard]] std::vector<std::optional<TensorForm>> optional_tensors(std::string_view name);
  /// A tensor, or a number in any form as a splat.
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
  /// A dimension of a tensor of this rank, negative ones counted from the end.
  [[nodiscard]] std::size_t dimension(std::string_view name, std::size_t rank) {
    return wrap(integer(name), rank);
  }
  /// Sorted; None or an empty list: all.
  [[nodiscard]] std::vector<std::size_t> dimensions(std::string_view name, std::size_t rank);
  [[nodiscard]] std::size_t wrap(std::int64_t dimension, std::size_t rank);

  [[nodiscard]] const Shape& result_shape(std::size_t n = 0) const;
  [[nodiscard]] DType result_dtype(std::size_t n = 0) const;
  /// Whether the argument is a tensor of torch.bool.
  [[nodiscard]] bool is_boolean(std::string_view name) const;
  /// Whether the result is torch.bool, held as u8 0 or 1.
  [[nodiscard]] bool result_is_boolean(std::size_t n = 0) const;
  [[nodiscard]] bool wants(std::size_t n) const {
    return n < call_.results.size() && call_.results[n].has_value();
  }
  void give(const TensorForm& form, std::size_t n = 0);
  /// The argument's pieces, if it is known to be 0 elsewhere.
  [[nodiscard]] const Pieces* pieces(std::string_view name) const;
  /// Result 0, to be put together when it is needed.
  void give_pieces(Pieces pieces);
  /// Ends a map whose shape is the result's.
  void give(LineWriter& line, const Expression& result, std::size_t n = 0) {
    give(line.finish(result_dtype(n), result), n);
  }

  /// "41 addmm", for `g`.
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

/// A lowering defines the call's results from its arguments.
using LoweringFunction = void (*)(Call&);

/// The lowering of `name` ("aten::relu"), or null. The table is in lowering_table.cc.
[[nodiscard]] LoweringFunction find_lowering(std::string_view name);

/// Lowers call `number`; kUsage if its op has no lowering or its arguments are beyond it.
[[nodiscard]] Status lower_call(LoweringState& state, std::size_t number);

}  // namespace dgx::program
