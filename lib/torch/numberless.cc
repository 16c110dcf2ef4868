#include "numberless.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plain_calls.h"

namespace dgx::torch_bridge {
namespace {

using c10::DispatchKey;
using c10::IValue;
using torch::jit::Stack;

/// The most bytes of a tensor that is told: for more, libtorch says that they cannot be had.
constexpr std::size_t kMostBytes = std::size_t{1} << 40;

bool g_all_numbers = false;

/// Memory of untouched_zeros().
struct Pages {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

void unmap(void* context) {
  auto* const pages = static_cast<Pages*>(context);
  ::munmap(pages->begin, pages->bytes);
  delete pages;
}

c10::DataPtr map_pages(std::size_t bytes) {
  auto pages = std::make_unique<Pages>();
  pages->bytes = bytes;
  pages->begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages->begin == MAP_FAILED) throw std::bad_alloc();
  void* const begin = pages->begin;
  return {begin, pages.release(), &unmap, c10::Device(c10::kCPU)};
}

/// The tensors by which an operator looks up numbers of another, and whose own decide whether a call fails.
enum class Indices {
  kNone,        ///< or those of a call before it, as in a gradient
  kRows,        ///< (weight, indices): in the first dimension
  kDimension,   ///< (self, dim, index, …)
  kDimensions,  ///< (self, indices, …): a tensor or None for each dimension
  kClasses,     ///< (self, target, …): the call says so itself
};

/// The types of tensors for which an operator is known.
enum class Types {
  kFloats,
  kAny,
  kMasked,  ///< the second argument is boolean, the others any
};

/// An operator whose results have on the CPU the form that its kernel for the meta device tells: libtorch's,
/// or that of meta_kernels.cc.
struct Known {
  std::string_view name;  ///< without "aten::"
  Types types = Types::kFloats;
  Indices indices = Indices::kNone;
};

/// Sorted by name.
constexpr Known kKnown[] = {
    {"_log_softmax"},
    {"_log_softmax_backward_data"},
    {"_safe_softmax"},
    {"_softmax"},
    {"_softmax_backward_data"},
    {"_to_copy", Types::kAny},
    {"add", Types::kAny},
    {"addcdiv"},
    {"addcmul"},
    {"addmm"},
    {"amax"},
    {"amin"},
    {"avg_pool2d"},
    {"avg_pool2d_backward"},
    {"baddbmm"},
    {"bernoulli"},
    {"bmm"},
    {"cat", Types::kAny},
    {"clamp"},
    {"clamp_max"},
    {"clamp_min"},
    {"clone", Types::kAny},
    {"constant_pad_nd", Types::kAny},
    {"convolution"},
    {"convolution_backward"},
    {"cos"},
    {"cumsum"},
    {"div", Types::kAny},
    {"elu"},
    {"elu_backward"},
    {"embedding", Types::kAny, Indices::kRows},
    {"embedding_dense_backward", Types::kAny},
    {"eq", Types::kAny},
    {"erf"},
    {"exp"},
    {"full_like", Types::kAny},
    {"gather", Types::kAny, Indices::kDimension},
    {"ge", Types::kAny},
    {"gelu"},
    {"gelu_backward"},
    {"gt", Types::kAny},
    {"hardsigmoid"},
    {"index", Types::kAny, Indices::kDimensions},
    {"index_select", Types::kAny, Indices::kDimension},
    {"le", Types::kAny},
    {"leaky_relu"},
    {"leaky_relu_backward"},
    {"log"},
    {"lt", Types::kAny},
    {"masked_fill", Types::kMasked},
    {"max_pool2d_with_indices"},
    {"max_pool2d_with_indices_backward", Types::kAny},
    {"maximum", Types::kAny},
    {"mean"},
    {"minimum", Types::kAny},
    {"mm"},
    {"mse_loss"},
    {"mul", Types::kAny},
    {"native_batch_norm"},
    {"native_batch_norm_backward"},
    {"native_dropout"},
    {"native_dropout_backward", Types::kAny},
    {"native_layer_norm"},
    {"native_layer_norm_backward"},
    {"ne", Types::kAny},
    {"neg"},
    {"new_ones", Types::kAny},
    {"new_zeros", Types::kAny},
    {"nll_loss2d_backward", Types::kAny},
    {"nll_loss2d_forward", Types::kAny, Indices::kClasses},
    {"nll_loss_backward", Types::kAny},
    {"nll_loss_forward", Types::kAny, Indices::kClasses},
    {"ones_like", Types::kAny},
    {"pow"},
    {"reciprocal"},
    {"relu"},
    {"repeat", Types::kAny},
    {"rsqrt"},
    {"rsub"},
    {"scatter", Types::kAny, Indices::kDimension},
    {"scatter_add", Types::kAny, Indices::kDimension},
    {"select_backward", Types::kAny},
    {"sigmoid"},
    {"sigmoid_backward"},
    {"silu"},
    {"silu_backward"},
    {"sin"},
    {"slice_backward", Types::kAny},
    {"softplus"},
    {"softplus_backward"},
    {"sqrt"},
    {"stack", Types::kAny},
    {"sub", Types::kAny},
    {"sum", Types::kAny},
    {"tanh"},
    {"tanh_backward"},
    {"threshold_backward"},
    {"tril", Types::kAny},
    {"triu", Types::kAny},
    {"where", Types::kAny},
    {"zeros_like", Types::kAny},
};
static_assert(std::ranges::is_sorted(kKnown, {}, &Known::name));

const Known* find_known(const c10::OperatorHandle& op) {
  constexpr std::string_view kAten = "aten::";
  std::string_view name = op.schema().name();
  if (!name.starts_with(kAten)) return nullptr;
  name.remove_prefix(kAten.size());
  const auto* const found = std::ranges::lower_bound(kKnown, name, {}, &Known::name);
  return found != std::end(kKnown) && found->name == name ? found : nullptr;
}

bool have_types(CallValues arguments, Types types) {
  if (types == Types::kMasked && arguments[1].toTensor().scalar_type() != at::kBool) return false;
  return !any_tensor(arguments, [&](const at::Tensor& tensor) {
    const at::ScalarType type = tensor.scalar_type();
    if (type == at::kFloat || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return false;
    const bool is_integer = type == at::kLong || type == at::kInt || type == at::kByte || type == at::kBool;
    return types == Types::kFloats || !is_integer;
  });
}

/// A tensor of the same form on the meta device, which has no numbers.
at::Tensor on_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  at::Tensor out = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

IValue on_meta(const IValue& value) {
  if (value.isTensor()) return on_meta(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kMeta);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(on_meta(each));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& each : value.toOptionalTensorVector())
      list.push_back(each ? std::optional(on_meta(*each)) : std::nullopt);
    return list;
  }
  return value;
}

/// The call's results on the meta device; nullopt if no kernel tells them, or the call is wrong.
std::optional<Stack> told_results(const c10::OperatorHandle& op, CallValues arguments) {
  const PlainCalls plain;
  Stack stack;
  try {
    for (const IValue& argument : arguments) stack.push_back(on_meta(argument));
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const bool are_forms = !any_tensor(stack, [](const at::Tensor& tensor) { return !tensor.is_meta(); });
  return are_forms ? std::optional(std::move(stack)) : std::nullopt;
}

at::Tensor without_numbers(const at::Tensor& told) {
  return told.defined() ? untouched_zeros(told.sizes(), told.strides(), told.scalar_type()) : told;
}

IValue without_numbers(const IValue& told) {
  if (told.isTensor()) return without_numbers(told.toTensor());
  if (!told.isTensorList()) return told;
  c10::List<at::Tensor> list;
  for (const at::Tensor& each : told.toTensorVector()) list.push_back(without_numbers(each));
  return list;
}

/// The form of a result, for comparing and for messages.
std::string form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} [{}] strides [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), fmt::join(tensor.strides(), ","));
}

std::string forms_of(CallValues results) {
  std::string text;
  const auto add = [&](const at::Tensor& tensor) { text += (text.empty() ? "" : ", ") + form_of(tensor); };
  for (const IValue& result : results) {
    if (result.isTensor()) add(result.toTensor());
    if (!result.isTensorList()) continue;
    for (const at::Tensor& tensor : result.toTensorVector()) add(tensor);
  }
  return text;
}

/// True if all numbers of `index` are integers from `least` to below `size`.
bool are_within(const at::Tensor& index, std::int64_t least, std::int64_t size) {
  if (!at::isIntegralType(index.scalar_type(), /*includeBool=*/false)) return false;
  if (index.numel() == 0) return true;
  const PlainCalls plain;
  const auto [low, high] = at::aminmax(index.detach());
  return low.item<std::int64_t>() >= least && high.item<std::int64_t>() < size;
}

/// The same results without their strides, which libtorch chooses by rules of its own.
bool have_same_sizes(CallValues some, CallValues others) {
  std::vector<at::Tensor> tensors;
  const auto gather = [&](const at::Tensor& tensor) { return tensors.push_back(tensor), false; };
  static_cast<void>(any_tensor(some, gather));
  const auto count = static_cast<std::ptrdiff_t>(tensors.size());
  static_cast<void>(any_tensor(others, gather));
  return std::equal(tensors.begin(), tensors.begin() + count, tensors.begin() + count, tensors.end(),
                    [](const at::Tensor& a, const at::Tensor& b) {
                      return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
                    });
}

}  // namespace

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() <= kSmallBytes; }

AllNumbers::AllNumbers() { g_all_numbers = true; }
AllNumbers::~AllNumbers() { g_all_numbers = false; }

at::Tensor untouched_zeros(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  const std::size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  if (bytes <= kSmallBytes || g_all_numbers) {
    const PlainCalls plain;
    at::Tensor out = at::empty_strided(sizes, strides, at::TensorOptions(type));
    if (bytes > 0) std::memset(out.mutable_data_ptr(), 0, bytes);
    return out;
  }
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, map_pages(bytes), /*allocator=*/nullptr,
                       /*resizable=*/false);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return out;
}

at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type) {
  return untouched_zeros(sizes, c10::contiguous_strides(sizes), type);
}

at::Tensor stand_in_for(const at::Tensor& numbers) {
  at::Tensor out = untouched_zeros(numbers.sizes(), numbers.strides(), numbers.scalar_type());
  const std::size_t bytes = out.storage().nbytes();
  if (!is_untouched(out) && bytes > 0) std::memcpy(out.mutable_data_ptr(), numbers.const_data_ptr(), bytes);
  return out;
}

bool is_untouched(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &unmap;
}

/// The arguments by which the call looks up others; targets of a loss have no bounds here.
std::vector<VaryingCall::Index> VaryingCall::indices() const {
  const Known* const known = find_known(op_);
  const auto size_of = [&](std::int64_t dimension) {
    const at::Tensor self = arguments_[0].toTensor();
    return self.dim() == 0 ? 1 : self.size(dimension);
  };
  switch (known ? known->indices : Indices::kNone) {
    case Indices::kNone: return {};
    case Indices::kRows: return {{arguments_[1].toTensor(), size_of(0)}};
    case Indices::kDimension: return {{arguments_[2].toTensor(), size_of(arguments_[1].toInt())}};
    case Indices::kClasses: return {{arguments_[1].toTensor()}};
    case Indices::kDimensions: break;
  }
  std::vector<Index> list;
  std::int64_t dimension = 0;
  for (const auto& index : arguments_[1].toOptionalTensorVector()) {
    if (index && index->defined()) list.push_back({*index, size_of(dimension), -size_of(dimension)});
    ++dimension;
  }
  return list;
}

/// True if the numbers of the arguments matter: those of integers, which later calls may take for indices,
/// and indices that do not fit, which libtorch's own words are for.
bool VaryingCall::must_run(const Stack& told) const {
  const bool are_integers = !any_tensor(
      told, [](const at::Tensor& tensor) { return !at::isIntegralType(tensor.scalar_type(), true); });
  if (are_integers && !has_blank_) return true;
  if (index_bounds_ == IndexBounds::kKept) return false;
  const auto list = indices();
  return std::any_of(list.begin(), list.end(),
                     [](const Index& each) { return !are_within(each.numbers, each.least, each.size); });
}

VaryingCall::Outcome VaryingCall::give_results(Stack& stack, const std::function<void()>& run) const {
  if (g_all_numbers) return run(), Outcome{};
  const Outcome doubt{.is_blank = true, .is_in_doubt = true, .fault = {}};
  const auto looked_up_by = index_bounds_ == IndexBounds::kKept ? std::vector<Index>() : indices();
  if (std::any_of(looked_up_by.begin(), looked_up_by.end(),
                  [&](const Index& each) { return is_blank_(each.numbers); }))
    return doubt;
  const Known* const known = find_known(op_);
  const bool is_known = known != nullptr && have_types(arguments_, known->types);
  const auto told = is_known ? told_results(op_, arguments_) : std::nullopt;
  const auto is_beyond = [](const at::Tensor& tensor) { return tensor.nbytes() > kMostBytes; };
  if (!told || any_tensor(*told, is_beyond)) {
    // Integers may be indices.
    const bool may_look_up = any_tensor(arguments_, [&](const at::Tensor& tensor) {
      return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) && is_blank_(tensor);
    });
    if (may_look_up && index_bounds_ == IndexBounds::kUnknown) return doubt;
    run();
    return {has_blank_, false, {}};
  }
  const auto is_large = [](const at::Tensor& tensor) { return !is_small(tensor); };
  const bool has_large = any_tensor(arguments_, is_large) || any_tensor(*told, is_large);
  const std::size_t below = stack.size() - arguments_.size();
  if (has_large && !must_run(*told)) {
    stack.resize(below);
    for (const IValue& each : *told) stack.push_back(without_numbers(each));
    return {true, false, {}};
  }
  run();
  const CallValues results = CallValues(stack).slice(below);
  const std::string real = forms_of(results), expected = forms_of(*told);
  if (real == expected) return {has_blank_, false, {}};
  if (have_same_sizes(results, *told)) return doubt;
  return {has_blank_, false,
          fmt::format("{} gives {}, expected was {}", op_.schema().name(), real, expected)};
}

}  // namespace dgx::torch_bridge
