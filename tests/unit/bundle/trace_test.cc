#include "dgx/bundle/trace.h"

#include <catch2/catch.hpp>

#include "dgx/merkle/digests.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

Trace deep_trace() {
  Trace trace;
  trace.task.bytes[0] = 7;
  trace.segment = 3;
  trace.first_step = 30;
  trace.states.resize(11);
  trace.states[4].bytes[2] = 9;
  const Tensor tensor = test::numbers(DType::kF32, {300, 100}, 1);
  trace.values = TraceValues{34, std::vector<Digest>(5000)};
  trace.values->digests[12] = merkle::tensor_digest(tensor.view());
  trace.numbers = TraceNumbers{12, tensor};
  return trace;
}

TEST_CASE("a trace comes back as deep as it went") {
  const Folder folder;
  Trace trace = deep_trace();
  for (int depth = 3; depth >= 1; --depth) {
    if (depth < 3) trace.numbers.reset();
    if (depth < 2) trace.values.reset();
    REQUIRE(write_trace(folder / "t.h5", trace, Clobber::kReplace).ok());
    const auto read = read_trace(folder / "t.h5");
    REQUIRE(read.ok());
    CHECK(read->task == trace.task);
    CHECK(read->segment == 3);
    CHECK(read->first_step == 30);
    CHECK(read->states == trace.states);
    REQUIRE(read->values.has_value() == trace.values.has_value());
    if (trace.values) CHECK(read->values->digests == trace.values->digests);
    if (trace.values) CHECK(read->values->step == 34);
    REQUIRE(read->numbers.has_value() == trace.numbers.has_value());
    if (trace.numbers) CHECK(test::same(read->numbers->tensor.view(), trace.numbers->tensor.view()));
  }
}

TEST_CASE("a trace that contradicts itself is not written") {
  const Folder folder;
  Trace trace = deep_trace();
  SECTION("no states") { trace.states.clear(); }
  SECTION("values of a step before") { trace.values->step = 29; }
  SECTION("values of a step after") { trace.values->step = 40; }
  SECTION("numbers of no value") { trace.numbers->value = 5000; }
  SECTION("numbers without values") { trace.values.reset(); }
  SECTION("a negative segment") { trace.segment = -1; }
  const auto written = write_trace(folder / "t.h5", trace, Clobber::kRefuse);
  REQUIRE(!written.ok());
  CHECK(written.error().code == ErrorCode::kUsage);
  CHECK(folder.list().empty());
}

TEST_CASE("numbers that are not the value's are found") {
  const Folder folder;
  Trace trace = deep_trace();
  trace.numbers->tensor.bytes()[0] ^= 1;
  REQUIRE(write_trace(folder / "t.h5", trace, Clobber::kRefuse).ok());
  CHECK(read_trace(folder / "t.h5").error().code == ErrorCode::kMalformed);
  CHECK(read_trace(folder / "t.h5", Check::kNothing).ok());
}

}  // namespace
}  // namespace dgx::bundle
