#include "bisect/line_role.h"

#include <catch2/catch.hpp>

namespace dgx::jobs {
namespace {

kernels::Primitive input(const std::string& name, std::optional<std::int32_t> next) {
  kernels::Primitive out;
  out.kind = kernels::Kind::kInput;
  out.shape = {3, 4};
  out.source = {kernels::Source::Kind::kState, name, {}};
  if (next) out.next = kernels::ValueIndex{*next};
  return out;
}

kernels::Primitive map(const std::string& provenance) {
  kernels::Primitive out;
  out.shape = {3, 4};
  out.provenance = provenance;
  return out;
}

program::Program small_program() {
  return {{input("model/0.weight", 3), input("optimizer/momentum/0.weight", 2), map("sgd 0.weight"),
           map("sgd 0.weight"), map("28 mm"), map("loss mse")}};
}

}  // namespace

TEST_CASE("a value's role is what becomes of it, or else where it comes from") {
  const program::Program program = small_program();
  const StepLines lines{&program};
  CHECK(role_of_value(lines, 0) == "the weight of layer 0 before the step");
  CHECK(role_of_value(lines, 2) == "the new momentum of the weight of layer 0");
  CHECK(role_of_value(lines, 3) == "the new weight of layer 0");
  CHECK(role_of_value(lines, 4) == "a value of mm, call 28 of the step");
  CHECK(role_of_value(lines, 5) == "a value of loss mse");
  CHECK(role_of_value(lines, 6) == "value 6");
  CHECK(role_of_value({}, 1234) == "value 1,234");
}

TEST_CASE("a line that a move opened is known without the program") {
  const kernels::Primitive line = map("sgd 0.weight");
  const StepLines lines{nullptr, 55, &line};
  CHECK(role_of_value(lines, 55) == "sgd's update of the weight of layer 0");
  CHECK(role_of_element(lines, 55, 6) == "sgd's update of the weight of layer 0, number 6 [1, 2]");
  CHECK(role_of_value(lines, 54) == "value 54");
}

TEST_CASE("operands are told by their sources") {
  const program::Program program = small_program();
  const StepLines lines{&program};
  CHECK(role_of_operand(lines, "value 1[5]") ==
        "the momentum of the weight of layer 0 before the step, number 5 [1, 1]");
  CHECK(role_of_operand(lines, "value 99[5]") == "value 99, number 5");
  CHECK(role_of_operand(lines, "value 1[]") == "the index value 1[]");
  CHECK(role_of_operand(lines, "accumulator") == "the running result before it");
  CHECK(role_of_operand(lines, "step 3") == "the result of step 3 of the line");
  CHECK(role_of_operand(lines, "k0") == "the index k0");
}

TEST_CASE("an operation is told in letters") {
  CHECK(formula_of("div", 2) == "a ÷ b");
  CHECK(formula_of("exp", 1) == "exp(a)");
  CHECK(formula_of("idiv", 2) == "idiv(a, b)");
  CHECK(formula_of("keep", 0) == "keep");
}

}  // namespace dgx::jobs
