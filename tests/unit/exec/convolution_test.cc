#include "forms.h"

namespace dgx::exec {
namespace {

using test::check_form;
using test::Convolution;

void check(Convolution c) {
  INFO((c.channels_last ? "channels last, " : "")
       << c.images << " images, " << c.in << " → " << c.out << " channels, " << c.height << "×" << c.width
       << ", kernel " << c.kernel_h << "×" << c.kernel_w << ", stride " << c.stride << ", dilation "
       << c.dilation << ", padding " << c.padding << ", groups " << c.groups);
  check_form({c.x(), c.w()}, {c.forward()});
  check_form({c.dy(), c.w()}, {c.input_gradient()});
  check_form({c.x(), c.dy()}, {c.weight_gradient()});
  if (c.channels_last) return;
  c.channels_last = true;
  check(c);
}

TEST_CASE("the three products of a convolution are recognised without names") {
  Convolution c;
  c.in = c.out = 16;
  c.images = 4;
  c.height = c.width = 14;
  for (c.stride = 1; c.stride <= 2; ++c.stride) {
    CHECK(check_form({c.x(), c.w()}, {c.forward()}).starts_with("window product"));
    CHECK(check_form({c.dy(), c.w()}, {c.input_gradient()}).starts_with("window product"));
    CHECK(check_form({c.x(), c.dy()}, {c.weight_gradient()}).starts_with("window gradient"));
  }
}

TEST_CASE("convolutions and their gradients have the definition's bits at the edges of channels") {
  for (const std::int64_t in : {1, 3, 16, 17}) {
    for (const std::int64_t out : {1, 16, 33, 48}) {
      Convolution c;
      c.in = in;
      c.out = out;
      check(c);
    }
  }
}

TEST_CASE(
    "convolutions and their gradients have the definition's bits for every stride, dilation and padding") {
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t dilation : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1, 2, 4}) {
        Convolution c;
        c.stride = stride;
        c.dilation = dilation;
        c.padding = padding;
        c.height = 9;
        c.width = 8;
        c.out = stride == 2 ? 16 : 9;
        check(c);
      }
    }
  }
}

TEST_CASE("convolutions and their gradients have the definition's bits for odd kernels and sizes") {
  for (const auto& [kernel_h, kernel_w] : {std::pair{1, 1}, {2, 2}, {1, 5}, {4, 1}, {5, 3}}) {
    for (const auto& [height, width] : {std::pair{5, 5}, {6, 33}, {31, 5}, {17, 16}}) {
      for (const std::int64_t stride : {1, 2}) {
        Convolution c;
        c.kernel_h = kernel_h;
        c.kernel_w = kernel_w;
        c.height = height;
        c.width = width;
        c.stride = stride;
        c.padding = kernel_h / 2;
        c.images = 1;
        check(c);
      }
    }
  }
}

TEST_CASE("grouped and depthwise convolutions have the definition's bits") {
  for (const auto& [in, out, groups] : {std::tuple{4, 6, 2}, {6, 6, 6}, {3, 9, 3}, {34, 34, 2}}) {
    for (const std::int64_t stride : {1, 2}) {
      Convolution c;
      c.in = in;
      c.out = out;
      c.groups = groups;
      c.stride = stride;
      check(c);
    }
  }
}

/// A convolution's line with its operands 0 and 1 replaced by values `a` and `b`.
std::string reading(std::string line, const std::string& a, const std::string& b) {
  line.replace(line.find("\"0[") + 1, 1, "#");
  line.replace(line.find("\"1[") + 1, 1, b);
  return line.replace(line.find('#'), 1, a);
}

void check_between(std::int64_t images) {
  Convolution c;
  c.images = images;
  c.in = c.out = 16;
  c.height = 9;
  const std::string n = std::to_string(images);
  const std::string image = R"("s":[)" + n + R"(,16,9,7],"t":"f32","v":@V,)";
  const std::string text = check_form(
      {{DType::kF32, {images, 16, 63}}, c.w(), {DType::kF32, {16}}},
      {R"({"do":["max 0x0p0 x0"],"k":"map",)" + image + R"("x":["0@)" + n + R"(.16.9.7[i0,i1,i2,i3]"]})",
       reading(c.forward(), "3", "1"),
       R"({"do":["sub x0 x1","mul t0 x2"],"f":[9,7],"k":"sum","s":[)" + n +
           R"(,16],"t":"f32","v":@V,"x":["4[i0,i1,k0,k1]","2[i1]","3[i0,i1,k0,k1]"]})",
       R"({"do":["sub x0 x1","fma t0 x2 x3","f32 i1","fma t1 t2 x4"],"k":"map",)" + image +
           R"("x":["4[i0,i1,i2,i3]","5[i0,i1]","2[i1]","3[i0,i1,i2,i3]","4@)" + n +
           R"(.2.8.9.7[i0,1,0,i2,i3]"]})",
       reading(c.input_gradient(), "6", "1"), reading(c.weight_gradient(), "3", "7"),
       // An evaluation keeps its last values, which must not change layout.
       R"({"k":"map","s":[16],"t":"f32","v":@V,"x":["8[i0,0,0,0]"]})",
       R"({"k":"map","s":[16,16,3,3],"t":"f32","v":@V,"x":["8[i0,i1,i2,i3]"]})"});
  INFO(text);
  CHECK(text.find("[" + n + ",9,7,16]") != std::string::npos);
  CHECK(text.find("(sum of 63, columns)") != std::string::npos);
  CHECK(text.find("[" + n + ",16,9,7]") == std::string::npos);
}

TEST_CASE("what lies between convolutions has its channels last, and the definition's bits") {
  for (const std::int64_t images : {1, 3}) check_between(images);
}

TEST_CASE("convolutions of infinities and NaN have the definition's, at the edges too") {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t padding : {0, 1, 3}) {
      for (const test::NotFinite where : {test::NotFinite::kFirst, test::NotFinite::kSecond}) {
        Convolution c;
        c.in = 9;
        c.out = 16;
        c.stride = stride;
        c.padding = padding;
        c.channels_last = true;
        check_form({c.x(), c.w()}, {c.forward()}, 1, where);
        check_form({c.dy(), c.w()}, {c.input_gradient()}, 1, where);
        check_form({c.x(), c.dy()}, {c.weight_gradient()}, 1, where);
      }
    }
  }
}

TEST_CASE("convolutions have the definition's bits across blocks and groups of terms") {
  Convolution c;  // 9 · 29 = 261 terms, 9 · 460 = 4140
  c.in = 29;
  c.height = c.width = 4;
  check(c);
  c.in = 460;
  c.out = 3;
  c.images = 1;
  c.height = c.width = 2;
  check(c);
  c = {};  // 17 · 16 · 16 = 4352 terms of the weight gradient
  c.images = 17;
  c.height = c.width = 16;
  c.in = 2;
  c.out = 18;
  check(c);
  c.images = 5;  // blocks that span many images
  c.height = c.width = 3;
  check(c);
}

TEST_CASE(
    "weight gradients of 16 channels have the definition's bits for every stride, dilation and padding") {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t dilation : {1, 3}) {
      for (const std::int64_t padding : {0, 1, 2, 7}) {
        for (const test::NotFinite where :
             {test::NotFinite::kNone, test::NotFinite::kFirst, test::NotFinite::kSecond}) {
          Convolution c;
          c.images = 3;
          c.in = 16;
          c.out = padding == 1 ? 48 : 16;
          c.stride = stride;
          c.dilation = dilation;
          c.padding = padding;
          c.height = 9;
          c.width = 8;
          c.channels_last = true;
          check_form({c.x(), c.dy()}, {c.weight_gradient()}, 1, where);
        }
      }
    }
  }
}

TEST_CASE("weight gradients have the definition's bits where threads share groups of terms") {
  // 3 groups for two threads, 4 for three, the last only a sixteenth.
  for (const std::int64_t images : {33, 49}) {
    for (const test::NotFinite where : {test::NotFinite::kNone, test::NotFinite::kSecond}) {
      Convolution c;
      c.images = images;
      c.in = 3;
      c.out = 16;
      c.height = c.width = 16;
      c.channels_last = true;
      check_form({c.x(), c.dy()}, {c.weight_gradient()}, 1, where);
    }
  }
}

}  // namespace
}  // namespace dgx::exec
