#include "dgx/core/tensor.h"

#include <catch2/catch.hpp>

namespace dgx {
namespace {

constexpr std::int64_t kTwo53 = std::int64_t{1} << 53;

TEST_CASE("element types go by name and size") {
  CHECK(size_of(DType::kF32) == 4);
  CHECK(size_of(DType::kI64) == 8);
  CHECK(size_of(DType::kU8) == 1);
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8})
    CHECK(*dtype_from_name(name_of(dtype)) == dtype);
  CHECK(dtype_from_name("f64").error().message == "unknown element type \"f64\"");
}

TEST_CASE("element_count multiplies, and one element has no dimensions") {
  CHECK(*element_count({}) == 1);
  CHECK(*element_count({2, 3}) == 6);
  CHECK(*element_count({0, 3}) == 0);
  CHECK(*element_count({kTwo53}) == kTwo53);
}

TEST_CASE("element_count refuses what overflows, is negative or has too many dimensions") {
  CHECK_FALSE(element_count({kTwo53 + 1}).ok());
  CHECK_FALSE(element_count({kTwo53, 2}).ok());
  CHECK_FALSE(element_count({kTwo53, kTwo53, kTwo53}).ok());
  CHECK_FALSE(element_count({2, -1}).ok());
  CHECK(element_count({2, -1}).error().message == "dimension 1 is -1, must be 0 to 2^53");
  CHECK_FALSE(element_count({kTwo53, 2, -1}).ok());
  CHECK_FALSE(element_count(Shape(kMaxRank + 1, 1)).ok());
  CHECK(element_count(Shape(kMaxRank, 1)).ok());
}

TEST_CASE("a shape prints as a JSON array") {
  CHECK(to_string(Shape{2, 3}) == "[2,3]");
  CHECK(to_string(Shape{}) == "[]");
}

TEST_CASE("a new tensor is zero, aligned to 64 bytes, and knows its count") {
  const Tensor tensor(DType::kI64, {3, 5});
  CHECK(tensor.count() == 15);
  CHECK(tensor.bytes().size() == 120);
  CHECK(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64 == 0);
  for (const std::int64_t element : tensor.as<std::int64_t>()) CHECK(element == 0);
}

TEST_CASE("copies of a tensor share nothing") {
  Tensor first(DType::kF32, {2});
  first.as<float>()[1] = 4.0F;
  Tensor second = first;
  second.as<float>()[1] = 5.0F;
  CHECK(first.as<float>()[1] == 4.0F);
  first = second;
  CHECK(first.as<float>()[1] == 5.0F);
  second = *&second;
  CHECK(second.as<float>()[1] == 5.0F);
}

TEST_CASE("empty and default tensors can be copied") {
  const Tensor none;
  const Tensor copy = none;
  CHECK(copy.bytes().empty());
  const Tensor empty(DType::kU8, {0, 4});
  CHECK(Tensor(empty).shape() == Shape{0, 4});
}

State example_state() {
  State state;
  for (const char* name : {"loss", "model/w", "step"}) state.push_back({name, Tensor(DType::kI64, {})});
  state[2].tensor.as<std::int64_t>()[0] = 41;
  return state;
}

TEST_CASE("entries are found by their whole name only") {
  State state = example_state();
  CHECK(find_entry(state, "model/w") == &state[1]);
  CHECK(find_entry(state, "model") == nullptr);
  CHECK(find_entry(state, "zzz") == nullptr);
  CHECK(find_entry(std::as_const(state), "loss") == &state[0]);
  CHECK(find_entry(State{}, "loss") == nullptr);
}

TEST_CASE("step_of reads a scalar i64 and nothing else") {
  State state = example_state();
  CHECK(*step_of(state) == 41);
  state[2].tensor = Tensor(DType::kI64, {1});
  CHECK(step_of(state).error().message == "state: entry \"step\" is i64[1], expected a scalar i64");
  state.pop_back();
  CHECK(step_of(state).error().code == ErrorCode::kMalformed);
}

}  // namespace
}  // namespace dgx
