#include <catch2/catch.hpp>

#include "dgx/bundle/model_files.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using namespace std::string_literals;
using test::Folder;

std::string file(const std::string& header, const std::string& numbers) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out + header + numbers;
}

Result<State> read(const std::string& content) {
  const Folder folder;
  test::spill(folder / "f.safetensors", content);
  auto model = read_safetensors(folder / "f.safetensors");
  if (!model.ok()) return std::move(model).error();
  return std::move(model).value().tensors;
}

TEST_CASE("a safetensors file gives its tensors by name, wherever their numbers lie") {
  const auto state = read(file(R"( {"b": {"dtype":"F32", "shape":[2,1], "data_offsets":[9,17]},
                                    "__metadata__": {"format": "pt"},
                                    "a.x": {"dtype":"I64","shape":[],"data_offsets":[0,8]},
                                    "c": {"dtype":"U8","shape":[1],"data_offsets":[8,9]}}   )",
                               "\x07\0\0\0\0\0\0\0\x05\0\0\x80\x3f\0\0\0\xc0"s));
  if (!state.ok()) FAIL(state.error().message);
  REQUIRE(state->size() == 3);
  CHECK(find_entry(*state, "a.x")->tensor.as<std::int64_t>()[0] == 7);
  CHECK(find_entry(*state, "b")->tensor.shape() == Shape{2, 1});
  CHECK(find_entry(*state, "b")->tensor.as<float>()[0] == 1.0F);
  CHECK(find_entry(*state, "b")->tensor.as<float>()[1] == -2.0F);
  CHECK(find_entry(*state, "c")->tensor.bytes()[0] == 5);
  CHECK(read(file("{}", ""))->empty());
}

TEST_CASE("a safetensors file that is not exactly so is refused") {
  const auto one = [](const std::string& item) { return file(R"({"a":)" + item + "}", "12345678"); };
  const std::string good = one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})");
  REQUIRE(read(good).ok());
  for (
      const std::string& bad :
      {""s,
       "1234567"s,
       good + "x",
       good.substr(0, good.size() - 1),
       good.substr(0, 40),
       file("[]", ""),
       file("{", ""),
       file(R"({"a":1})", ""),
       file("{}", "x"),
       std::string(8, '\xff') + "{}",
       std::string("\0\0\0\x7f\0\0\0\0{}", 10),
       one(R"({"dtype":"F16","shape":[4],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,16]})"),
       one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[9007199254740992,9007199254740992],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
       one(R"({"dtype":"F32","shape":[2]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})"),
       one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"x":1})")}) {
    CAPTURE(bad);
    const auto state = read(bad);
    REQUIRE(!state.ok());
    CHECK(state.error().code == ErrorCode::kMalformed);
    CHECK_THAT(state.error().message, Catch::Contains("f.safetensors: "));
  }
}

}  // namespace
}  // namespace dgx::bundle
