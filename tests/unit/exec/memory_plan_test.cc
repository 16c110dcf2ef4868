#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::FormInput;

constexpr DType kF32 = DType::kF32;

/// Checks a program of one input of [40, 50] whose value 1 is made by a sum, so that no map joins its maker,
/// and is last read by `reader`. Folds between the maps keep them apart; the three values at the end are the
/// requested ones.
void check_reader(const char* reader) {
  INFO(reader);
  std::vector<std::string> lines = {
      R"({"f":[3],"k":"sum","s":[40,50],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
      reader,
      R"({"f":[40],"k":"sum","s":[50],"t":"f32","v":@V,"x":["2[k0,i0]"]})",
      R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["2[i0,i1]","3[i1]"]})",
      R"({"f":[50],"k":"max","s":[40],"t":"f32","v":@V,"x":["4[i0,k0]"]})",
      R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["4[i0,i1]","5[i0]"]})",
      R"({"f":[2,3],"k":"sum","s":[40,50],"t":"f32","v":@V,"x":["6[i0,i1]"]})"};
  check_form({{kF32, {40, 50}}}, lines);
}

}  // namespace

TEST_CASE("a map may write over what it is the last to read, wherever it reads it") {
  for (
      const char* reader : {
          R"({"do":["mul x0 x0"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]"]})",
          R"({"do":["sin x0","add t0 x0"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]"]})",
          R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","1[39-i0,i1]"]})",
          R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","1[i0,49-i1]"]})",
          R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","1[0,i1]"]})",
          R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","1[i0,7]"]})",
          R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","1[i0-1,i1]?0x0p0"]})",
          R"({"do":["neg x0"],"i":[2000],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1@2000[1999-i0]"]})",
      }) {
    check_reader(reader);
  }
}

TEST_CASE("a value that one of its readers' group is made over is read by all of them first") {
  // Two maps of one group, the second of which reads the old value again.
  check_form({{kF32, {40, 50}}},
             {R"({"f":[3],"k":"sum","s":[40,50],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
              R"({"do":["mul x0 x0"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]"]})",
              R"({"do":["sub x0 x1"],"k":"map","s":[40,50],"t":"f32","v":@V,"x":["1[i0,i1]","2[i0,i1]"]})",
              R"({"f":[40],"k":"sum","s":[50],"t":"f32","v":@V,"x":["2[k0,i0]"]})",
              R"({"f":[40],"k":"sum","s":[50],"t":"f32","v":@V,"x":["3[k0,i0]"]})",
              R"({"do":["sub x0 x1"],"k":"map","s":[50],"t":"f32","v":@V,"x":["4[i0]","5[i0]"]})"});
}

TEST_CASE("products that free much run before those that take much, with the definition's bits") {
  // A layer's gradients: that of the weights is the last to read the activations.
  const FormInput rows{kF32, {600, 500}};
  check_form({rows, rows, {kF32, {500, 500}}},
             {R"({"do":["sin x0"],"k":"map","s":[600,500],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
              R"({"f":[500],"k":"dot","s":[600,500],"t":"f32","v":@V,"x":["1[i0,k0]","2[k0,i1]"]})",
              R"({"f":[600],"k":"dot","s":[500,500],"t":"f32","v":@V,"x":["1[k0,i0]","3[k0,i1]"]})",
              R"({"f":[500],"k":"sum","s":[600],"t":"f32","v":@V,"x":["4[i0,k0]"]})",
              R"({"f":[500],"k":"sum","s":[500],"t":"f32","v":@V,"x":["5[i0,k0]"]})",
              R"({"do":["sub x0 x1"],"k":"map","s":[500],"t":"f32","v":@V,"x":["6[i0]","7[i0]"]})"});
}

}  // namespace dgx::exec
