#include "dgx/kernels/scalar.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <limits>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;
constexpr auto kReal = NumberType::kFloat;
constexpr auto kWhole = NumberType::kInteger;
constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::optional<NumberType> type_of(Op op, std::initializer_list<NumberType> operands) {
  const auto type = result_type(op, std::vector<NumberType>(operands));
  return type ? std::optional(*type) : std::nullopt;
}

std::uint64_t real(Op op, std::initializer_list<float> operands) {
  std::vector<Number> numbers;
  for (const float operand : operands) numbers.push_back(Number::of(operand));
  return apply_scalar(op, numbers).bits();
}

std::int64_t whole(Op op, std::initializer_list<std::int64_t> operands) {
  std::vector<Number> numbers;
  for (const std::int64_t operand : operands) numbers.push_back(Number::of(operand));
  return apply_scalar(op, numbers).integer;
}

TEST_CASE("every operation has a name and is found by it") {
  for (int n = 0; n < kScalarOpCount; ++n) {
    const auto op = static_cast<Op>(n);
    CHECK(scalar_op_from_name(name_of(op)) == op);
    CHECK((arity_of(op) >= 1 && arity_of(op) <= 3));
  }
  CHECK(name_of(Op::kFma) == "fma");
  CHECK(name_of(Op::kLog1p) == "log1p");
  CHECK(name_of(Op::kImod) == "imod");
  CHECK(name_of(Op::kU8) == "u8");
  CHECK_FALSE(scalar_op_from_name("pow"));
  CHECK_FALSE(scalar_op_from_name(""));
  CHECK(name_of(Kind::kArgmax) == "argmax");
}

TEST_CASE("operand types are those of the table, and nothing else") {
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin}) {
    CHECK(type_of(op, {kReal, kReal}) == kReal);
    CHECK(type_of(op, {kWhole, kWhole}) == kWhole);
    CHECK_FALSE(type_of(op, {kReal, kWhole}));
  }
  for (const Op op : {Op::kEq, Op::kNe, Op::kLt, Op::kLe, Op::kGt, Op::kGe}) {
    CHECK(type_of(op, {kReal, kReal}) == kWhole);
    CHECK(type_of(op, {kWhole, kWhole}) == kWhole);
    CHECK_FALSE(type_of(op, {kWhole, kReal}));
  }
  for (const Op op : {Op::kSqrt, Op::kFloor, Op::kTrunc, Op::kRint, Op::kExp, Op::kExpm1, Op::kLog,
                      Op::kLog1p, Op::kSin, Op::kCos, Op::kTanh, Op::kErf}) {
    CHECK(type_of(op, {kReal}) == kReal);
    CHECK_FALSE(type_of(op, {kWhole}));
  }
  for (const Op op : {Op::kIdiv, Op::kImod, Op::kAnd, Op::kOr}) {
    CHECK(type_of(op, {kWhole, kWhole}) == kWhole);
    CHECK_FALSE(type_of(op, {kReal, kReal}));
  }
  CHECK(type_of(Op::kSelect, {kWhole, kReal, kReal}) == kReal);
  CHECK(type_of(Op::kSelect, {kWhole, kWhole, kWhole}) == kWhole);
  CHECK_FALSE(type_of(Op::kSelect, {kReal, kReal, kReal}));
  CHECK_FALSE(type_of(Op::kSelect, {kWhole, kReal, kWhole}));
  CHECK_FALSE(type_of(Op::kDiv, {kWhole, kWhole}));
  CHECK_FALSE(type_of(Op::kFma, {kWhole, kWhole, kWhole}));
  CHECK_FALSE(type_of(Op::kNot, {kReal}));
  CHECK(type_of(Op::kF32, {kWhole}) == kReal);
  CHECK(type_of(Op::kF32, {kReal}) == kReal);
  CHECK(type_of(Op::kI64, {kReal}) == kWhole);
  CHECK(type_of(Op::kU8, {kWhole}) == kWhole);
  CHECK_FALSE(type_of(Op::kAdd, {kReal}));
  CHECK(result_type(Op::kAdd, std::vector{kReal, kWhole}).error().message ==
        "add takes operands of one type, not a float, an integer");
}

TEST_CASE("max and min give their second operand unless the first is strictly beyond it") {
  CHECK(real(Op::kMax, {kNan, 1}) == bits(1));
  CHECK(real(Op::kMax, {1, kNan}) == kCanonicalNanBits);
  CHECK(real(Op::kMin, {1, kNan}) == kCanonicalNanBits);
  CHECK(real(Op::kMax, {0.0F, -0.0F}) == bits(-0.0F));
  CHECK(real(Op::kMin, {-0.0F, 0.0F}) == bits(0.0F));
  CHECK(whole(Op::kMax, {-3, 2}) == 2);
  CHECK(whole(Op::kMin, {-3, 2}) == -3);
}

TEST_CASE("fma rounds once") {
  const float a = 1 + 0x1p-12F;
  CHECK(real(Op::kFma, {a, a, -1}) == bits(0x1p-11F + 0x1p-24F));
  // The exact sum is halfway between two subnormals; the product alone would round to zero.
  CHECK(real(Op::kFma, {0x1p-126F, 0x1p-24F, 0x1p-149F}) == bits(0x1p-148F));
}

TEST_CASE("subnormals are kept") {
  CHECK(real(Op::kAdd, {0x1p-149F, 0x1p-149F}) == 2);
  CHECK(real(Op::kMul, {0x1p-100F, 0x1p-49F}) == 1);
}

TEST_CASE("rint is to nearest, ties to even, and keeps the sign of zero") {
  CHECK(real(Op::kRint, {2.5F}) == bits(2));
  CHECK(real(Op::kRint, {-0.5F}) == bits(-0.0F));
  CHECK(real(Op::kFloor, {-0.5F}) == bits(-1));
  CHECK(real(Op::kTrunc, {-1.5F}) == bits(-1));
}

TEST_CASE("only ne is true of NaN") {
  for (const Op op : {Op::kEq, Op::kLt, Op::kLe, Op::kGt, Op::kGe}) CHECK(real(op, {kNan, kNan}) == 0);
  CHECK(real(Op::kNe, {kNan, kNan}) == 1);
  CHECK(real(Op::kEq, {0.0F, -0.0F}) == 1);
}

TEST_CASE("integers wrap, and divide towards minus infinity") {
  CHECK(whole(Op::kAdd, {kMost, 1}) == kLeast);
  CHECK(whole(Op::kSub, {kLeast, 1}) == kMost);
  CHECK(whole(Op::kMul, {kMost, 2}) == -2);
  CHECK(whole(Op::kNeg, {kLeast}) == kLeast);
  CHECK(whole(Op::kAbs, {kLeast}) == kLeast);
  CHECK(whole(Op::kIdiv, {-7, 2}) == -4);
  CHECK(whole(Op::kImod, {-7, 2}) == 1);
  CHECK(whole(Op::kIdiv, {7, -2}) == -4);
  CHECK(whole(Op::kImod, {7, -2}) == -1);
  CHECK(whole(Op::kIdiv, {-6, 2}) == -3);
  CHECK(whole(Op::kIdiv, {5, 0}) == 0);
  CHECK(whole(Op::kImod, {5, 0}) == 0);
  CHECK(whole(Op::kIdiv, {kLeast, -1}) == kLeast);
  CHECK(whole(Op::kImod, {kLeast, -1}) == 0);
  CHECK(whole(Op::kAnd, {2, 4}) == 1);
  CHECK(whole(Op::kOr, {0, -1}) == 1);
  CHECK(whole(Op::kNot, {7}) == 0);
}

TEST_CASE("conversions truncate and saturate") {
  const auto to_whole = [](Op op, float value) {
    return apply_scalar(op, std::vector{Number::of(value)}).integer;
  };
  CHECK(to_whole(Op::kI64, -1.9F) == -1);
  CHECK(to_whole(Op::kI64, kNan) == 0);
  CHECK(to_whole(Op::kI64, 0x1p63F) == kMost);
  CHECK(to_whole(Op::kI64, -0x1p63F) == kLeast);
  CHECK(to_whole(Op::kI64, -0x1p64F) == kLeast);
  CHECK(to_whole(Op::kI64, 0x1.fffffep62F) == 0x7FFFFF8000000000);
  CHECK(to_whole(Op::kU8, 255.9F) == 255);
  CHECK(to_whole(Op::kU8, 300) == 255);
  CHECK(to_whole(Op::kU8, -1) == 0);
  CHECK(to_whole(Op::kU8, kNan) == 0);
  CHECK(whole(Op::kU8, {256}) == 255);
  CHECK(apply_scalar(Op::kF32, std::vector{Number::of((std::int64_t{1} << 24) + 1)}).real == 0x1p24F);
  CHECK(apply_scalar(Op::kF32, std::vector{Number::of((std::int64_t{1} << 24) + 3)}).real == 0x1p24F + 4);
  // Rounding to binary64 first would give 2^54 here, a tie that does not exist.
  CHECK(apply_scalar(Op::kF32, std::vector{Number::of((std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1)})
            .real == 0x1.000002p54F);
}

TEST_CASE("all NaNs are one where they are stored") {
  CHECK(Number::of(kNan) == Number::of(-kNan));
  CHECK_FALSE(Number::of(0.0F) == Number::of(-0.0F));
  CHECK_FALSE(Number::of(0.0F) == Number::of(std::int64_t{0}));
  CHECK(to_string(Number::of(1.0F)) == "0x3f800000 (1)");
  CHECK(to_string(Number::of(0.0F)) == "0x00000000 (0)");
}

}  // namespace
}  // namespace dgx::kernels
