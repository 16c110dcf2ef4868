#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::FormInput;

constexpr DType kF32 = DType::kF32;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// Returns the plan of `lines`, in which value `product` has shape `shape`. Adds readers of it at the end:
/// the last three values are requested, and a requested copy is made.
std::string check_product(const FormInput& input, std::vector<std::string> lines, int product,
                          const char* shape) {
  const std::string begin =
      R"({"do":["neg x0"],"k":"map","s":[)" + std::string(shape) + R"(],"t":"f32","v":@V,"x":[")";
  const std::string own =
      std::string(shape).find(',') == std::string(shape).rfind(',') ? "[i0,i1]\"]}" : "[i0,i1,i2]\"]}";
  const auto last = static_cast<int>(lines.size());
  lines.push_back(begin + std::to_string(product) + own);
  lines.push_back(begin + std::to_string(last + 1) + own);
  lines.push_back(begin + std::to_string(last + 2) + own);
  return check_form({input}, lines);
}

}  // namespace

TEST_CASE("products of heads read them where they lie together, with the definition's bits") {
  // Five samples of nine positions; three heads of eight numbers, followed by the keys' and then the values'.
  const FormInput together{kF32, {5, 9, 72}};
  const std::string plan = check_form(
      {together},
      {R"({"i":[5,3,9,8],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["0[i0,i2,8*i1+i3]"]})",
       R"({"i":[5,3,8,9],"k":"map","s":[15,8,9],"t":"f32","v":@V,"x":["0[i0,i3,8*i1+i2+24]"]})",
       R"({"f":[8],"k":"dot","s":[15,9,9],"t":"f32","v":@V,"x":["1[i0,i1,k0]","2[i0,k0,i2]"]})",
       R"({"i":[5,3,9,8],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["0[i0,i2,8*i1+i3+48]"]})",
       R"({"f":[9],"k":"dot","s":[15,9,8],"t":"f32","v":@V,"x":["3[i0,i1,k0]","4[i0,k0,i2]"]})",
       R"({"f":[9],"k":"dot","s":[15,8,9],"t":"f32","v":@V,"x":["4[i0,k0,i1]","3[i0,k0,i2]"]})",
       R"({"do":["sub x0 x1"],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["5[i0,i1,i2]","6[i0,i2,i1]"]})"});
  INFO(plan);
  CHECK(has(plan, "product 3 (15 of 9×8×9)"));
  CHECK(has(plan, "product 5 (15 of 9×9×8)"));
  CHECK(!has(plan, "maps: 1"));
  CHECK(!has(plan, "maps: 2"));
  CHECK(!has(plan, "maps: 4"));
}

TEST_CASE("a copy that something else reads too, or whose source no product can walk, stays") {
  struct Program {
    std::vector<std::string> lines;
    int product;
    const char* shape;
  };
  const std::vector<Program> programs = {
      // A map reads it.
      {{R"({"i":[5,3,9,8],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["0[i0,i2,8*i1+i3]"]})",
        R"({"do":["exp x0"],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["1[i0,i1,i2]"]})",
        R"({"f":[8],"k":"dot","s":[15,9,9],"t":"f32","v":@V,"x":["1[i0,i1,k0]","2[i0,i2,k0]"]})"},
       3,
       "15,9,9"},
      // The depth would need two strides.
      {{R"({"i":[5,9,3,8],"k":"map","s":[5,9,24],"t":"f32","v":@V,"x":["0@5.3.9.24[i0,i2,i1,i3]"]})",
        R"({"f":[24],"k":"dot","s":[45,45],"t":"f32","v":@V,"x":["1@45.24[i0,k0]","1@45.24[i1,k0]"]})"},
       2,
       "45,45"},
      // A row of the product crosses rows of the copy.
      {{R"({"k":"map","s":[10,12],"t":"f32","v":@V,"x":["0@45.72[i0,2*i1+3]"]})",
        R"({"f":[8],"k":"dot","s":[15,15],"t":"f32","v":@V,"x":["1@15.8[i0,k0]","1@15.8[i1,k0]"]})"},
       2,
       "15,15"},
      // Part of it is out of range.
      {{R"({"i":[5,3,9,8],"k":"map","s":[15,9,8],"t":"f32","v":@V,"x":["0[i0,i2-1,8*i1+i3]?0x1p0"]})",
        R"({"f":[8],"k":"dot","s":[15,9,9],"t":"f32","v":@V,"x":["1[i0,i1,k0]","1[i0,i2,k0]"]})"},
       2,
       "15,9,9"}};
  for (const Program& program : programs) {
    const std::string plan = check_product({kF32, {5, 9, 72}}, program.lines, program.product, program.shape);
    INFO(plan);
    CHECK(has(plan, "maps: 1"));
  }
}

TEST_CASE("a product reads a transposed copy's source, on both sides") {
  const std::string plan =
      check_product({kF32, {7, 33}},
                    {R"({"k":"map","s":[33,7],"t":"f32","v":@V,"x":["0[i1,i0]"]})",
                     R"({"f":[33],"k":"dot","s":[7,7],"t":"f32","v":@V,"x":["1[k0,i0]","1[k0,i1]"]})"},
                    2, "7,7");
  INFO(plan);
  CHECK(has(plan, "product 2 (7×33×7)"));
  CHECK(!has(plan, "maps: 1"));
}

}  // namespace dgx::exec
