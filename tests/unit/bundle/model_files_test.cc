#include "dgx/bundle/model_files.h"

#include <catch2/catch.hpp>

#include "support.h"

namespace dgx::bundle {
namespace {

using test::Folder;

const std::array<float, 6> kNumbers{1, -2, 3.5F, 0, -0.0F, 1e-40F};

std::vector<NamedTensor> two() {
  const ByteView bytes{reinterpret_cast<const std::uint8_t*>(kNumbers.data()), sizeof kNumbers};
  return {{"a", {DType::kF32, {2, 3}, bytes}}, {"b", {DType::kI64, {0}, {}}}};
}

const json::Object kMetadata{{"dgx.step", "7"}, {"format", "pt"}};

std::string npz(const json::Object& metadata = kMetadata) {
  auto bytes = npz_bytes(two(), metadata);
  REQUIRE(bytes.ok());
  return *bytes;
}

Result<ModelFile> read(const std::string& content) {
  const Folder folder;
  test::spill(folder / "m.npz", content);
  return read_own_npz(folder / "m.npz");
}

void check_two(const Result<ModelFile>& file) {
  if (!file.ok()) FAIL(file.error().message);
  REQUIRE(file->tensors.size() == 2);
  CHECK(file->tensors[0].name == "a");
  CHECK(file->tensors[0].tensor.shape() == Shape{2, 3});
  CHECK(as_text(file->tensors[0].tensor.bytes()) == as_text(two()[0].tensor.bytes));
  CHECK(file->tensors[1].tensor.dtype() == DType::kI64);
  CHECK(file->tensors[1].tensor.shape() == Shape{0});
}

TEST_CASE("an archive gives back its tensors and its metadata") {
  const auto file = read(npz());
  check_two(file);
  CHECK(file->metadata == kMetadata);
  const auto without = read(npz({}));
  check_two(without);
  CHECK(without->metadata.empty());
  const auto none = npz_bytes({});
  REQUIRE(none.ok());
  CHECK(read(*none)->tensors.empty());
}

TEST_CASE("an archive with any byte changed, cut off or added is refused") {
  const std::string good = npz();
  const std::size_t comment = json::Value(kMetadata).dump().size();
  for (std::size_t at = 0; at < good.size() - comment; ++at) {
    for (const int bit : {1, 0x20, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bit);
      CAPTURE(at, bit);
      const auto file = read(bad);
      REQUIRE(!file.ok());
      CHECK(file.error().code == ErrorCode::kMalformed);
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(!read(good.substr(0, size)).ok());
  CHECK(!read(good + " ").ok());
  CHECK(!read("PK" + good).ok());
}

TEST_CASE("an archive whose names do not ascend, or are not printable, is refused") {
  const auto tensors = two();
  for (const auto& [first, second] :
       {std::pair<std::string, std::string>{"b", "a"}, {"a", "a"}, {"\x1b[2J", "a"}}) {
    const auto bytes = npz_bytes({{first, tensors[0].tensor}, {second, tensors[0].tensor}});
    REQUIRE(bytes.ok());
    CHECK(!read(*bytes).ok());
  }
}

TEST_CASE("a safetensors file gives back its metadata") {
  const Folder folder;
  test::spill(folder / "m", safetensors_bytes(two(), kMetadata));
  const auto file = read_safetensors(folder / "m");
  check_two(file);
  CHECK(file->metadata == kMetadata);
}

}  // namespace
}  // namespace dgx::bundle
