#include "dgx/core/tensor.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "dgx/core/checked.h"

namespace dgx {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{1} << 21U;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;

/// Asks for huge pages inside a large allocation: matrices walked by columns would otherwise miss the TLB at
/// every row. Without effect on systems that have none to give.
void prefer_huge_pages(std::uint8_t* data, std::size_t size_bytes) {
#ifdef MADV_HUGEPAGE
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (address + size_bytes) / kHugePage * kHugePage;
  if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
#endif
}

enum class Content { kAny, kZeros };

/// Allocates aligned memory; free() finds its begin in front of it. Never null, so that empty tensors need no
/// special case. Of a large tensor of zeros no page is there before somebody touches it.
std::uint8_t* allocate(std::size_t size_bytes, Content content) {
  constexpr std::size_t kBefore = kAlignment + sizeof(void*);
  const std::size_t whole = size_bytes + kBefore;
  void* const begin = content == Content::kZeros ? std::calloc(whole, 1) : std::malloc(whole);
  if (begin == nullptr || whole < size_bytes) throw std::bad_alloc();
  const auto address = (reinterpret_cast<std::uintptr_t>(begin) + kBefore) / kAlignment * kAlignment;
  auto* const data = reinterpret_cast<std::uint8_t*>(address);
  std::memcpy(data - sizeof(begin), &begin, sizeof(begin));
  prefer_huge_pages(data, size_bytes);
  return data;
}

std::size_t size_bytes_of(DType dtype, const Shape& shape) {
  const auto count = element_count(shape);
  assert(count.ok());
  return static_cast<std::size_t>(*count) * size_of(dtype);
}

template <class StateType>
auto find_in(StateType& state, std::string_view name) -> decltype(state.data()) {
  const auto found =
      std::lower_bound(state.begin(), state.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.name.compare(key) < 0; });
  return found != state.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kI64: return 8;
    case DType::kU8: return 1;
  }
  assert(false);
  return 1;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kI64: return "i64";
    case DType::kU8: return "u8";
  }
  assert(false);
  return "";
}

Result<DType> dtype_from_name(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
    if (name == name_of(dtype)) return dtype;
  }
  return malformed(fmt::format("unknown element type \"{}\"", name), "element types are f32, i64 and u8");
}

Result<std::int64_t> element_count(const Shape& shape) {
  if (shape.size() > kMaxRank) return malformed(fmt::format("rank {} is above {}", shape.size(), kMaxRank));
  std::int64_t count = 1;
  bool too_many = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || shape[i] > kMaxCount) {
      return malformed(fmt::format("dimension {} is {}, must be 0 to 2^53", i, shape[i]));
    }
    if (too_many) continue;
    const auto product = checked_mul(count, shape[i]);
    too_many = !product || *product > kMaxCount;
    if (!too_many) count = *product;
  }
  if (too_many) return malformed(fmt::format("shape {} has more than 2^53 elements", to_string(shape)));
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

void Tensor::Free::operator()(std::uint8_t* data) const {
  void* begin = nullptr;
  std::memcpy(&begin, data - sizeof(begin), sizeof(begin));
  std::free(begin);
}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      size_bytes_(size_bytes_of(dtype_, shape_)),
      data_(allocate(size_bytes_, Content::kZeros)) {}

Tensor::Tensor(const TensorView& view)
    : dtype_(view.dtype),
      shape_(view.shape),
      size_bytes_(view.bytes.size()),
      data_(allocate(size_bytes_, Content::kAny)) {
  // A default-constructed tensor has no bytes at all, and may be copied.
  assert(view.bytes.empty() || view.bytes.size() == size_bytes_of(dtype_, shape_));
  if (!view.bytes.empty()) std::memcpy(data_.get(), view.bytes.data(), size_bytes_);
}

void Tensor::reshape(Shape shape) {
  assert(element_count(shape).ok() && *element_count(shape) == count());
  shape_ = std::move(shape);
}

const Entry* find_entry(const State& state, std::string_view name) { return find_in(state, name); }
Entry* find_entry(State& state, std::string_view name) { return find_in(state, name); }

Result<std::int64_t> step_of(const State& state) {
  const Entry* entry = find_entry(state, "step");
  if (entry == nullptr) return malformed("state: no entry \"step\"");
  const Tensor& tensor = entry->tensor;
  if (tensor.dtype() != DType::kI64 || !tensor.shape().empty() || tensor.count() != 1) {
    return malformed(fmt::format("state: entry \"step\" is {}{}, expected a scalar i64",
                                 name_of(tensor.dtype()), to_string(tensor.shape())));
  }
  return tensor.as<std::int64_t>()[0];
}

}  // namespace dgx
