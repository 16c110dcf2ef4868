#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::FormInput;

constexpr DType kF32 = DType::kF32;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("concatenations are copied piece by piece, with the definition's bits") {
  struct Form {
    const char* name;
    std::vector<FormInput> inputs;
    std::vector<std::string> lines;
  };
  const std::vector<Form> forms = {
      {"along rows",
       {{kF32, {3, 70}}, {kF32, {5, 70}}},
       {R"({"do":["lt i0 3","select t0 x0 x1"],"k":"map","s":[8,70],"t":"f32","v":@V,"x":["0[i0,i1]?0x0p0","1[i0-3,i1]?0x0p0"]})"}},
      {"along columns, the later first",
       {{kF32, {6, 64}}, {kF32, {6, 100}}},
       {R"({"do":["lt i1 100","select t0 x1 x0"],"k":"map","s":[6,164],"t":"f32","v":@V,"x":["0[i0,i1-100]?0x0p0","1[i0,i1]?0x0p0"]})"}},
      {"three pieces, one of them transposed",
       {{kF32, {4, 66}}, {kF32, {66, 4}}, {kF32, {4, 70}}},
       {R"({"do":["lt i1 66","lt i1 132","select t1 x1 x2","select t0 x0 t2"],"k":"map","s":[4,202],"t":"f32","v":@V,)"
        R"("x":["0[i0,i1]?0x0p0","1[i1-66,i0]?0x0p0","2[i0,i1-132]?0x0p0"]})"}},
      {"integers",
       {{DType::kI64, {2, 64}}, {DType::kI64, {2, 65}}},
       {R"({"do":["lt i1 64","select t0 x0 x1"],"k":"map","s":[2,129],"t":"i64","v":@V,"x":["0[i0,i1]?0","1[i0,i1-64]?0"]})"}},
      {"bytes",
       {{DType::kU8, {2, 64}}, {DType::kU8, {2, 65}}},
       {R"({"do":["lt i1 64","select t0 x0 x1"],"k":"map","s":[2,129],"t":"u8","v":@V,"x":["0[i0,i1]?0","1[i0,i1-64]?0"]})"}},
      {"a row repeated",
       {{kF32, {64}}, {kF32, {3, 64}}},
       {R"({"do":["lt i1 1","select t0 x0 x1"],"k":"map","s":[3,2,64],"t":"f32","v":@V,"x":["0[i2]?0x0p0","1[i0,i2]?0x0p0"]})"}}};
  for (const Form& form : forms) {
    const std::string plan = check_form(form.inputs, form.lines);
    INFO(form.name);
    INFO(plan);
    CHECK(has(plan, "concatenation"));
  }
}

TEST_CASE("a piece that reads a copy reads what it copies, and its dimension is split") {
  // Concatenates heads [2·3, 5, 32] of two values, and a third value unchanged, to [2, 5, 3·96].
  const std::vector<FormInput> inputs = {{kF32, {6, 5, 32}}, {kF32, {6, 32, 5}}, {kF32, {2, 5, 96}}};
  const std::string plan = check_form(
      inputs,
      {R"({"i":[2,5,3,32],"k":"map","s":[2,5,96],"t":"f32","v":@V,"x":["0@2.3.5.32[i0,i2,i1,i3]"]})",
       R"({"i":[2,5,3,32],"k":"map","s":[2,5,96],"t":"f32","v":@V,"x":["1@2.3.32.5[i0,i2,i3,i1]"]})",
       R"({"do":["lt i2 96","lt i2 192","select t1 x1 x2","select t0 x0 t2"],"k":"map","s":[2,5,288],"t":"f32","v":@V,)"
       R"("x":["3[i0,i1,i2]?0x0p0","4[i0,i1,i2-96]?0x0p0","2[i0,i1,i2-192]?0x0p0"]})",
       // The last three values are requested, and a requested copy is made.
       R"({"do":["neg x0"],"k":"map","s":[10,288],"t":"f32","v":@V,"x":["5@10.288[i0,i1]"]})",
       R"({"do":["neg x0"],"k":"map","s":[10,288],"t":"f32","v":@V,"x":["6[i0,i1]"]})",
       R"({"do":["neg x0"],"k":"map","s":[10,288],"t":"f32","v":@V,"x":["7[i0,i1]"]})"});
  INFO(plan);
  CHECK(has(plan, "concatenation 5 (3 pieces)"));
  CHECK(!has(plan, "maps: 3"));
  CHECK(!has(plan, "maps: 4"));
}

TEST_CASE("a piece that reads beyond the rows of a copy reads its fill, not the next row") {
  // As torch.cat([F.pad(x, (0, 64)), y], 1) does, had x been copied first.
  const std::string plan = check_form(
      {{kF32, {3, 64}}, {kF32, {3, 64}}},
      {R"({"k":"map","s":[3,64],"t":"f32","v":@V,"x":["0[i0,i1]"]})",
       R"({"do":["lt i1 128","select t0 x0 x1"],"k":"map","s":[2,192],"t":"f32","v":@V,"x":["2[i0,i1]?0x0p0","1[i0,i1-128]?0x0p0"]})",
       R"({"do":["neg x0"],"k":"map","s":[2,192],"t":"f32","v":@V,"x":["3[i0,i1]"]})"});
  INFO(plan);
  CHECK(!has(plan, "concatenation"));
}

TEST_CASE("what is no concatenation of runs stays a map") {
  const std::vector<std::pair<std::vector<FormInput>, std::string>> forms = {
      // Short runs.
      {{{kF32, {9, 8}}, {kF32, {9, 8}}},
       R"({"do":["lt i1 8","select t0 x0 x1"],"k":"map","s":[9,16],"t":"f32","v":@V,"x":["0[i0,i1]?0x0p0","1[i0,i1-8]?0x0p0"]})"},
      // A piece that is computed.
      {{{kF32, {9, 64}}, {kF32, {9, 64}}},
       R"({"do":["lt i1 64","neg x1","select t0 x0 t1"],"k":"map","s":[9,128],"t":"f32","v":@V,"x":["0[i0,i1]?0x0p0","1[i0,i1-64]?0x0p0"]})"},
      // A piece that is partly out of range: padding.
      {{{kF32, {9, 64}}, {kF32, {9, 64}}},
       R"({"do":["lt i1 64","select t0 x0 x1"],"k":"map","s":[9,140],"t":"f32","v":@V,"x":["0[i0,i1]?0x0p0","1[i0,i1-70]?0x1p0"]})"},
      // Two dimensions.
      {{{kF32, {9, 64}}, {kF32, {9, 64}}},
       R"({"do":["lt i1 64","lt i0 3","select t1 x0 x1","select t0 t2 x0"],"k":"map","s":[9,128],"t":"f32","v":@V,"x":["0[i0,i1]?0x0p0","1[i0,i1]?0x0p0"]})"}};
  for (const auto& [inputs, line] : forms) {
    const std::string plan = check_form(inputs, {line});
    INFO(line);
    CHECK(!has(plan, "concatenation"));
  }
}

}  // namespace dgx::exec
