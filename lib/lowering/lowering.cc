#include "lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/program/line.h"

namespace dgx::lowering {

using kernels::Kind;

namespace {

std::string_view short_name(std::string_view name) {
  return name.starts_with("aten::") ? name.substr(6) : name;
}

TensorForm fold_sum(Builder& builder, const std::string& provenance, const TensorForm& form,
                    const std::vector<std::size_t>& dimensions) {
  const Reduction over = reduction_over(form.shape, dimensions);
  if (over.fold.empty()) return form;
  LineWriter line(builder, provenance, Kind::kSum, over.shape, over.fold);
  const Expression item = line.read(form, over.indices);
  return over.restored(line.finish(form.dtype == DType::kF32 ? DType::kF32 : DType::kI64, item));
}

TensorForm dot_with_one(Builder& builder, const std::string& provenance, const TensorForm& form,
                        const std::vector<std::size_t>& dimensions) {
  const Reduction over = reduction_over(form.shape, dimensions);
  if (over.fold.empty()) return form;
  const TensorForm one = value_form(builder.constant(1.0F), DType::kF32, {1});
  kernels::Primitive dot;
  dot.kind = Kind::kDot;
  dot.shape = over.shape;
  dot.fold = over.fold;
  dot.provenance = provenance;
  dot.accesses = {access_at(one, {constant_index(0)}), access_at(form, over.indices)};
  return over.restored(value_form(builder.append(std::move(dot)), DType::kF32, over.shape));
}

}  // namespace

TensorForm materialise(Builder& builder, const std::string& provenance, const TensorForm& form) {
  // Written anew, since a dimension of 1 may have been written as the constant 0, which has no outside for a
  // fill.
  if (!form.splat && is_contiguous(form) && form.value_shape == form.shape)
    return value_form(form.value, form.dtype, form.shape);
  kernels::Primitive copy;
  copy.dtype = form.dtype;
  copy.shape = form.shape;
  copy.provenance = provenance;
  if (form.splat) {
    const bool is_float = std::holds_alternative<float>(*form.splat);
    const auto number = is_float ? kernels::Operand::literal(std::get<float>(*form.splat))
                                 : kernels::Operand::literal(std::get<std::int64_t>(*form.splat));
    copy.steps = {{is_float ? kernels::ScalarOp::kF32 : kernels::ScalarOp::kI64, {number, {}, {}}}};
  } else {
    copy.accesses = {access_at(form, output_indices(form.shape.size()))};
  }
  return value_form(builder.append(std::move(copy)), form.dtype, form.shape);
}

TensorForm reshaped(Builder& builder, const std::string& provenance, const TensorForm& form,
                    const Shape& shape) {
  if (auto view = reshape(form, shape)) return *view;
  kernels::Primitive copy;
  copy.dtype = form.dtype;
  copy.shape = shape;
  copy.iteration = form.shape;
  copy.provenance = provenance;
  copy.accesses = {access_at(form, output_indices(form.shape.size()))};
  return value_form(builder.append(std::move(copy)), form.dtype, shape);
}

TensorForm without_splat(Builder& builder, const TensorForm& form) {
  if (!form.splat) return form;
  const auto value = builder.constant(form.dtype, {1}, {program::print_literal(*form.splat)});
  return remap(value_form(value, form.dtype, {1}), form.shape, {constant_index(0)});
}

std::optional<double> splat_number(const TensorForm& form) {
  if (!form.splat) return std::nullopt;
  if (const float* real = std::get_if<float>(&*form.splat)) return static_cast<double>(*real);
  return static_cast<double>(std::get<std::int64_t>(*form.splat));
}

TensorForm pickable(Builder& builder, const std::string& provenance, const TensorForm& form) {
  const auto is_plain = [](const kernels::Coordinate& c) {
    const bool alone = c.terms.size() == 1 && c.terms[0].coefficient == 1 && c.constant == 0;
    return c.division == kernels::Coordinate::Division::kNone && (alone || c.terms.empty());
  };
  const bool plain = !form.splat && !form.fill &&
                     std::all_of(form.coordinates.begin(), form.coordinates.end(), is_plain) &&
                     form.coordinates.size() == form.shape.size();
  if (!plain) return materialise(builder, provenance, form);
  // Each dimension of more than one element must be there and whole, so that an integer outside it is outside
  // the value.
  for (std::size_t n = 0; n < form.coordinates.size(); ++n) {
    const auto& terms = form.coordinates[n].terms;
    const bool whole = terms.empty() ? form.base[n] == 1
                                     : form.base[n] == form.shape[static_cast<std::size_t>(terms[0].index)];
    if (!whole) return materialise(builder, provenance, form);
  }
  std::vector<bool> seen(form.shape.size(), false);
  for (const auto& coordinate : form.coordinates) {
    if (!coordinate.terms.empty()) seen[static_cast<std::size_t>(coordinate.terms[0].index)] = true;
  }
  for (std::size_t n = 0; n < seen.size(); ++n) {
    if (!seen[n]) return materialise(builder, provenance, form);
  }
  return form;
}

TensorForm sum_over(Builder& builder, const std::string& provenance, const TensorForm& form,
                    const std::vector<std::size_t>& dimensions) {
  const TensorForm whole = without_splat(builder, form);
  if (whole.dtype != DType::kF32) return fold_sum(builder, provenance, whole, dimensions);
  std::vector<std::size_t> outer = dimensions, trailing;
  for (std::size_t n = form.shape.size(); n-- > 0 && !outer.empty();) {
    if (outer.back() == n) {
      trailing.insert(trailing.begin(), n);
      outer.pop_back();
    } else if (form.shape[n] != 1) {
      break;
    }
  }
  const TensorForm inner = fold_sum(builder, provenance, whole, trailing);
  return dot_with_one(builder, provenance, inner, outer);
}

bool LoweringState::is_defined(TensorId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= forms.size()) return false;
  return forms[static_cast<std::size_t>(id)].has_value() || pieces.contains(id);
}

const TensorForm& LoweringState::form(TensorId id) {
  auto& known = forms[static_cast<std::size_t>(id)];
  if (!known) known = whole(builder, "sum of pieces", pieces.at(id));
  return *known;
}

Call::Call(LoweringState& state, std::size_t number)
    : state_(state),
      call_(state.graph.calls[number]),
      provenance_(fmt::format("{} {}", number, short_name(call_.name))) {}

bool Call::require(bool condition, std::string_view what) {
  if (!condition && !error_) {
    error_ = usage_error(fmt::format("no exact lowering for {}{}{} ({}): {}", call_.name,
                                     call_.overload.empty() ? "" : ".", call_.overload, call_.place, what),
                         "--numerics native");
  }
  return condition;
}

const AtenArgument* Call::find(std::string_view name) const {
  for (std::size_t n = 0; n < call_.arguments.size() && n < call_.argument_names.size(); ++n) {
    if (call_.argument_names[n] == name) return &call_.arguments[n];
  }
  return nullptr;
}

bool Call::has(std::string_view name) const { return find(name) != nullptr; }

bool Call::given(std::string_view name) const {
  const AtenArgument* argument = find(name);
  if (!argument || std::holds_alternative<std::monostate>(*argument)) return false;
  const auto* tensor = std::get_if<std::optional<TensorId>>(argument);
  return !tensor || tensor->has_value();
}

TensorForm Call::form_of(const std::optional<TensorId>& id, std::string_view name) {
  if (!require(id && state_.is_defined(*id), fmt::format("argument '{}' is not defined", name)))
    return splat_form(DType::kF32, {}, 0.0F);
  return state_.form(*id);
}

TensorForm Call::tensor(std::string_view name) {
  const AtenArgument* argument = find(name);
  const auto* id = argument ? std::get_if<std::optional<TensorId>>(argument) : nullptr;
  if (!require(id, fmt::format("argument '{}' is not a tensor", name)))
    return splat_form(DType::kF32, {}, 0.0F);
  return form_of(*id, name);
}

std::vector<TensorForm> Call::tensors(std::string_view name) {
  const AtenArgument* argument = find(name);
  const auto* ids = argument ? std::get_if<std::vector<std::optional<TensorId>>>(argument) : nullptr;
  std::vector<TensorForm> forms;
  if (!require(ids, fmt::format("argument '{}' is not a list of tensors", name))) return forms;
  for (const auto& id : *ids) forms.push_back(form_of(id, name));
  return forms;
}

std::vector<std::optional<TensorForm>> Call::optional_tensors(std::string_view name) {
  const AtenArgument* argument = find(name);
  const auto* ids = argument ? std::get_if<std::vector<std::optional<TensorId>>>(argument) : nullptr;
  std::vector<std::optional<TensorForm>> forms;
  if (!require(ids, fmt::format("argument '{}' is not a list of tensors", name))) return forms;
  for (const auto& id : *ids) forms.push_back(id ? std::optional(form_of(id, name)) : std::nullopt);
  return forms;
}

TensorForm Call::number_or_tensor(std::string_view name) {
  const AtenArgument* argument = find(name);
  if (argument) {
    if (std::holds_alternative<std::optional<TensorId>>(*argument)) return tensor(name);
    if (const auto* integer = std::get_if<std::int64_t>(argument))
      return splat_form(DType::kI64, {}, *integer);
    if (const auto* flag = std::get_if<bool>(argument))
      return splat_form(DType::kU8, {}, std::int64_t{*flag});
  }
  return splat_form(DType::kF32, {}, static_cast<float>(number(name)));
}

double Call::number(std::string_view name) {
  const AtenArgument* argument = find(name);
  if (argument) {
    if (const auto* real = std::get_if<double>(argument))
      return require(*real == *real, fmt::format("argument '{}' is NaN", name)) ? *real : 0;
    if (const auto* integer = std::get_if<std::int64_t>(argument)) return static_cast<double>(*integer);
    if (const auto* flag = std::get_if<bool>(argument)) return *flag ? 1 : 0;
  }
  require(false, fmt::format("argument '{}' is not a number", name));
  return 0;
}

std::int64_t Call::integer(std::string_view name) {
  const AtenArgument* argument = find(name);
  const auto* integer = argument ? std::get_if<std::int64_t>(argument) : nullptr;
  require(integer, fmt::format("argument '{}' is not an integer", name));
  return integer ? *integer : 0;
}

bool Call::boolean(std::string_view name, bool otherwise) {
  if (!given(name)) return otherwise;
  const auto* flag = std::get_if<bool>(find(name));
  require(flag, fmt::format("argument '{}' is not a bool", name));
  return flag ? *flag : otherwise;
}

std::string Call::text(std::string_view name, std::string otherwise) {
  if (!given(name)) return otherwise;
  const auto* text = std::get_if<std::string>(find(name));
  require(text, fmt::format("argument '{}' is not a string", name));
  return text ? *text : otherwise;
}

std::vector<std::int64_t> Call::integers(std::string_view name) {
  const AtenArgument* argument = find(name);
  if (argument) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(argument)) return *list;
    if (const auto* one = std::get_if<std::int64_t>(argument)) return {*one};
  }
  require(false, fmt::format("argument '{}' is not a list of integers", name));
  return {};
}

std::size_t Call::wrap(std::int64_t dimension, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  const std::int64_t wrapped = dimension < 0 ? dimension + size : dimension;
  return require(wrapped >= 0 && wrapped < size, fmt::format("dimension {} of {}", dimension, rank))
             ? static_cast<std::size_t>(wrapped)
             : 0;
}

std::vector<std::size_t> Call::dimensions(std::string_view name, std::size_t rank) {
  const auto listed = given(name) ? integers(name) : std::vector<std::int64_t>{};
  std::vector<std::size_t> result;
  for (const std::int64_t dimension : listed) result.push_back(wrap(dimension, rank));
  for (std::size_t n = 0; n < rank && listed.empty(); ++n) result.push_back(n);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

const Shape& Call::result_shape(std::size_t n) const {
  static const Shape kScalar;
  return wants(n) ? state_.graph.tensors[static_cast<std::size_t>(*call_.results[n])].shape : kScalar;
}

DType Call::result_dtype(std::size_t n) const {
  return wants(n) ? state_.graph.tensors[static_cast<std::size_t>(*call_.results[n])].dtype : DType::kF32;
}

bool Call::is_boolean(std::string_view name) const {
  const AtenArgument* argument = find(name);
  const auto* id = argument ? std::get_if<std::optional<TensorId>>(argument) : nullptr;
  return id && *id && state_.graph.tensors[static_cast<std::size_t>(**id)].boolean;
}

bool Call::result_is_boolean(std::size_t n) const {
  return wants(n) && state_.graph.tensors[static_cast<std::size_t>(*call_.results[n])].boolean;
}

void Call::give(const TensorForm& form, std::size_t n) {
  if (!ok() || !wants(n)) return;
  const auto count = element_count(form.shape);
  const bool fits = count.ok() && *count == *element_count(result_shape(n)) && form.dtype == result_dtype(n);
  if (!require(fits,
               fmt::format("result {} is {} {} here, {} {} in the capture", n, name_of(form.dtype),
                           to_string(form.shape), name_of(result_dtype(n)), to_string(result_shape(n))))) {
    return;
  }
  state_.forms[static_cast<std::size_t>(*call_.results[n])] =
      reshaped(builder(), provenance_, form, result_shape(n));
}

const Pieces* Call::pieces(std::string_view name) const {
  const AtenArgument* argument = find(name);
  const auto* id = argument ? std::get_if<std::optional<TensorId>>(argument) : nullptr;
  if (!id || !*id) return nullptr;
  const auto known = state_.pieces.find(**id);
  return known == state_.pieces.end() ? nullptr : &known->second;
}

void Call::give_pieces(Pieces pieces) {
  if (ok() && wants(0)) state_.pieces.insert_or_assign(*call_.results[0], std::move(pieces));
}

TensorForm zeros_around(Call& call, const TensorForm& form) {
  TensorForm whole = materialise(call.builder(), call.provenance(), form);
  whole.fill = literal_of(form.dtype, 0);
  return whole;
}

bool give_unchanged(Call& call, const TensorForm& form) {
  if (form.dtype != call.result_dtype() || !broadcasts(form.shape, call.result_shape())) return false;
  call.give(broadcast_to(form, call.result_shape()));
  return true;
}

Status lower_call(LoweringState& state, std::size_t number) {
  Call call(state, number);
  const auto lower = find_lowering(state.graph.calls[number].name);
  if (call.require(lower != nullptr, "it is not in the table")) lower(call);
  return call.status();
}

}  // namespace dgx::lowering
