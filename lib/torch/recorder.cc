#include "recorder.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/stack.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "compact.h"
#include "constant_memory.h"
#include "numberless.h"
#include "plain_calls.h"

namespace dgx::torch_bridge {
namespace {

using c10::DispatchKey;
using c10::IValue;
using lowering::AtenArgument;
using lowering::AtenCall;
using lowering::AtenSource;
using lowering::AtenTensor;
using lowering::TensorId;

using IValues = CallValues;

std::atomic<Recorder*> g_active = nullptr;

}  // namespace

at::Tensor unwrapped(const at::Tensor& tensor) {
  namespace functionalization = at::functionalization::impl;
  if (!functionalization::isFunctionalTensor(tensor)) return tensor;
  functionalization::sync(tensor);
  return functionalization::from_functional_tensor(tensor);
}

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kLong: return "int64";
    case at::kInt: return "int32";
    case at::kShort: return "int16";
    case at::kChar: return "int8";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    default: return c10::toString(type);
  }
}

std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::kF32;
    case at::kLong:
    case at::kInt:  // dgx-lowerings(7), "Capture"
      return DType::kI64;
    case at::kByte:
    case at::kBool: return DType::kU8;
    default: return std::nullopt;
  }
}

Tensor numbers_of(const at::Tensor& tensor) {
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype) return {DType::kF32, {}};
  const PlainCalls plain;
  at::Tensor rows = tensor.detach().resolve_conj().resolve_neg().contiguous();
  if (rows.scalar_type() == at::kInt) rows = rows.to(at::kLong);
  Tensor value(*dtype, rows.sizes().vec());
  if (value.count() > 0) std::memcpy(value.bytes().data(), rows.const_data_ptr(), value.bytes().size());
  return value;
}

namespace {

std::string memory_format_name(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous: return "contiguous";
    case at::MemoryFormat::Preserve: return "preserve";
    case at::MemoryFormat::ChannelsLast: return "channels_last";
    case at::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "other";
  }
}

AtenTensor describe(const at::Tensor& tensor) {
  return {dtype_of(tensor.scalar_type()).value_or(DType::kF32), tensor.sizes().vec(),
          tensor.scalar_type() == at::kBool};
}

/// The number in a tensor that stands for a host scalar: a wrapped number, or a lone float64 (libtorch
/// computes with both in the other operand's dtype). nullopt for other tensors.
std::optional<AtenArgument> host_number(const at::Tensor& tensor) {
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (tensor.dim() != 0 || !(wrapped || tensor.scalar_type() == at::kDouble)) return std::nullopt;
  const void* const data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble: return *static_cast<const double*>(data);
    case at::kLong: return *static_cast<const std::int64_t*>(data);
    case at::kBool: return *static_cast<const bool*>(data);
    default: return std::nullopt;
  }
}

// Functionalisation runs each call on the meta device too, to learn shapes.
bool is_shape_check(IValues values) {
  return any_tensor(values, [](const at::Tensor& tensor) { return tensor.is_meta(); });
}

bool is_single_number(const at::Tensor& tensor) { return tensor.numel() <= 1; }

bool has_any_tag(const c10::OperatorHandle& op, std::initializer_list<at::Tag> tags) {
  return std::any_of(tags.begin(), tags.end(), [&](at::Tag tag) { return op.hasTag(tag); });
}

bool gives_a_host_value(const c10::FunctionSchema& schema) {
  const auto is_host_value = [](const c10::Argument& result) {
    return !result.type()->isSubtypeOf(*c10::TensorType::get()) &&
           !result.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  return std::any_of(schema.returns().begin(), schema.returns().end(), is_host_value);
}

/// True if the answer depends on the numbers in the tensors, not only on their shapes.
bool depends_on_numbers(const c10::OperatorHandle& op, IValues arguments) {
  static constexpr std::string_view kOfShapesOnly[] = {"aten::is_same_size",       "aten::sym_size",
                                                       "aten::sym_stride",         "aten::sym_numel",
                                                       "aten::sym_storage_offset", "aten::is_pinned"};
  const std::string& name = op.schema().name();
  if (name == "aten::index") {
    return any_tensor(arguments.slice(1), [](const at::Tensor& at) {
      return at.scalar_type() == at::kBool || at.scalar_type() == at::kByte;
    });
  }
  if (has_any_tag(op, {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output})) return true;
  return gives_a_host_value(op.schema()) && std::ranges::find(kOfShapesOnly, name) == std::end(kOfShapesOnly);
}

bool is_uninitialised(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

std::vector<std::int64_t> concrete(const IValue& symbolic) {
  std::vector<std::int64_t> values;
  for (const c10::SymInt& size : symbolic.toSymIntVector()) values.push_back(size.expect_int());
  return values;
}

/// The name of an int that the schema declares as a dtype, layout or memory format; nullopt for others.
std::optional<std::string> enum_name(const IValue& value, const c10::Argument& formal) {
  c10::TypePtr type = formal.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType: return dtype_name(value.toScalarType());
    case c10::TypeKind::LayoutType: return value.toLayout() == c10::Layout::Strided ? "strided" : "other";
    case c10::TypeKind::MemoryFormatType: return memory_format_name(value.toMemoryFormat());
    default: return std::nullopt;
  }
}

// Unwraps the tensors in lists of optional tensors. Those that TorchScript makes (indices) have a type object
// of their own, which libtorch's functionalisation does not recognise, so it leaves them wrapped.
void unwrap_optional_lists(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const std::size_t below = stack.size() - schema.arguments().size();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    IValue& value = stack[below + i];
    if (!value.isList() || !schema.arguments()[i].type()->isSubtypeOf(*c10::ListType::ofOptionalTensors()))
      continue;
    c10::List<std::optional<at::Tensor>> plain;
    for (const IValue& item : value.toListRef()) {
      plain.push_back(item.isTensor() ? std::optional(unwrapped(item.toTensor())) : std::nullopt);
    }
    value = std::move(plain);
  }
}

// One boxed kernel for every operator. Fake is a key that libtorch leaves to other libraries; it takes effect
// only where a guard includes it, which is during a capture.
void record_and_go_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  unwrap_optional_lists(op.schema(), *stack);
  const std::size_t count = op.schema().arguments().size();
  const std::vector<IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  Recorder* const recorder = Recorder::active();
  if (recorder) recorder->check(op, arguments);
  const std::size_t below = stack->size() - count;
  const auto run = [&] {
    const c10::impl::ExcludeDispatchKeyGuard exclude(DispatchKey::Fake);
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, DispatchKey::Fake), stack);
  };
  if (!recorder) return run();
  const bool is_blank = recorder->give_results(op, arguments, *stack, run);
  recorder->record(op, arguments, IValues(*stack).slice(below), is_blank);
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&record_and_go_on>());
}

}  // namespace

Recorder::Recorder() { g_active = this; }
Recorder::~Recorder() { g_active = nullptr; }

Recorder* Recorder::active() {
  Recorder* const recorder = g_active;
  if (recorder && recorder->thread_ != std::this_thread::get_id()) {
    throw Refusal();  // torch.jit.fork; without a refusal, capture.cc writes the message
  }
  return recorder;
}

void Recorder::refuse(std::string message, std::string hint) {
  if (refusal_.empty()) {
    refusal_ = fmt::format("{}: {}", place(), message);
    hint_ = std::move(hint);
  }
  throw Refusal();
}

std::string Recorder::place() const {
  if (const auto node = torch::autograd::get_current_node()) return pass_ + " of " + node->name();
  if (!line_.empty()) return fmt::format("{} ({})", pass_, line_);
  const auto stack = torch::jit::currentCallstack();
  if (stack.empty()) return pass_;
  const auto& range = stack.front().range;  // of the innermost call; in a saved file, of the generated code
  const auto position = range.findSourceRangeThatGenerated().value_or(range).file_line_col();
  if (!position) return pass_;
  const auto& [file, line, column] = *position;
  return fmt::format("{} ({}:{})", pass_, std::filesystem::path(file).filename().string(), line);
}

const TensorId* Recorder::find(const at::Tensor& tensor) const {
  const auto found = ids_.find(tensor.unsafeGetTensorImpl());
  return found == ids_.end() ? nullptr : &found->second;
}

bool Recorder::gives_varying(const c10::OperatorHandle& op, IValues arguments) const {
  return op.hasTag(at::Tag::nondeterministic_seeded) ||
         std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return varies(v); });
}

bool Recorder::give_results(const c10::OperatorHandle& op, IValues arguments, torch::jit::Stack& stack,
                            const std::function<void()>& run) {
  if (is_shape_check(arguments)) return run(), false;
  if (gives_varying(op, arguments)) {
    const VaryingCall call(
        op, arguments, [&](const at::Tensor& tensor) { return is_blank(tensor); }, index_bounds_);
    VaryingCall::Outcome outcome = call.give_results(stack, run);
    if (outcome.is_in_doubt) throw Refusal();
    if (outcome.fault.empty()) return outcome.is_blank;
    fault_ = fmt::format("{}: {}", place(), outcome.fault);
    throw Refusal();
  }
  try {
    const ConstantMemory bounds(constant_bytes_);
    run();
  } catch (const TooManyConstants& thrown) {
    refuse(fmt::format("{} {}", op.schema().name(), thrown.text),
           "register it as a buffer, or make it of the input: x.new_zeros(…), torch.ones_like(x)");
  }
  return false;
}

bool Recorder::is_blank(const at::Tensor& tensor) const {
  const TensorId* const id = find(tensor);
  return id && known_[static_cast<std::size_t>(*id)].is_blank;
}

bool Recorder::varies(const IValue& value) const {
  bool varies = false;
  each_tensor(value, [&](const at::Tensor& tensor) {
    const TensorId* const id = find(tensor);
    varies = varies || (id && known_[static_cast<std::size_t>(*id)].varies);
  });
  return varies;
}

TensorId Recorder::number(const at::Tensor& tensor, bool varies, bool is_blank) {
  const auto id = static_cast<TensorId>(known_.size());
  const bool supported = dtype_of(tensor.scalar_type()).has_value() && tensor.layout() == c10::kStrided;
  known_.push_back({describe(tensor), dtype_name(tensor.scalar_type()), supported, varies, is_blank});
  ids_[tensor.unsafeGetTensorImpl()] = id;
  addresses_.emplace_back(tensor.getIntrusivePtr());
  return id;
}

TensorId Recorder::define(const at::Tensor& tensor, Numbers numbers) {
  return number(tensor, true, numbers == Numbers::kMissing && is_untouched(tensor));
}

TensorId Recorder::define_source(AtenSource::Kind kind, std::string name, const at::Tensor& tensor) {
  if (const auto count = element_count(tensor.sizes().vec()); !count.ok()) {
    refusal_ = fmt::format("{}: {}", name.empty() ? "a constant" : name, count.error().message);
    throw Refusal();
  }
  const bool is_literal = kind == AtenSource::Kind::kConstant;
  if (is_literal && is_untouched(tensor)) {
    fault_ = place() + ": a literal has no numbers";
    throw Refusal();
  }
  const TensorId id = number(tensor, !is_literal, is_untouched(tensor));
  if (!is_literal && !known_.back().supported) {
    refusal_ = fmt::format("{} is a tensor of {}, which cannot be captured", name, known_.back().dtype);
    throw Refusal();
  }
  sources_.push_back({kind, std::move(name), id, is_literal ? numbers_of(tensor) : Tensor()});
  return id;
}

TensorId Recorder::id_of(const at::Tensor& tensor) {
  if (const TensorId* const id = find(tensor)) return *id;
  return define_source(AtenSource::Kind::kConstant, {}, tensor);
}

AtenArgument Recorder::tensor_argument(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::optional<TensorId>();
  if (!find(tensor)) {
    if (auto number = host_number(tensor)) return *std::move(number);
  }
  return std::optional(id_of(tensor));
}

AtenArgument Recorder::argument(const IValue& value, const c10::Argument& formal) {
  if (value.isNone() || value.isGenerator()) return std::monostate();
  if (value.isTensor()) return tensor_argument(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    std::vector<std::optional<TensorId>> ids;
    const auto add = [&](const at::Tensor& tensor) {
      ids.push_back(tensor.defined() ? std::optional(id_of(tensor)) : std::nullopt);
    };
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    } else {
      for (const auto& tensor : value.toOptionalTensorVector()) add(tensor.value_or(at::Tensor()));
    }
    return ids;
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) {
    if (auto name = enum_name(value, formal)) return *std::move(name);
    return value.toInt();
  }
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return value.toDevice().str();
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const auto list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (value.isSymInt()) return value.toSymInt().expect_int();
  if (value.isSymIntList()) return concrete(value);
  refuse(fmt::format("argument '{}' is a {}, which cannot be captured", formal.name(), value.tagKind()));
}

void Recorder::check(const c10::OperatorHandle& op, IValues arguments) {
  if (is_shape_check(arguments)) return;
  const std::string& name = op.schema().name();
  const bool any_varies =
      std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return varies(v); });
  if (any_varies && depends_on_numbers(op, arguments)) {
    refuse(fmt::format(
               "{} depends on computed numbers, so it may differ from step to step and cannot be captured",
               name),
           name == "aten::_local_scalar_dense"
               ? "item(), int(), float(), bool() and `if` take a number out of a tensor: keep it a tensor, "
                 "and choose with torch.where"
               : "shapes must not depend on numbers: multiply by the mask, or choose with torch.where");
  }
  if (name == "aten::as_strided" && any_varies) {
    const at::Tensor self = arguments[0].toTensor();
    if (!self.is_contiguous() || self.storage_offset() != 0) {
      refuse("aten::as_strided of a view, whose memory has other numbers, too, cannot be captured",
             "take it of the tensor's contiguous()");
    }
  }
  if (op.schema().is_mutable() &&
      any_tensor(arguments, [&](const at::Tensor& t) { return find(t) != nullptr; })) {
    refuse(fmt::format("{}.{} changes a tensor in place and cannot be captured", name,
                       op.schema().overload_name()));
  }
}

void Recorder::add_result(const at::Tensor& tensor, Nature nature, AtenCall& call, bool& is_new) {
  if (!tensor.defined()) {
    call.results.emplace_back();
  } else if (const TensorId* const id = find(tensor)) {
    call.results.emplace_back(*id);
  } else {
    is_new = true;
    call.results.emplace_back(number(tensor, nature.varies, nature.is_blank));
  }
}

void Recorder::record(const c10::OperatorHandle& op, IValues arguments, IValues results, bool is_blank) {
  if (is_shape_check(arguments) || is_shape_check(results)) return;
  const c10::FunctionSchema& schema = op.schema();
  const bool any_varies = gives_varying(op, arguments);
  if (!any_varies && !is_uninitialised(schema.name())) {
    // A result that is the same in every step is a literal of the program if it is small, or if its shape is
    // only known by computing it.
    const bool large =
        any_tensor(results, [](const at::Tensor& tensor) { return !is_single_number(tensor); });
    if (!large || schema.is_mutable() || depends_on_numbers(op, arguments)) return;
  }
  AtenCall call;
  call.name = schema.name();
  call.overload = schema.overload_name();
  call.place = place();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    call.argument_names.push_back(schema.arguments()[i].name());
    call.arguments.push_back(argument(arguments[i], schema.arguments()[i]));
  }
  bool is_new = false;
  for (const IValue& result : results) {
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector())
        add_result(tensor, {any_varies, is_blank}, call, is_new);
    } else if (result.isTensor()) {
      add_result(result.toTensor(), {any_varies, is_blank}, call, is_new);
    }
  }
  // dgx/lowering/aten.h, AtenCall: the running statistics keep their address and get a new number.
  if (call.name == "aten::native_batch_norm" && arguments[5].toBool()) {
    for (const std::size_t statistic : {std::size_t{3}, std::size_t{4}}) {
      if (!arguments[statistic].isTensor() || !arguments[statistic].toTensor().defined()) continue;
      call.results.emplace_back(number(arguments[statistic].toTensor(), true, is_blank));
    }
  }
  if (is_new) calls_.push_back(std::move(call));  // otherwise the call returned its argument
}

Result<lowering::CapturedGraph> Recorder::finish(lowering::CapturedGraph roots) {
  std::vector<std::string> unsupported;
  for (Known& known : known_) {
    roots.tensors.push_back(std::move(known.tensor));
    unsupported.push_back(known.supported ? "" : known.dtype);
  }
  roots.sources = std::move(sources_);
  roots.calls = std::move(calls_);
  return compact(std::move(roots), unsupported);
}

}  // namespace dgx::torch_bridge
