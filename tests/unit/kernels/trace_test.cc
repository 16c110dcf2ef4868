#include <algorithm>
#include <catch2/catch.hpp>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

using Op = ScalarOp;

std::vector<ScalarRecord> records(const Primitive& primitive, const std::vector<Tensor>& values,
                                  std::int64_t element) {
  std::vector<ScalarRecord> all;
  const auto trace = trace_element(compiled(primitive, values), views(values), element,
                                   [&all](const ScalarRecord& record) { all.push_back(record); });
  REQUIRE(trace.ok());
  CHECK(trace->operations == static_cast<std::int64_t>(all.size()));
  CHECK(trace->last == (all.empty() ? std::nullopt : std::optional(all.back())));
  for (std::size_t n = 0; n < all.size(); ++n) CHECK(all[n].index == static_cast<std::int64_t>(n));
  CHECK(trace->result == *evaluate_element(compiled(primitive, values), views(values), element));
  return all;
}

Primitive dot(std::int64_t n) {
  return fold(Kind::kDot, DType::kF32, {}, {n}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})});
}
std::vector<Tensor> factors(std::int64_t n) {
  return {floats({n}, pattern(1, n)), floats({n}, pattern(2, n))};
}
Primitive sum(std::int64_t n) { return fold(Kind::kSum, DType::kF32, {}, {n}, {read(0, {at({k(0)})})}); }

TEST_CASE("a dot's records are its terms, blocks and groups") {
  const auto all = records(dot(4097), factors(4097), 0);
  REQUIRE(all.size() == 4097 + 17 + 2);
  CHECK(all[0].place == Place::kDotTerm);
  CHECK(all[0].operands[0].origin == OperandRecord::Origin::kElement);
  CHECK(all[0].operands[2].number == Number::of(0.0F));
  CHECK(all[256].place == Place::kDotBlock);
  CHECK(all[256].operands[1].number == all[255].result);
  CHECK(all[257].position == 256);
  CHECK(all[4096 + 16].place == Place::kDotGroup);
  CHECK(all[4096 + 17].position == 4096);
  CHECK(all.back().place == Place::kDotGroup);
  CHECK(all.back().position == 1);
}

TEST_CASE("the records of an element are as many as are counted where nothing is skipped") {
  for (const std::int64_t n : {0, 1, 31, 33, 256, 257, 2048, 2049, 4096, 4097}) {
    CAPTURE(n);
    CHECK(static_cast<std::int64_t>(records(dot(n), factors(n), 0).size()) ==
          count_operations(dot(n))->total());
    CHECK(static_cast<std::int64_t>(records(sum(n), factors(n), 0).size()) ==
          count_operations(sum(n))->total());
    auto greatest = sum(n);
    greatest.kind = Kind::kMax;
    CHECK(static_cast<std::int64_t>(records(greatest, factors(n), 0).size()) ==
          count_operations(greatest)->total());
  }
}

TEST_CASE("a block of a sum closes straight after its last position") {
  const auto all = records(sum(2049), factors(2049), 0);
  CHECK(all[2047].place == Place::kSumLane);
  CHECK(all[2048].place == Place::kSumCombine);
  CHECK(all[2048 + 31].place == Place::kSumLane);
  CHECK(all[2048 + 31].step == 1);
  CHECK(all[2048 + 32].position == 2048);
}

TEST_CASE("records are in step order, and only of what the selects take") {
  const auto primitive = map(DType::kF32, {2}, {read(0, {at({i(0)})})},
                             {step(Op::kExp, {Operand::access(0)}), step(Op::kNeg, {Operand::access(0)}),
                              step(Op::kEq, {Operand::iteration(0), Operand::literal(std::int64_t{0})}),
                              step(Op::kSelect, {Operand::step(2), Operand::step(0), Operand::step(1)})});
  const auto values = std::vector<Tensor>{floats({2}, {0, 3})};
  const auto first = records(primitive, values, 0);
  REQUIRE(first.size() == 3);
  CHECK((first[0].step == 0 && first[1].step == 2 && first[2].step == 3));
  CHECK(first[2].operand_count == 2);
  CHECK(first[2].operands[1].index == 0);
  const auto second = records(primitive, values, 1);
  REQUIRE(second.size() == 3);
  CHECK(second[0].op == Op::kNeg);
  CHECK(second.back().result == Number::of(-3.0F));
  CHECK(count_operations(primitive)->total() == 8);
  CHECK((*count_operations(primitive))[Op::kExp] == 2);
}

TEST_CASE("a copy has no scalar operation") {
  CHECK(records(map(DType::kF32, {2}, {read(0, {at({i(0)})})}), {floats({2}, {1, 2})}, 1).empty());
}

TEST_CASE("argmax and chain show what they compare and when they act") {
  const std::vector<Tensor> values = {floats({3}, {1, 5, 2})};
  const auto argmax = fold(Kind::kArgmax, DType::kI64, {}, {3}, {read(0, {at({k(0)})})});
  const auto compared = records(argmax, values, 0);
  REQUIRE(compared.size() == 6);
  CHECK(compared.back().place == Place::kArgmax);
  CHECK(compared.back().result == Number::of(std::int64_t{1}));

  auto chain = fold(Kind::kChain, DType::kF32, {}, {3}, {read(0, {at({k(0)})})},
                    {step(Op::kAdd, {Operand::accumulator(), Operand::access(0)})});
  chain.init = Operand::literal(0.0F);
  chain.when = {step(Op::kGt, {Operand::access(0), Operand::literal(1.5F)})};
  const auto added = records(chain, values, 0);
  REQUIRE(added.size() == 5);
  CHECK(added[0].place == Place::kWhen);
  CHECK(added[1].position == 1);
  CHECK(added.back().result == Number::of(7.0F));
  CHECK(count_operations(chain)->total() == 6);
}

/// The operations of all elements' traces.
OperationCounts traced_counts(const Primitive& primitive, const std::vector<Tensor>& values) {
  OperationCounts counts;
  for (std::int64_t element = 0; element < *element_count(primitive.shape); ++element) {
    for (const ScalarRecord& record : records(primitive, values, element))
      ++counts.by_op[static_cast<std::size_t>(record.op)];
  }
  return counts;
}

/// The operations that the evaluator counts; its numbers must be those of evaluate_all().
OperationCounts counted(const Primitive& primitive, const std::vector<Tensor>& values) {
  Tensor out(primitive.dtype, primitive.shape);
  const auto counts = evaluate_and_count(compiled(primitive, values), views(values), out);
  REQUIRE(counts.ok());
  CHECK(std::ranges::equal(out.bytes(), evaluate(primitive, values).bytes()));
  return *counts;
}

TEST_CASE("an evaluator that counts has counted what traces show") {
  const auto values = std::vector<Tensor>{floats({5}, {0, 3, -1, 7, 2})};
  const auto x = read(0, {at({i(0)})}), xk = read(0, {at({k(0)})});
  const auto branches = map(DType::kF32, {5}, {x},
                            {step(Op::kExp, {Operand::access(0)}), step(Op::kNeg, {Operand::access(0)}),
                             step(Op::kGt, {Operand::access(0), Operand::literal(1.0F)}),
                             step(Op::kSelect, {Operand::step(2), Operand::step(0), Operand::step(1)})});
  CHECK(counted(branches, values) == traced_counts(branches, values));
  CHECK(counted(branches, values)[Op::kExp] == 3);
  CHECK(counted(branches, values)[Op::kNeg] == 2);

  auto chain = fold(Kind::kChain, DType::kF32, {2}, {5}, {xk},
                    {step(Op::kAdd, {Operand::accumulator(), Operand::access(0)})});
  chain.init = Operand::literal(0.0F);
  chain.when = {step(Op::kGt, {Operand::access(0), Operand::literal(1.5F)})};
  CHECK(counted(chain, values) == traced_counts(chain, values));
  CHECK(counted(chain, values)[Op::kGt] == 10);
  CHECK(counted(chain, values)[Op::kAdd] == 6);

  for (const Kind kind : {Kind::kDot, Kind::kSum, Kind::kMax, Kind::kArgmax}) {
    CAPTURE(static_cast<int>(kind));
    const auto folded = fold(kind, kind == Kind::kArgmax ? DType::kI64 : DType::kF32, {3}, {5},
                             kind == Kind::kDot ? std::vector<Access>{xk, xk} : std::vector<Access>{xk});
    CHECK(counted(folded, values) == traced_counts(folded, values));
    CHECK(counted(folded, values) == *count_operations(folded));
  }
}

TEST_CASE("an argmax of integers is counted with an addition that it has not") {
  const auto values = std::vector<Tensor>{integers({4}, {1, 5, 2, 5})};
  const auto argmax = fold(Kind::kArgmax, DType::kI64, {}, {4}, {read(0, {at({k(0)})})});
  CHECK(counted(argmax, values)[Op::kAdd] == 0);
  CHECK((*count_operations(argmax))[Op::kAdd] == 4);
  CHECK(counted(argmax, values)[Op::kGt] == 4);
}

TEST_CASE("counts that do not fit are refused") {
  const std::int64_t huge = std::int64_t{1} << 53;
  CHECK_FALSE(count_operations(fold(Kind::kDot, DType::kF32, {huge}, {huge}, {})).ok());
  CHECK(count_operations(fold(Kind::kInput, DType::kF32, {huge}, {}, {}))->total() == 0);
}

}  // namespace
}  // namespace dgx::kernels
