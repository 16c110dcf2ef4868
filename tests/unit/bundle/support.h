#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle::test {

/// A temporary folder, removed with its contents.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Names of its files, sorted, separated by spaces.
  [[nodiscard]] std::string list() const;

 private:
  std::string path_;
};

[[nodiscard]] std::string slurp(const std::string& path);
void spill(const std::string& path, std::string_view content);

/// Numbers that depend only on the seed; floats are finite, with many exponents.
[[nodiscard]] Tensor numbers(DType dtype, Shape shape, std::uint64_t seed);
/// A state with each dtype and scalar, empty, tiny and chunked (with a shorter last chunk) tensors; its step
/// counter is `step`.
[[nodiscard]] State sample_state(std::int64_t step, std::uint64_t seed = 1);

[[nodiscard]] bool same(const TensorView& a, const TensorView& b);
[[nodiscard]] bool same(const State& a, const State& b);

/// Deterministic random numbers (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace dgx::bundle::test
