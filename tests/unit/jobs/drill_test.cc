#include "dgx/jobs/drill.h"

#include <catch2/catch.hpp>

namespace dgx::jobs {
namespace {

TEST_CASE("both forms of a drill are read") {
  const auto bit = parse_drill("step=7,op=12,element=34,bit=5");
  REQUIRE(bit.ok());
  CHECK_FALSE(bit->lazy());
  CHECK(bit->step == 7);
  CHECK(bit->fault.value == kernels::ValueIndex{12});
  CHECK(bit->fault.element == 34);
  CHECK(bit->fault.bit == 5);
  const auto lazy = parse_drill("segment=3,lazy");
  REQUIRE(lazy.ok());
  CHECK(lazy->segment == 3);
  CHECK(parse_drill("lazy,segment=3").ok());
  CHECK(parse_drill("bit=5,element=34,op=12,step=7").ok());
}

TEST_CASE("a drill that is incomplete, repeated, negative or unknown is refused") {
  for (const char* text :
       {"", "lazy", "segment=3", "segment=3,lazy=1", "segment=,lazy", "segment=-1,lazy",
        "step=1,op=2,element=3", "step=1,op=2,element=3,bit=64", "step=1,step=1,op=2,element=3",
        "step=1,op=2,element=3,bit=4,more=5", "step=x,op=2,element=3,bit=4",
        "step=1,op=99999999999,element=3,bit=4", "step=1 ,op=2,element=3,bit=4"}) {
    INFO(text);
    const auto drill = parse_drill(text);
    REQUIRE_FALSE(drill.ok());
    CHECK(drill.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a lazy state has the right step and moved parameters, and nothing else is new") {
  State start;
  start.push_back({"loss", Tensor(DType::kF32, {})});
  start.push_back({"model/w", Tensor(DType::kF32, {2})});
  start.push_back({"step", Tensor(DType::kI64, {})});
  start[0].tensor.as<float>()[0] = 0.5F;
  start[1].tensor.as<float>()[1] = 1.0F;
  start[2].tensor.as<std::int64_t>()[0] = 8;
  const State lazy = lazy_state(start, 4);
  CHECK(lazy[0].tensor.as<float>()[0] == 0.5F);
  CHECK(lazy[1].tensor.as<float>()[0] == 0.0F);
  CHECK(lazy[1].tensor.as<float>()[1] == 1.0F + 0x1p-20F);
  CHECK(lazy[2].tensor.as<std::int64_t>()[0] == 12);
}

}  // namespace
}  // namespace dgx::jobs
