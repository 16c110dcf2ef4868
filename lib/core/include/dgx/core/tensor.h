#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx {

/// Element types. The values are the dtype bytes of dgx-bundle(5), "Tensor digest", and never change.
enum class DType : std::uint8_t { kF32 = 1, kI64 = 2, kU8 = 3 };

[[nodiscard]] std::size_t size_of(DType dtype);
/// "f32", "i64" or "u8".
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] Result<DType> dtype_from_name(std::string_view name);

/// Dimensions, outermost first; at most kMaxRank, each from 0 to 2^53. An empty shape has one element.
using Shape = std::vector<std::int64_t>;
inline constexpr std::size_t kMaxRank = 8;

/// Number of elements; kMalformed if a dimension is negative, the rank too high, or the product exceeds 2^53.
[[nodiscard]] Result<std::int64_t> element_count(const Shape& shape);
/// "[2,3]".
[[nodiscard]] std::string to_string(const Shape& shape);

/// Row-major, little-endian numbers owned elsewhere.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  ByteView bytes;

  [[nodiscard]] std::int64_t count() const {
    return static_cast<std::int64_t>(bytes.size() / size_of(dtype));
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Row-major, little-endian numbers, 64-byte aligned. Copies share nothing.
class Tensor {
 public:
  Tensor() = default;
  /// Zeros, which take memory when they are written. The shape must be valid (element_count): asserted.
  Tensor(DType dtype, Shape shape);
  Tensor(const TensorView& view);  // NOLINT: implicit by design
  Tensor(const Tensor& other) : Tensor(other.view()) {}
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other.view()); }
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t count() const { return view().count(); }
  /// Gives the numbers another shape of as many elements (asserted).
  void reshape(Shape shape);
  [[nodiscard]] ByteView bytes() const { return {data_.get(), size_bytes_}; }
  [[nodiscard]] std::span<std::uint8_t> bytes() { return {data_.get(), size_bytes_}; }
  [[nodiscard]] TensorView view() const { return {dtype_, shape_, bytes()}; }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(data_.get()), size_bytes_ / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return view().as<T>();
  }

 private:
  struct Free {
    void operator()(std::uint8_t* data) const;
  };
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::size_t size_bytes_ = 0;
  std::unique_ptr<std::uint8_t[], Free> data_;
};

/// One named part of a state: `model/NAME`, `optimizer/exp_avg/NAME`, `step`, `loss` (dgx-bundle(5),
/// "State").
struct Entry {
  std::string name;
  Tensor tensor;
};

/// Everything a step reads and writes, sorted by name bytes, names unique.
using State = std::vector<Entry>;

/// An entry of a state whose numbers, and name, are owned elsewhere.
struct EntryView {
  std::string_view name;
  TensorView tensor;
};

/// The entry called `name`, or null. Cost: a binary search.
[[nodiscard]] const Entry* find_entry(const State& state, std::string_view name);
[[nodiscard]] Entry* find_entry(State& state, std::string_view name);
/// The scalar i64 entry `step`; kMalformed if the state has none.
[[nodiscard]] Result<std::int64_t> step_of(const State& state);

}  // namespace dgx
