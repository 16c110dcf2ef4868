#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::FormInput;

constexpr DType kF32 = DType::kF32;
constexpr DType kI64 = DType::kI64;
constexpr DType kU8 = DType::kU8;

TEST_CASE("maps that read outside, by steps and divided have the definition's bits") {
  const FormInput x{kF32, {3, 5, 7, 9}};
  const FormInput rows{kF32, {4, 1100}};
  for (
      const char* line : {
          // Padding, cropping and both; strides; reversed.
          R"({"k":"map","s":[3,5,11,13],"t":"f32","v":@V,"x":["0[i0,i1,i2-2,i3-2]?0x1p0"]})",
          R"({"k":"map","s":[3,9,7,9],"t":"f32","v":@V,"x":["0[i0,i1-2,i2,i3]?-inf"]})",
          R"({"k":"map","s":[3,5,4,5],"t":"f32","v":@V,"x":["0[i0,i1,2*i2,2*i3]?0x0p0"]})",
          R"({"k":"map","s":[3,5,9,4],"t":"f32","v":@V,"x":["0[i0,i1,7-i2,3*i3-1]?0x0p0"]})",
          R"({"do":["mul x0 x0"],"k":"map","s":[3,5,7,9],"t":"f32","v":@V,"x":["0[i0,i1,i2,5-i3]?0x1.8p1"]})",
          // Gradients of strided slices and of upsampling.
          R"({"k":"map","s":[3,5,14,18],"t":"f32","v":@V,"x":["0[i0,i1,(i2+1)/2,i3/2]?0x0p0"]})",
          R"({"k":"map","s":[3,5,20,18],"t":"f32","v":@V,"x":["0[i0,i1,i2//3,i3//2]"]})",
          R"({"k":"map","s":[3,5,9,9],"t":"f32","v":@V,"x":["0[i0,i1,(8-2*i2)/3,i3]?0x0p0"]})",
          // Views, and one dimension split into two.
          R"({"k":"map","s":[3,5,21,3],"t":"f32","v":@V,"x":["0@3.5.21.3[i0,i1,i2+i3-1,2-i3]?0x0p0"]})",
          R"({"k":"map","s":[2,2],"t":"f32","v":@V,"x":["0[i0,i1,0,9]?0x1p0"]})",
      }) {
    INFO(line);
    check_form({x}, {line});
  }
  for (
      const char* line : {
          R"({"k":"map","s":[4,1300],"t":"f32","v":@V,"x":["0[i0,i1-100]?0x0p0"]})",
          R"({"k":"map","s":[9,700],"t":"f32","v":@V,"x":["0[i0/2,2*i1-4]?0x0p0"]})",
          R"({"do":["lt i1 i0","select t0 x0 x1"],"k":"map","s":[4,1100],"t":"f32","v":@V,"x":["0[i0,i1+1]?0x0p0","0[i0,i1]"]})",
      }) {
    INFO(line);
    check_form({rows}, {line});
  }
}

TEST_CASE("maps that read by an index have the definition's bits, whatever the index") {
  const FormInput table{kF32, {40, 33}};
  for (const FormInput& index : {FormInput{kI64, {6, 7}, 44}, FormInput{kU8, {6, 7}, 44}}) {
    for (
        const char* line : {
            R"({"k":"map","s":[6,7,33],"t":"f32","v":@V,"x":["0[$1,i2]?0x0p0","1[i0,i1]"]})",
            R"({"k":"map","s":[33,6,7],"t":"f32","v":@V,"x":["0[$1,i0]?0x0p0","1[i1,i2]"]})",
            R"({"k":"map","s":[6,7],"t":"f32","v":@V,"x":["0[2*$1-3,i1]?0x1p0","1[i0,i1]"]})",
            R"({"k":"map","s":[6,7],"t":"f32","v":@V,"x":["0[(i1+$1)/2,$1//3]?0x1p0","1[i0,i1]"]})",
            R"({"k":"map","s":[6,7],"t":"f32","v":@V,"x":["0[$1,i1]?0x0p0","1[i0,i1-1]?9"]})",
            R"({"do":["eq x0 i1","select t0 0x1p0 0x0p0"],"k":"map","s":[6,44],"t":"f32","v":@V,"x":["1[i0,3]"]})",
        }) {
      INFO(line);
      check_form({table, index}, {line});
    }
  }
  // The map before makes an index, so it must not be in one group with the map that uses it.
  check_form({table, {kI64, {700}, 40}},
             {R"({"do":["sub 39 x0"],"k":"map","s":[700],"t":"i64","v":@V,"x":["1[i0]"]})",
              R"({"k":"map","s":[700],"t":"f32","v":@V,"x":["0[$1,$1]?0x1p0","2[i0]"]})"});
  check_form({{kU8, {5, 9}, 256}, {kU8, {20}, 7}},
             {R"({"do":["f32 x0"],"k":"map","s":[20,9],"t":"f32","v":@V,"x":["0[$1,i1-1]?7","1[i0]"]})"});
}

TEST_CASE("folds over windows have the definition's bits") {
  const FormInput x{kF32, {2, 3, 12, 13}};
  for (
      const char* line : {
          R"({"f":[3,3],"k":"max","s":[2,3,6,7],"t":"f32","v":@V,"x":["0[i0,i1,2*i2+k0-1,2*i3+k1-1]?-inf"]})",
          R"({"f":[3,3],"k":"argmax","s":[2,3,6,7],"t":"i64","v":@V,"x":["0[i0,i1,2*i2+k0-1,2*i3+k1-1]?-inf"]})",
          R"({"f":[2,2],"k":"argmax","s":[2,3,6,6],"t":"i64","v":@V,"x":["0[i0,i1,2*i2+k0,2*i3+k1]"]})",
          R"({"f":[3,3],"k":"sum","s":[2,3,14,15],"t":"f32","v":@V,"x":["0[i0,i1,i2-k0,i3-k1]?0x0p0"]})",
          R"({"f":[2,2],"k":"sum","s":[2,3,24,26],"t":"f32","v":@V,"x":["0[i0,i1,(i2-k0)/2,(i3-k1)/2]?0x0p0"]})",
          R"({"do":["lt k0 i2","select t0 x0 0x0p0"],"f":[5,7],"k":"sum","s":[2,3,8,7],"t":"f32","v":@V,"x":["0[i0,i1,i2+k0,i3+k1]"]})",
          R"({"do":["lt k0 i1","select t0 x0 0x0p0"],"f":[12,13],"k":"sum","s":[2,3],"t":"f32","v":@V,"x":["0[i0,i1,k0,k1]"]})",
          // Short and long, along the outputs and along the fold, with a single output.
          R"({"f":[2],"k":"sum","s":[3,12,13],"t":"f32","v":@V,"x":["0[k0,i0,i1,i2]"]})",
          R"({"f":[2,3,12],"k":"sum","s":[13],"t":"f32","v":@V,"x":["0[k0,k1,k2,i0]"]})",
          R"({"f":[12,13],"k":"sum","s":[2,3],"t":"f32","v":@V,"x":["0[i0,i1,k0,k1]"]})",
          R"({"f":[12,13],"k":"sum","s":[3,2],"t":"f32","v":@V,"x":["0[i1,i0,k0,k1]"]})",
          R"({"do":["sub x0 x1","mul t0 t0"],"f":[12,13],"k":"sum","s":[2,3],"t":"f32","v":@V,"x":["0[i0,i1,k0,k1]","0[i0,i1,0,0]"]})",
          R"({"f":[3],"k":"max","s":[2,12,13],"t":"f32","v":@V,"x":["0[i0,k0,i1,i2]"]})",
          R"({"f":[3,12],"k":"argmax","s":[2,13],"t":"i64","v":@V,"x":["0[i0,k0,k1,i1]"]})",
          R"({"f":[3],"k":"sum","s":[1],"t":"f32","v":@V,"x":["0[0,k0,3,4]"]})",
          R"({"f":[2,3,12,13],"k":"max","s":[],"t":"f32","v":@V,"x":["0[k0,k1,k2,k3-1]?0x1p40"]})",
      }) {
    INFO(line);
    check_form({x}, {line});
  }
  // Sums of zeros of either sign are +0; sums of several blocks; of 32 and 33 terms.
  check_form({{kF32, {5, 2049}}},
             {R"({"do":["mul x0 -0x0p0"],"f":[5],"k":"sum","s":[2049],"t":"f32","v":@V,"x":["0[k0,i0]"]})"});
  for (const char* count : {"31", "32", "33", "64", "2047", "2048", "2049"}) {
    std::string line = R"({"f":[N],"k":"sum","s":[5],"t":"f32","v":@V,"x":["0[k0,i0]"]})";
    line.replace(line.find('N'), 1, count);
    check_form({{kF32, {2049, 5}}}, {line});
  }
}

TEST_CASE("folds down columns have the definition's bits, whatever their length") {
  for (const std::int64_t rows : {33, 64, 2047, 2048, 2049, 4100}) {
    for (const std::int64_t columns : {8, 9, 16, 48, 255}) {
      const FormInput x{kF32, {2, rows, columns}};
      const FormInput scale{kF32, {columns}};
      const std::string shape = "[2," + std::to_string(columns) + "]";
      for (
          const char* line :
          {R"({"f":[ROWS],"k":"sum","s":SHAPE,"t":"f32","v":@V,"x":["0[i0,k0,i1]"]})",
           R"({"do":["sub x0 x1","mul t0 t0"],"f":[ROWS],"k":"sum","s":SHAPE,"t":"f32","v":@V,"x":["0[i0,k0,i1]","1[i1]"]})"}) {
        std::string text = line;
        text.replace(text.find("ROWS"), 4, std::to_string(rows));
        text.replace(text.find("SHAPE"), 5, shape);
        const bool in_memory = text.find("do") == std::string::npos;
        CHECK(check_form({x, scale}, {text}).find(in_memory ? "columns in memory)" : "columns)") !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("maps of short rows that all read one row have the definition's bits") {
  for (const std::int64_t columns : {3, 16, 48, 127}) {
    const std::string shape = "[5,77," + std::to_string(columns) + "]";
    check_form({{kF32, {5, 77, columns}}, {kF32, {columns}}, {kF32, {5, columns}}, {kU8, {columns}, 256}},
               {R"({"do":["sub x0 x1","fma t0 x2 x1","f32 x3","mul t1 t2"],"k":"map","s":)" + shape +
                R"(,"t":"f32","v":@V,"x":["0[i0,i1,i2]","1[i2]","2[i0,i2]","3[i2]"]})"});
  }
}

TEST_CASE("chains have the definition's bits") {
  const FormInput gradient{kF32, {60, 33}};
  for (const DType dtype : {kI64, kU8}) {
    const FormInput index{dtype, {60}, 14};
    for (
        const char* line : {
            // Gradients of embedding and scatter, with a padding index, from a base, with the key innermost.
            R"({"do":["add acc x0"],"f":[60],"init":"0x0p0","k":"chain","s":[12,33],"t":"f32","v":@V,"when":["eq x1 i0"],"x":["0[k0,i1]","1[k0]"]})",
            R"({"do":["add acc x0"],"f":[60],"init":"0x0p0","k":"chain","s":[12,33],"t":"f32","v":@V,"when":["ne x1 3","eq i0 x1","and t0 t1"],"x":["0[k0,i1]","1[k0]"]})",
            R"({"do":["add acc x0"],"f":[4,15],"init":"x2","k":"chain","s":[12,33],"t":"f32","v":@V,"when":["eq x1 i0"],"x":["0@4.15.33[k0,k1,i1]","1@4.15[k0,k1]","0[i0,i1]"]})",
            R"({"do":["add acc x0"],"f":[60],"init":"0x0p0","k":"chain","s":[33,12],"t":"f32","v":@V,"when":["eq x1 i1"],"x":["0[k0,i0]","1[k0]"]})",
            R"({"f":[60],"init":"-0x0p0","k":"chain","s":[12],"t":"f32","v":@V,"when":["eq x1 i0"],"x":["0[k0,3]","1[k0]"]})",
            // Outputs that see keys of their own, as workers do: in order, in another, and alone.
            R"({"do":["add acc x0"],"f":[15],"init":"0x0p0","k":"chain","s":[4,12,33],"t":"f32","v":@V,"when":["eq x1 i1"],"x":["0[15*i0+k0,i2]","1[15*i0+k0]"]})",
            R"({"do":["add acc x0"],"f":[15],"init":"0x0p0","k":"chain","s":[2,2,12,3],"t":"f32","v":@V,"when":["eq x1 i2"],"x":["0[15*i0+30*i1+k0,i3]","1[15*i0+30*i1+k0]"]})",
            R"({"do":["add acc x0"],"f":[15],"init":"0x0p0","k":"chain","s":[3,1,12,33],"t":"f32","v":@V,"when":["eq x1 i2"],"x":["0[15*i1+k0,i3]","1[15*i0+45*i1+k0]"]})",
            R"({"do":["add acc x0"],"f":[15],"init":"0x0p0","k":"chain","s":[12,4,33],"t":"f32","v":@V,"when":["eq x1 i0"],"x":["0[15*i1+k0,i2]","1[15*i1+k0]"]})",
        }) {
      INFO(line);
      check_form({gradient, index}, {line});
    }
  }
  for (
      const char* line : {
          R"({"do":["add acc x0"],"f":[33],"init":"0x0p0","k":"chain","s":[60,33],"t":"f32","v":@V,"when":["le k0 i1"],"x":["0[i0,k0]"]})",
          R"({"do":["fma acc 0x1p-1 x0"],"f":[60],"init":"x1","k":"chain","s":[700],"t":"f32","v":@V,"x":["0[k0,i0//30]","0@1980[i0]"]})",
          R"({"do":["fma acc 0x1p-1 x0"],"f":[7],"init":"x1","k":"chain","s":[60,33],"t":"f32","v":@V,"x":["0[i0,i1-k0]?0x1p0","0[i0,i1-1]?0x0p0"]})",
          R"({"do":["i64 x0","add acc t0"],"f":[60],"init":"3","k":"chain","s":[33],"t":"i64","v":@V,"when":["gt x0 0x0p0"],"x":["0[k0,i0]"]})",
      }) {
    INFO(line);
    check_form({gradient}, {line});
  }
}

TEST_CASE("products have the definition's bits where threads share rows, and where they share columns") {
  // 385 rows count as tall for two threads, 577 also for three; every last share is odd.
  for (const char* shapes : {"577,35", "385,385", "39,577"}) {
    const std::string shape = shapes;
    const std::int64_t rows = std::stoll(shape), columns = std::stoll(shape.substr(shape.find(',') + 1));
    const std::string line =
        R"({"f":[19],"k":"dot","s":[)" + shape + R"(],"t":"f32","v":@V,"x":["0[i0,k0]","1[i1,k0]"]})";
    INFO(line);
    check_form({{kF32, {rows, 19}}, {kF32, {columns, 19}}}, {line});
  }
}

TEST_CASE("an integer outside a u8 value's range saturates, also for a reader in the same strip") {
  const std::string stored = R"({"do":["sub x0 300"],"k":"map","s":[700],"t":"u8","v":@V,"x":["0[i0]"]})";
  check_form({{kI64, {700}, 900}}, {stored});
  check_form({{kI64, {700}, 900}},
             {stored, R"({"do":["mul x0 3"],"k":"map","s":[700],"t":"i64","v":@V,"x":["1[i0]"]})"});
}

}  // namespace
}  // namespace dgx::exec
