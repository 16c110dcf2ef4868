#include "resampling.h"

#include <catch2/catch.hpp>

#include "run_program.h"

namespace dgx::lowering {
namespace {

using Rule = Resampling::Rule;

TEST_CASE("the table of positions says for every output and tap what position() says") {
  for (const Resampling& axis :
       {Resampling{Rule::kNearest, 5, 10, 2.1}, Resampling{Rule::kNearest, 5, 5, 1.1},
        Resampling{Rule::kNearest, 7, 11, 1.6}, Resampling{Rule::kNearest, 9, 4, {}},
        Resampling{Rule::kNearestExact, 4, 47, {}}, Resampling{Rule::kLinear, 5, 12, 2.5},
        Resampling{Rule::kLinearAligned, 5, 9, {}}}) {
    Builder builder;
    const TensorForm form = axis.positions(builder, "positions");
    const Tensor table = test::run_program(builder.finish({form.value}), {}, {}).back();
    REQUIRE(table.shape() == Shape{axis.output, axis.taps()});
    for (std::int64_t o = 0; o < axis.output; ++o) {
      for (std::int64_t tap = 0; tap < axis.taps(); ++tap) {
        INFO(axis.input << " to " << axis.output << ": output " << o << ", tap " << tap);
        CHECK(table.as<std::int64_t>()[static_cast<std::size_t>(o * axis.taps() + tap)] ==
              axis.position(o, tap));
      }
    }
  }
}

}  // namespace
}  // namespace dgx::lowering
