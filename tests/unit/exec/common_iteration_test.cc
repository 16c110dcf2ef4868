#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;

constexpr DType kF32 = DType::kF32;

/// The plan of a map over [6, 40], the map `line` that reads it, and three more values after them.
std::string plan_of(const std::string& line) {
  const auto negated = [](int of) {
    return R"({"do":["neg x0"],"k":"map","s":[240],"t":"f32","v":@V,"x":[")" + std::to_string(of) +
           R"(@240[239-i0]"]})";
  };
  return check_form({{kF32, {6, 40}}, {kF32, {40}}, {kF32, {2, 3, 40}}},
                    {R"({"do":["add x0 x1"],"k":"map","s":[6,40],"t":"f32","v":@V,"x":["0[i0,i1]","1[i1]"]})",
                     line, negated(4), negated(5), negated(6)});
}

bool is_fused(const std::string& plan) { return plan.find("maps: 3 4") != std::string::npos; }

}  // namespace

TEST_CASE("a map walks the iteration of what it reads element by element, and both are one operation") {
  const std::vector<const char*> lines = {
      // Coarser, finer, as one dimension, with dimensions of size one.
      R"({"do":["mul x0 x1"],"k":"map","s":[2,3,40],"t":"f32","v":@V,"x":["3@2.3.40[i0,i1,i2]","2[i0,i1,i2]"]})",
      R"({"do":["mul x0 x1"],"k":"map","s":[6,5,8],"t":"f32","v":@V,"x":["3@6.5.8[i0,i1,i2]","1@5.8[i1,i2]"]})",
      R"({"do":["mul x0 0x1p1"],"k":"map","s":[240],"t":"f32","v":@V,"x":["3@240[i0]"]})",
      R"({"do":["mul x0 x1"],"k":"map","s":[6,1,40,1],"t":"f32","v":@V,"x":["3@6.1.40.1[i0,i1,i2,i3]","1[i2]"]})",
      // Backwards over both dimensions is also a single walk.
      R"({"do":["mul x0 x1"],"k":"map","s":[240],"t":"f32","v":@V,"x":["3@240[i0]","0@240[239-i0]"]})"};
  for (const char* line : lines) {
    INFO(line);
    CHECK(is_fused(plan_of(line)));
  }
}

TEST_CASE("a map that cannot walk it keeps its own iteration") {
  const std::vector<const char*> lines = {
      // Neither shape splits the other.
      R"({"do":["mul x0 0x1p1"],"k":"map","s":[4,60],"t":"f32","v":@V,"x":["3@4.60[i0,i1]"]})",
      // The other access transposes the dimensions that would be joined.
      R"({"do":["mul x0 x1"],"k":"map","s":[2,3,40],"t":"f32","v":@V,"x":["3@2.3.40[i0,i1,i2]","0@3.2.40[i1,i0,i2]"]})",
      // Not element by element.
      R"({"do":["mul x0 0x1p1"],"k":"map","s":[2,3,40],"t":"f32","v":@V,"x":["3@2.3.40[i0,2-i1,i2]"]})",
      // The map uses an index.
      R"({"do":["f32 i0","mul x0 t0"],"k":"map","s":[2,3,40],"t":"f32","v":@V,"x":["3@2.3.40[i0,i1,i2]"]})",
      // An access may be out of range.
      R"({"do":["mul x0 x1"],"k":"map","s":[2,3,40],"t":"f32","v":@V,"x":["3@2.3.40[i0,i1,i2]","2[i0,i1,i2-1]?0x1p0"]})"};
  for (const char* line : lines) {
    INFO(line);
    CHECK(!is_fused(plan_of(line)));
  }
}

}  // namespace dgx::exec
