// A mixture of experts with one expert a token: Fedus, Zoph and Shazeer, "Switch Transformers: Scaling to
// Trillion Parameter Models with Simple and Efficient Sparsity", 2021.
//
// All of it is of one sample: capacity, the order in which tokens get slots, and balance. So samples stay
// independent, and a step is cut by samples as that of any other model. Each expert is a perceptron of its
// own over the slots of all samples, hence two plain products, and its weights are entries of their own.
#include "experts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace dgx::torch_bridge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tables [batch, rows, width] one below the other, and below them a row of zeros for whoever has none.
at::Tensor with_zeros(at::TensorList tables) {
  variable_list parts(tables.begin(), tables.end());
  parts.push_back(at::zeros({parts[0].size(0), 1, parts[0].size(2)}, parts[0].options()));
  return at::cat(parts, 1);
}

/// The rows [batch, places, width] of a table at `places` [batch, places].
at::Tensor rows_at(const at::Tensor& table, const at::Tensor& places) {
  return at::gather(table, 1, places.unsqueeze(2).expand({-1, -1, table.size(2)}));
}

/// Moves rows between tables, as tokens go to slots and back.
///
/// A row goes to one place at most, and a place has one row at most, so the gradient of a row is that of its
/// place: the backward pass moves rows the other way. (That of a gather would add up over all places.)
class MovedRows : public torch::autograd::Function<MovedRows> {
 public:
  /// `tensors` are `tables` tables; then, for each result, the number of the row that each of its places
  /// has, in all tables one below the other; then, for each table, the number of the place to which each of
  /// its rows goes, in all results one below the other. A number one beyond the last stands for none.
  static variable_list forward(AutogradContext* context, at::TensorList tensors, std::int64_t tables) {
    const auto count = static_cast<std::size_t>(tables);
    const at::TensorList rows = tensors.slice(count, tensors.size() - 2 * count);
    const at::TensorList places = tensors.slice(tensors.size() - count);
    context->save_for_backward(variable_list(places.begin(), places.end()));
    context->saved_data["inputs"] = static_cast<std::int64_t>(tensors.size());
    return moved(tensors.slice(0, count), rows);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list results = moved(gradients, context->get_saved_variables());
    results.resize(static_cast<std::size_t>(context->saved_data["inputs"].toInt()) + 1);
    return results;
  }

 private:
  static variable_list moved(at::TensorList tables, at::TensorList numbers) {
    const at::Tensor table = with_zeros(tables);
    variable_list results;
    for (const at::Tensor& each : numbers) results.push_back(rows_at(table, each));
    return results;
  }
};

/// `tables` with their rows moved to results: rows[r] says which rows result r has, places[t] where those of
/// table t go.
variable_list move_rows(const variable_list& tables, const variable_list& rows, const variable_list& places) {
  variable_list tensors = tables;
  tensors.insert(tensors.end(), rows.begin(), rows.end());
  tensors.insert(tensors.end(), places.begin(), places.end());
  return MovedRows::apply(at::TensorList(tensors), static_cast<std::int64_t>(tables.size()));
}

/// The way of each token to an expert, of E with C slots each for a sample, and back.
struct Routing {
  at::Tensor chosen;     ///< [batch, positions]: a token's expert
  at::Tensor slots;      ///< [batch, positions]: a token's slot, C e + its place at expert e; E C: none
  variable_list tokens;  ///< for each expert [batch, C]: a slot's token; the number of positions: none
};

/// Tokens get slots in their order.
Routing routing_of(const at::Tensor& probabilities, std::int64_t capacity) {
  const std::int64_t batch = probabilities.size(0), length = probabilities.size(1);
  const std::int64_t experts = probabilities.size(2), none = experts * capacity;
  Routing routing;
  routing.chosen = probabilities.argmax(2);
  const at::Tensor same = routing.chosen.unsqueeze(2) == routing.chosen.unsqueeze(1);
  const at::Tensor place = at::tril(same, -1).sum(2);
  const at::Tensor kept = place < capacity;
  routing.slots = at::where(kept, routing.chosen * capacity + place, none);
  const at::Tensor numbers = at::where(kept, at::arange(length, at::kLong), length);
  const at::Tensor tokens = at::full({batch, none + 1}, length, at::kLong).scatter(1, routing.slots, numbers);
  for (std::int64_t n = 0; n < experts; ++n)
    routing.tokens.push_back(tokens.slice(1, n * capacity, (n + 1) * capacity));
  return routing;
}

/// For each sample, the sum over experts of how many tokens chose it, times the sum of its probabilities.
at::Tensor balance_of(const at::Tensor& probabilities, const at::Tensor& chosen) {
  const at::Tensor experts = at::arange(probabilities.size(2), at::kLong);
  const at::Tensor counts = (chosen.unsqueeze(2) == experts).sum(1).to(at::kFloat);
  return (counts * probabilities.sum(1)).sum(1);
}

/// Slots of an expert for a sample of so many tokens: dgx-lowerings(7), "Switch".
std::int64_t slots_of(std::int64_t tokens, double capacity, std::size_t experts) {
  const double share = static_cast<double>(tokens) * capacity / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::min(std::ceil(share), static_cast<double>(tokens)));
}

}  // namespace

Experts::Experts(const program::SwitchSpec& spec, const std::string& prefix,
                 std::vector<NamedTensor>& parameters)
    : capacity_(spec.capacity) {
  const std::int64_t width = spec.decoder.width;
  router_ = add_zeros(parameters, prefix + "router.weight", {spec.experts, width});
  for (std::int64_t n = 0; n < spec.experts; ++n) {
    const std::string expert = fmt::format("{}experts.{}.", prefix, n);
    experts_.push_back({add_linear(parameters, expert + "c_fc", width, 4 * width),
                        add_linear(parameters, expert + "c_proj", 4 * width, width)});
  }
}

Experts::Output Experts::forward(const at::Tensor& x) const {
  const at::Tensor probabilities = at::softmax(at::linear(x, router_), 2);
  const Routing routing = routing_of(probabilities, slots_of(x.size(1), capacity_, experts_.size()));
  variable_list rows = move_rows({x}, routing.tokens, {routing.slots});
  for (std::size_t n = 0; n < experts_.size(); ++n)
    rows[n] = experts_[n].down.linear(at::gelu(experts_[n].up.linear(rows[n]), "tanh"));
  const at::Tensor y = move_rows(rows, {routing.slots}, routing.tokens)[0];
  const at::Tensor gate = at::gather(probabilities, 2, routing.chosen.unsqueeze(2));
  return {y * gate, balance_of(probabilities, routing.chosen)};
}

}  // namespace dgx::torch_bridge
