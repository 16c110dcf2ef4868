#include <fmt/format.h>

#include <algorithm>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Coordinate;
using kernels::ScalarOp;

namespace {

bool is_index(Call& call, const TensorForm& index) {
  return call.require(index.dtype == DType::kI64,
                      fmt::format("indices of {}", index.dtype == DType::kU8 ? "bool or u8" : "f32"));
}

TensorForm pickable_form(Call& call, const TensorForm& form) {
  return pickable(call.builder(), call.provenance(), form);
}

/// Several index tensors that broadcast together: the dimensions they index, and their place in the result of
/// indexing, at the first indexed dimension if the indexed ones are neighbours, else in front.
struct Indexing {
  std::vector<std::size_t> dimensions;  ///< indexed ones of self
  std::vector<TensorForm> indices;      ///< each of shape `shape`; negative numbers count from the end
  Shape shape;                          ///< the broadcast indices'
  std::size_t place = 0;
};

Shape broadcast_shape(const std::vector<TensorForm>& forms) {
  Shape shape;
  for (const TensorForm& form : forms) {
    if (form.shape.size() > shape.size()) shape.insert(shape.begin(), form.shape.size() - shape.size(), 1);
    const std::size_t offset = shape.size() - form.shape.size();
    for (std::size_t n = 0; n < form.shape.size(); ++n)
      shape[n + offset] = std::max(shape[n + offset], form.shape[n]);
  }
  return shape;
}

/// `index`, with negative ones counted from the end of a dimension of `size`.
TensorForm counted_from_end(Call& call, const TensorForm& index, std::int64_t size) {
  LineWriter line(call.builder(), call.provenance(), index.shape);
  const Expression at = line.read(without_splat(call.builder(), index));
  return line.finish(DType::kI64, select(compare(ScalarOp::kLt, at, std::int64_t{0}), at + size, at));
}

Indexing indexing_of(Call& call, const TensorForm& self) {
  Indexing result;
  const auto listed = call.optional_tensors("indices");
  if (!call.ok() || !call.require(listed.size() <= self.shape.size(), "more indices than dimensions"))
    return {};
  for (std::size_t n = 0; n < listed.size(); ++n) {
    if (!listed[n]) continue;
    if (!is_index(call, *listed[n])) return {};
    result.dimensions.push_back(n);
    result.indices.push_back(counted_from_end(call, *listed[n], self.shape[n]));
  }
  const std::size_t count = result.dimensions.size();
  // Each index opens a leaf, and so do the element and, in a chain, its key.
  if (!call.require(count >= 1 && count <= 5, fmt::format("{} indices", count))) return {};
  result.shape = broadcast_shape(result.indices);
  for (TensorForm& index : result.indices) {
    if (!call.require(broadcasts(index.shape, result.shape), "indices that do not broadcast")) return {};
    index = broadcast_to(index, result.shape);
  }
  const bool neighbours = result.dimensions.back() - result.dimensions.front() == count - 1;
  result.place = neighbours ? result.dimensions.front() : 0;
  return result;
}

/// The place of dimension `dimension` of self, not an indexed one, in the result of indexing.
std::size_t place_of(const Indexing& indexing, std::size_t dimension) {
  const auto before = static_cast<std::size_t>(std::count_if(
      indexing.dimensions.begin(), indexing.dimensions.end(), [&](auto n) { return n < dimension; }));
  const std::size_t kept = dimension - before;
  return kept < indexing.place ? kept : kept + indexing.shape.size();
}

/// Dimension `dimension` of `form` read at the integers of `index`, whose dimensions take its place.
TensorForm picked(Call& call, const TensorForm& form, std::size_t dimension, const TensorForm& index) {
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  std::vector<Coordinate> at, indices;
  for (std::size_t n = 0; n < index.shape.size(); ++n) at.push_back(output_index(dimension + n));
  const Coordinate row = picked_index(line.read(without_splat(call.builder(), index), at));
  for (std::size_t n = 0; n < form.shape.size(); ++n) {
    indices.push_back(n < dimension    ? output_index(n)
                      : n == dimension ? row
                                       : output_index(n - 1 + index.shape.size()));
  }
  return line.finish(call.result_dtype(), line.pick(pickable_form(call, form), indices));
}

/// The coordinates at which a chain over `indexing` reads the values to put: fold indices for the indexed
/// dimensions.
std::vector<Coordinate> update_indices(const Indexing& indexing, std::size_t rank) {
  std::vector<Coordinate> at(rank - indexing.dimensions.size() + indexing.shape.size());
  for (std::size_t n = 0; n < indexing.shape.size(); ++n) at[indexing.place + n] = fold_index(n);
  for (std::size_t n = 0; n < rank; ++n) {
    if (std::find(indexing.dimensions.begin(), indexing.dimensions.end(), n) == indexing.dimensions.end())
      at[place_of(indexing, n)] = output_index(n);
  }
  return at;
}

enum class Update { kPut, kAdd };

/// Ends a chain that starts at `base` and takes `item` where `when`.
void give_chain(Call& call, LineWriter& line, Update update, const Expression& item, const Expression& when,
                const TensorForm& base) {
  const bool is_float = call.result_dtype() == DType::kF32;
  if (!call.require(update == Update::kPut || call.result_dtype() != DType::kU8, "sums of u8 or bool"))
    return;
  const auto type = is_float ? kernels::NumberType::kFloat : kernels::NumberType::kInteger;
  const Expression number = is_float ? to_float(item) : to_integer(item);
  const Expression next = update == Update::kAdd ? line.accumulator(type) + number : number;
  call.give(line.finish_chain(call.result_dtype(), next, when, line.read(base)));
}

std::vector<Coordinate> fold_indices(std::size_t rank) {
  std::vector<Coordinate> indices;
  for (std::size_t n = 0; n < rank; ++n) indices.push_back(fold_index(n));
  return indices;
}

/// The fold's shape: a tensor without dimensions still has one position.
Shape positions(const Shape& shape) { return shape.empty() ? Shape{1} : shape; }

/// self[mask] = one number.
void put_where(Call& call, const TensorForm& self, const TensorForm& mask, const TensorForm& value) {
  Shape padded = mask.shape;
  padded.resize(self.shape.size(), 1);
  const bool fits = mask.shape.size() <= self.shape.size() && broadcasts(padded, self.shape);
  if (!call.require(fits, "a mask of another shape") ||
      !call.require(value.shape.empty() || value.shape == Shape{1},
                    "a mask that stores more than one number"))
    return;
  LineWriter line(call.builder(), call.provenance(), self.shape);
  const Expression chosen = line.read(reshaped(call.builder(), call.provenance(), mask, padded));
  call.give(line, select(compare(ScalarOp::kNe, chosen, std::int64_t{0}), line.read(value), line.read(self)));
}

/// Adds or puts along one dimension: source's elements go to the places in `index`.
void along_index(Call& call, Update update, double alpha) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index"), source = call.tensor("source");
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(self.shape.size(), 1));
  if (!call.ok() || !is_index(call, index)) return;
  const bool fits =
      index.shape.size() <= 1 && source.shape.size() == self.shape.size() && !self.shape.empty();
  if (!call.require(fits, "shapes that do not fit")) return;
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kChain, self.shape,
                  positions(index.shape));
  auto at = output_indices(self.shape.size());
  at[dimension] = fold_index(0);
  const Expression item = line.read(without_splat(call.builder(), source), at);
  const Expression key = line.read(without_splat(call.builder(), index), fold_indices(index.shape.size()));
  const Expression when = compare(ScalarOp::kEq, key, line.index(dimension));
  if (alpha == 1) return give_chain(call, line, update, item, when, self);
  if (!call.require(call.result_dtype() == DType::kF32, "alpha of integers")) return;
  const Expression sum = fma(static_cast<float>(alpha), item, line.accumulator(kernels::NumberType::kFloat));
  call.give(line.finish_chain(DType::kF32, sum, when, line.read(self)));
}

/// Adds or puts along one dimension: each element goes to the place in its own index.
void scattered(Call& call, Update update) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index");
  const TensorForm source = call.number_or_tensor(call.has("src") ? "src" : "value");
  const std::size_t rank = self.shape.size();
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(rank, 1));
  if (!call.ok() || !is_index(call, index)) return;
  const bool fits = index.shape.size() == rank && rank >= 1 &&
                    (source.splat || source.shape.empty() || source.shape.size() == rank);
  if (!call.require(fits, "shapes that do not fit")) return;
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kChain, self.shape,
                  {index.shape[dimension]});
  auto at = output_indices(rank);
  at[dimension] = fold_index(0);
  // Beyond an index smaller than self, the key -1 matches no position.
  TensorForm keys = materialise(call.builder(), call.provenance(), index);
  if (index.shape != self.shape) keys.fill = kernels::Literal(std::int64_t{-1});
  TensorForm items = source;
  if (!source.splat && source.shape.size() == rank && source.shape != self.shape) {
    items = zeros_around(call, source);
  }
  const Expression item = items.splat || items.shape.size() == rank
                              ? line.read(items, at)
                              : line.read(items, std::vector<Coordinate>{});
  const Expression when = compare(ScalarOp::kEq, line.read(keys, at), line.index(dimension));
  give_chain(call, line, update, item, when, self);
}

void embedding(Call& call) {
  const TensorForm table = call.tensor("weight"), indices = call.tensor("indices");
  if (!call.ok() || !is_index(call, indices) ||
      !call.require(table.shape.size() == 2, "a table of another rank"))
    return;
  call.give(picked(call, table, 0, indices));
}

/// A chain over the tokens, each adding its row; the padding token's row stays 0.
void embedding_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_output"), indices = call.tensor("indices");
  const std::int64_t padding = call.integer("padding_idx", -1);
  if (!call.ok() || !is_index(call, indices)) return;
  if (!call.require(!call.boolean("scale_grad_by_freq", false), "gradients scaled by frequency")) return;
  const Shape shape = call.result_shape();
  const std::int64_t tokens = *element_count(indices.shape);
  const std::string& g = call.provenance();
  const TensorForm rows =
      reshaped(call.builder(), g, without_splat(call.builder(), gradient), {tokens, shape[1]});
  const TensorForm keys = reshaped(call.builder(), g, without_splat(call.builder(), indices), {tokens});
  LineWriter line(call.builder(), g, kernels::Kind::kChain, shape, {tokens});
  const Expression item = line.read(rows, {fold_index(0), output_index(1)});
  Expression when = compare(ScalarOp::kEq, line.read(keys, {fold_index(0)}), line.index(0));
  if (padding >= 0) when = step(ScalarOp::kAnd, {when, compare(ScalarOp::kNe, line.index(0), padding)});
  give_chain(call, line, Update::kAdd, item, when, splat_form(DType::kF32, shape, 0.0F));
}

void index_select(Call& call) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index");
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(self.shape.size(), 1));
  if (!call.ok() || !is_index(call, index)) return;
  if (!call.require(!self.shape.empty() && index.shape.size() <= 1, "shapes that do not fit")) return;
  call.give(picked(call, self, dimension,
                   reshaped(call.builder(), call.provenance(), index, {call.result_shape()[dimension]})));
}

void take(Call& call) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index");
  if (!call.ok() || !is_index(call, index)) return;
  const std::int64_t count = *element_count(self.shape);
  const TensorForm flat = reshaped(call.builder(), call.provenance(), self, {count});
  call.give(picked(call, flat, 0, counted_from_end(call, index, count)));
}

void gather(Call& call) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index");
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(self.shape.size(), 1));
  if (!call.ok() || !is_index(call, index)) return;
  if (!call.require(index.shape.size() == self.shape.size() && !self.shape.empty(), "shapes that do not fit"))
    return;
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  auto at = output_indices(self.shape.size());
  at[dimension] = picked_index(line.read(without_splat(call.builder(), index)));
  call.give(line, line.pick(pickable_form(call, self), at));
}

void index(Call& call) {
  const TensorForm self = call.tensor("self");
  const Indexing indexing = indexing_of(call, self);
  if (!call.ok()) return;
  LineWriter line(call.builder(), call.provenance(), call.result_shape());
  std::vector<Coordinate> broadcast, at(self.shape.size());
  for (std::size_t n = 0; n < indexing.shape.size(); ++n)
    broadcast.push_back(output_index(indexing.place + n));
  for (std::size_t n = 0; n < self.shape.size(); ++n) at[n] = output_index(place_of(indexing, n));
  for (std::size_t n = 0; n < indexing.indices.size(); ++n)
    at[indexing.dimensions[n]] = picked_index(line.read(indexing.indices[n], broadcast));
  call.give(line, line.pick(pickable_form(call, self), at));
}

/// Adds or puts values at the indices; if a place is named more than once, the last put stays.
void index_put(Call& call) {
  const TensorForm self = call.tensor("self"), values = call.tensor("values");
  const Update update = call.boolean("accumulate", false) ? Update::kAdd : Update::kPut;
  const auto listed = call.optional_tensors("indices");
  if (!call.ok()) return;
  const bool is_mask = listed.size() == 1 && listed[0] && listed[0]->dtype == DType::kU8;
  if (is_mask && update == Update::kPut) return put_where(call, self, *listed[0], values);
  const Indexing indexing = indexing_of(call, self);
  if (!call.ok()) return;
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kChain, self.shape,
                  positions(indexing.shape));
  const auto at = update_indices(indexing, self.shape.size());
  Shape shape(at.size());
  for (std::size_t n = 0; n < indexing.shape.size(); ++n) shape[indexing.place + n] = indexing.shape[n];
  for (std::size_t n = 0; n < self.shape.size(); ++n) {
    if (std::find(indexing.dimensions.begin(), indexing.dimensions.end(), n) == indexing.dimensions.end())
      shape[place_of(indexing, n)] = self.shape[n];
  }
  if (!call.require(broadcasts(values.shape, shape), "values that do not broadcast")) return;
  const Expression item = line.read(broadcast_to(values, shape), at);
  std::optional<Expression> when;
  for (std::size_t n = 0; n < indexing.indices.size(); ++n) {
    const Expression key = line.read(indexing.indices[n], fold_indices(indexing.shape.size()));
    const Expression here = compare(ScalarOp::kEq, key, line.index(indexing.dimensions[n]));
    when = when ? step(ScalarOp::kAnd, {*when, here}) : here;
  }
  give_chain(call, line, update, item, *when, self);
}

/// index_put on the flattened tensor.
void put(Call& call) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index"), source = call.tensor("source");
  const Update update = call.boolean("accumulate", false) ? Update::kAdd : Update::kPut;
  if (!call.ok() || !is_index(call, index)) return;
  const std::int64_t count = *element_count(self.shape), places = *element_count(index.shape);
  const auto flat = [&](const TensorForm& form, std::int64_t size) {
    return reshaped(call.builder(), call.provenance(), without_splat(call.builder(), form), {size});
  };
  if (!call.require(*element_count(source.shape) == places, "shapes that do not fit")) return;
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kChain, {count}, {places});
  const Expression item = line.read(flat(source, places), {fold_index(0)});
  const Expression key = line.read(counted_from_end(call, flat(index, places), count), {fold_index(0)});
  give_chain(call, line, update, item, compare(ScalarOp::kEq, key, line.index(0)), flat(self, count));
}

void index_add(Call& call) { along_index(call, Update::kAdd, call.number("alpha", 1)); }
void index_copy(Call& call) { along_index(call, Update::kPut, 1); }

void index_fill(Call& call) {
  const TensorForm self = call.tensor("self"), index = call.tensor("index"),
                   value = call.number_or_tensor("value");
  const std::size_t dimension = call.dimension("dim", std::max<std::size_t>(self.shape.size(), 1));
  if (!call.ok() || !is_index(call, index) || !call.require(!self.shape.empty(), "a scalar")) return;
  const TensorForm counted = counted_from_end(call, index, self.shape[dimension]);
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kChain, self.shape,
                  positions(index.shape));
  const Expression key = line.read(counted, fold_indices(index.shape.size()));
  const Expression when = compare(ScalarOp::kEq, key, line.index(dimension));
  give_chain(call, line, Update::kPut, line.read(value, std::vector<Coordinate>{}), when, self);
}

void scatter(Call& call) {
  const std::string reduce = call.text("reduce", "");
  if (!call.require(reduce.empty() || reduce == "add", "reduce '" + reduce + "'")) return;
  scattered(call, reduce.empty() ? Update::kPut : Update::kAdd);
}
void scatter_add(Call& call) { scattered(call, Update::kAdd); }

void scatter_reduce(Call& call) {
  const std::string reduce = call.text("reduce", "");
  if (!call.require(reduce == "sum", "reduce '" + reduce + "'") ||
      !call.require(call.boolean("include_self", true), "without self"))
    return;
  scattered(call, Update::kAdd);
}

/// Elements at indices held in tensors.
constexpr LoweringRow kRows[] = {
    {"embedding", &embedding},
    {"embedding_dense_backward", &embedding_backward},
    {"index_select", &index_select},
    {"take", &take},
    {"gather", &gather},
    {"index _unsafe_index", &index},
    {"index_put _index_put_impl _unsafe_index_put", &index_put},
    {"put", &put},
    {"index_add", &index_add},
    {"index_copy", &index_copy},
    {"index_fill", &index_fill},
    {"scatter", &scatter},
    {"scatter_add", &scatter_add},
    {"scatter_reduce", &scatter_reduce},
};

}  // namespace

const std::span<const LoweringRow> kIndexingRows = kRows;

}  // namespace dgx::lowering
