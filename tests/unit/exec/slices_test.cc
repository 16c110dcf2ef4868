#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::FormInput;

constexpr DType kF32 = DType::kF32;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// Attention by its definition, for five batches of six heads.
std::vector<std::string> attention() {
  return {
      R"({"f":[24],"k":"dot","s":[30,40,40],"t":"f32","v":@V,"x":["0@30.40.24[i0,i1,k0]","1@30.40.24[i0,i2,k0]"]})",
      R"({"do":["gt i3 i2","div x0 0x1p2","select t0 -inf t1"],"k":"map","s":[5,6,40,40],"t":"f32","v":@V,"x":["3@5.6.40.40[i0,i1,i2,i3]"]})",
      R"({"f":[40],"k":"max","s":[5,6,40],"t":"f32","v":@V,"x":["4[i0,i1,i2,k0]"]})",
      R"({"do":["sub x0 x1","exp t0"],"k":"map","s":[5,6,40,40],"t":"f32","v":@V,"x":["4[i0,i1,i2,i3]","5[i0,i1,i2]"]})",
      R"({"f":[40],"k":"sum","s":[5,6,40],"t":"f32","v":@V,"x":["6[i0,i1,i2,k0]"]})",
      R"({"do":["div x0 x1"],"k":"map","s":[5,6,40,40],"t":"f32","v":@V,"x":["6[i0,i1,i2,i3]","7[i0,i1,i2]"]})",
      R"({"f":[40],"k":"dot","s":[30,40,24],"t":"f32","v":@V,"x":["8@30.40.40[i0,i1,k0]","2@30.40.24[i0,k0,i2]"]})",
      R"({"i":[5,40,6,24],"k":"map","s":[5,40,144],"t":"f32","v":@V,"x":["9@5.6.40.24[i0,i2,i1,i3]"]})",
      R"({"do":["mul x0 x0"],"k":"map","s":[5,40,144],"t":"f32","v":@V,"x":["10[i0,i1,i2]"]})"};
}

/// Normalises rows: subtracts their mean, divides by their deviation.
std::vector<std::string> normalisation() {
  return {
      R"({"f":[130],"k":"sum","s":[7,50],"t":"f32","v":@V,"x":["0[i0,i1,k0]"]})",
      R"({"do":["div x0 0x1.04p7"],"k":"map","s":[7,50,1],"t":"f32","v":@V,"x":["1@7.50.1[i0,i1,i2]"]})",
      R"({"do":["sub x0 x1","mul t0 t0"],"f":[130],"k":"sum","s":[7,50],"t":"f32","v":@V,"x":["0[i0,i1,k0]","2[i0,i1,0]"]})",
      R"({"do":["sub x0 x1","sqrt x2","div t0 t1"],"k":"map","s":[7,50,130],"t":"f32","v":@V,"x":["0[i0,i1,i2]","2[i0,i1,0]","3[i0,i1]"]})",
      R"({"f":[130],"k":"max","s":[7,50],"t":"f32","v":@V,"x":["4[i0,i1,k0]"]})",
      R"({"do":["mul x0 x1"],"k":"map","s":[7,50,130],"t":"f32","v":@V,"x":["4[i0,i1,i2]","5[i0,i1]"]})",
      R"({"f":[130],"k":"sum","s":[7,50],"t":"f32","v":@V,"x":["6[i0,i1,k0]"]})"};
}

}  // namespace

TEST_CASE("heads of attention run through all its operations one by one, with the definition's bits") {
  const FormInput of{kF32, {5, 40, 144}};
  const std::string plan = check_form({of, of, of}, attention());
  INFO(plan);
  CHECK(has(plan, "in 30 slices, 1 at once"));
}

TEST_CASE("rows of a normalisation run some at a time, and the last ones fewer") {
  const std::string plan = check_form({{kF32, {7, 50, 130}}}, normalisation());
  INFO(plan);
  CHECK(has(plan, "in 350 slices"));
}

TEST_CASE("operations that read another slice's numbers are not cut") {
  const FormInput x{kF32, {64, 512}};
  const std::vector<const char*> readers = {
      R"({"do":["exp x0"],"k":"map","s":[64,512],"t":"f32","v":@V,"x":["1[63-i0,i1]"]})",
      R"({"do":["exp x0","mul t0 x1"],"k":"map","s":[64,512],"t":"f32","v":@V,"x":["1[i0,i1]","1[i0-1,i1]?0x0p0"]})",
      R"({"do":["exp x0","mul t0 x1"],"k":"map","s":[64,512],"t":"f32","v":@V,"x":["1[i0,i1]","1@512.64[i1,i0]"]})",
      R"({"f":[64],"k":"sum","s":[64,512],"t":"f32","v":@V,"x":["1[k0,i1]"]})"};
  for (const char* reader : readers) {
    INFO(reader);
    // Different shapes, so that the maps do not form a group.
    const std::string plan = check_form(
        {x},
        {R"({"do":["exp x0"],"i":[64,2,256],"k":"map","s":[64,512],"t":"f32","v":@V,"x":["0@64.2.256[i0,i1,i2]"]})",
         reader, R"({"do":["exp x0"],"k":"map","s":[1],"t":"f32","v":@V,"x":["2[0,0]"]})",
         R"({"do":["exp x0"],"k":"map","s":[1,1],"t":"f32","v":@V,"x":["2[0,1]"]})",
         R"({"do":["exp x0"],"k":"map","s":[1,1,1],"t":"f32","v":@V,"x":["2[1,0]"]})"});
    CHECK(!has(plan, "slices"));
  }
}

}  // namespace dgx::exec
