#pragma once

#include <string>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::test {

/// A tensor of a case and the rule that fills it.
struct Field {
  std::string name;
  Shape shape;
  std::vector<std::string> rule;  ///< "normal", "uniform -2 2", "int 0 7", "zeros", "ones", "values 1 2.5 -0"

  [[nodiscard]] DType dtype() const { return rule.front() == "int" ? DType::kI64 : DType::kF32; }
};

/// The numbers of a random input of the step program, with which the reference computes.
struct Draw {
  std::string name;
  std::uint32_t stream = 0;
  Shape shape;
};

/// A small model whose program must mean what libtorch computes (README.md describes the format).
struct Case {
  std::string name;
  Field input;
  std::vector<Field> parameters, buffers;
  std::vector<Draw> draws;
  double tolerance = 1e-5;
  std::string refused;
  std::int64_t steps = 1;
  double learning_rate = 1 << 20;
  bool evaluates = true;
  std::string source;     ///< TorchScript
  std::string reference;  ///< TorchScript that libtorch runs; `source` unless the case has a `reference` part
};

/// Parses the cases of a file's text. kMalformed, naming the faulty line.
[[nodiscard]] Result<std::vector<Case>> parse_cases(const std::string& text);

/// Fills the field. Random numbers are a function of `seed` and the field's name.
[[nodiscard]] Result<Tensor> filled(const Field& field, std::uint32_t seed);

}  // namespace dgx::test
