#include "dgx/bundle/sources.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "formats/inflate.h"
#include "formats/safetensors.h"
#include "formats/table_text.h"
#include "formats/widen.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using namespace std::string_literals;
using test::Folder;

std::string gzip(const std::string& content) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(content.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string idx(char type, const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out{'\0', '\0', type, static_cast<char>(dims.size())};
  for (const std::uint32_t size : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift);
  }
  return out + data;
}

template <class T>
std::vector<T> values(const BulkTensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

Result<BulkTensor> from_idx(const std::string& content) {
  const Folder folder;
  test::spill(folder / "f", content);
  return read_idx(folder / "f");
}

TEST_CASE("what is too large for memory is read alike into a file") {
  const Folder folder;
  std::string text(2'500'001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i / 7);
  const std::string shorts = text.substr(0, 2'500'000);
  test::spill(folder / "text", text);
  test::spill(folder / "idx", idx(0x0b, {1250, 1000}, shorts));
  test::spill(folder / "idx.gz", gzip(idx(0x0b, {1250, 1000}, shorts)));
  for (const char* const name : {"idx", "idx.gz"}) {
    const auto in_memory = read_idx(folder / name);
    const auto in_file = read_idx(folder / name, {1000});
    REQUIRE((in_memory.ok() && in_file.ok()));
    CHECK(in_file->view().file >= 0);
    CHECK(test::same(in_file->view(), in_memory->view()));
  }
  const auto in_memory = read_text(folder / "text", 30);
  const auto in_file = read_text(folder / "text", 30, {1000});
  REQUIRE((in_memory.ok() && in_file.ok()));
  CHECK(in_file->y.view().file >= 0);
  CHECK(test::same(in_file->x.view(), in_memory->x.view()));
  CHECK(test::same(in_file->y.view(), in_memory->y.view()));
}

TEST_CASE("a file that is cut off while it is read is an I/O error, not a signal") {
  const Folder folder;
  const auto cut_off = [&](std::string_view content) {
    test::spill(folder / "f", content);
    auto file = BulkTensor::open(folder / "f", content.size(), 1);
    REQUIRE(file.ok());
    REQUIRE(file->view().file >= 0);
    std::filesystem::resize_file(folder / "f", 100);
    return std::move(file).value();
  };
  const std::string numbers(1'000'000, '\1');
  const BulkTensor plain = cut_off(numbers);
  CHECK(widen({}, {1'000'000}, plain.view(), 0, {1}).error().code == ErrorCode::kIo);
  std::string noise(1'000'000, '\0');  // which gzip does not make shorter
  for (std::uint32_t i = 0, x = 1; i < noise.size(); ++i)
    noise[i] = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  const std::string packed = gzip(noise);
  const BulkTensor zipped = cut_off(packed);
  CHECK(inflate_exactly(zipped.view(), noise.size(), 1).error().code == ErrorCode::kIo);
  const BulkTensor table = cut_off("1,2\n" + numbers);
  CHECK(TableText(table, ',').next().error().code == ErrorCode::kIo);
  std::string length(8, '\0');
  length[1] = 1;
  const BulkTensor named = cut_off(length + numbers);
  CHECK(parse_safetensor(named, "a", {}).error().code == ErrorCode::kIo);
}

TEST_CASE("IDX files are read plain and packed, big-endian, other integers widened") {
  const std::string bytes = idx(0x08, {2, 3}, "abcdef");
  for (const std::string& content : {bytes, gzip(bytes)}) {
    const auto tensor = from_idx(content);
    REQUIRE(tensor.ok());
    CHECK(tensor->dtype() == DType::kU8);
    CHECK(tensor->shape() == Shape{2, 3});
    CHECK(as_text(tensor->bytes()) == "abcdef");
  }
  CHECK(values<std::int64_t>(*from_idx(idx(0x09, {2}, "\x80\x7f"))) == std::vector<std::int64_t>{-128, 127});
  CHECK(values<std::int64_t>(*from_idx(idx(0x0b, {2}, "\xff\xfe\x01\x02"))) ==
        std::vector<std::int64_t>{-2, 258});
  CHECK(values<std::int64_t>(*from_idx(idx(0x0c, {1}, "\x80\0\0\x01"s))) ==
        std::vector<std::int64_t>{-2147483647});
  CHECK(values<float>(*from_idx(idx(0x0d, {1}, "\xbf\xc0\0\0"s))) == std::vector<float>{-1.5F});
  CHECK(from_idx(idx(0x08, {0, 4}, ""))->count() == 0);
}

TEST_CASE("IDX files that are not exactly so are refused") {
  const std::string good = idx(0x08, {2, 3}, "abcdef");
  const std::string packed = gzip(good);
  for (const std::string& bad :
       {""s, "\0\0"s, "x"s + good, good + "g", good.substr(0, 9), good.substr(0, 13),
        idx(0x0e, {1}, "12345678"), idx(0x07, {1}, "1"), idx(0x08, {}, "1"),
        idx(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "1"), idx(0x08, {0xffffffff, 0xffffffff}, "abc"),
        idx(0x08, {0x7fffffff}, "abc"), packed + "x", packed.substr(0, packed.size() - 1),
        packed.substr(0, 15), gzip(good + "g"), gzip(good.substr(0, 15)),
        gzip(idx(0x08, {0x7fffffff}, "abc")), packed + packed}) {
    CAPTURE(to_hex(as_bytes(bad)));
    const auto read = from_idx(bad);
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::kMalformed);
  }
  std::string flipped = packed;
  flipped[packed.size() - 8] = static_cast<char>(flipped[packed.size() - 8] ^ 1);  // in its CRC
  CHECK(!from_idx(flipped).ok());
  CHECK(from_idx(idx(0x0e, {1}, "12345678")).error().hint ==
        "--round f32 rounds each to the nearest f32, ties to even");
  CHECK(read_idx("/nonexistent/f").error().code == ErrorCode::kMissing);
}

std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string out = "\x93NUMPY"s + version + '\0';
  const std::size_t width = version == 1 ? 2 : 4;
  for (std::size_t i = 0; i < width; ++i) out += static_cast<char>(dictionary.size() >> (8 * i) & 0xff);
  return out + dictionary + data;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
}

Result<BulkTensor> from_npy(const std::string& content) {
  const Folder folder;
  test::spill(folder / "f", content);
  return read_npy(folder / "f");
}

TEST_CASE("NPY files of both versions are read, integers widened") {
  for (const char version : {'\1', '\2'}) {
    const auto tensor = from_npy(npy(dictionary("<f4", "(2, 1)"), "\0\0\xc0\x3f\0\0\0\x80"s, version));
    REQUIRE(tensor.ok());
    CHECK(tensor->shape() == Shape{2, 1});
    CHECK(values<float>(*tensor)[0] == 1.5F);
  }
  CHECK(values<std::int64_t>(*from_npy(npy(dictionary("|i1", "(1,)"), "\xff"))) ==
        std::vector<std::int64_t>{-1});
  CHECK(values<std::int64_t>(*from_npy(npy(dictionary("<u2", "(1,)"), "\xfe\xff"))) ==
        std::vector<std::int64_t>{65534});
  CHECK(values<std::int64_t>(*from_npy(npy(dictionary("<i4", "(1,)"), "\xfe\xff\xff\xff"))) ==
        std::vector<std::int64_t>{-2});
  CHECK(values<std::int64_t>(*from_npy(npy(dictionary("<u4", "(1,)"), "\xfe\xff\xff\xff"))) ==
        std::vector<std::int64_t>{4294967294});
  CHECK(values<std::int64_t>(*from_npy(npy(dictionary("<i8", "()"), "\x07\0\0\0\0\0\0\0"s)))[0] == 7);
  CHECK(from_npy(npy(dictionary("|u1", "(3,)"), "abc"))->dtype() == DType::kU8);
  CHECK(from_npy(npy(dictionary("|u1", "(0, 3)"), ""))->count() == 0);
}

TEST_CASE("f16 and bool are widened exactly, f64 is rounded if that is asked for") {
  // 1, the least number, the largest, minus infinity
  const auto half = from_npy(npy(dictionary("<f2", "(4,)"), "\x00\x3c\x01\x00\xff\x7b\x00\xfc"s));
  REQUIRE(half.ok());
  CHECK(values<float>(*half) ==
        std::vector<float>{1, 0x1p-24F, 65504, -std::numeric_limits<float>::infinity()});
  CHECK(values<std::uint8_t>(*from_npy(npy(dictionary("|b1", "(3,)"), "\0\1\7"s))) ==
        std::vector<std::uint8_t>{0, 1, 1});
  // 1 + 2^-24 lies between two numbers of f32: the even one is 1. 1 + 3 · 2^-24 goes to 1 + 2^-22.
  const Folder folder;
  const std::string doubles = "\0\0\0\x10\0\0\xf0\x3f\0\0\0\x30\0\0\xf0\x3f"s;
  test::spill(folder / "d", npy(dictionary("<f8", "(2,)"), doubles));
  CHECK(!read_npy(folder / "d").ok());
  CHECK(values<float>(*read_npy(folder / "d", {.rounding = Rounding::kF32})) ==
        std::vector<float>{1, 1 + 0x1p-22F});
}

TEST_CASE("NPY files that would lose bits or are not exactly so are refused") {
  const std::string good = npy(dictionary("|u1", "(3,)"), "abc");
  for (const std::string& bad :
       {""s,
        "\x93NUMPY"s,
        good.substr(0, 20),
        good + "d",
        good.substr(0, good.size() - 1),
        npy(dictionary("|u1", "(3,)"), "abc", 3),
        npy(dictionary("<f8", "(1,)"), "12345678"),
        npy(dictionary("<u8", "(1,)"), "12345678"),
        npy(dictionary(">f4", "(1,)"), "1234"),
        npy(dictionary("<c8", "(1,)"), "12345678"),
        npy(dictionary("|O", "(1,)"), "12345678"),
        npy(dictionary("|u1", "(3,)", "True"), "abc"),
        npy(dictionary("|u1", "(3"), "abc"),
        npy(dictionary("|u1", "(-3,)"), "abc"),
        npy(dictionary("|u1", "(9007199254740993,)"), "abc"),
        npy(dictionary("|u1", "(99999999999999999999,)"), "abc"),
        npy(dictionary("|u1", "(9999999,9999999999)"), "abc"),
        npy(dictionary("|u1", "(1,1,1,1,1,1,1,1,1)"), "a"),
        npy("{'descr': '|u1', 'shape': (3,)}", "abc"),
        npy("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc"),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)} x", "abc"),
        npy("", "abc")}) {
    CAPTURE(to_hex(as_bytes(bad)));
    const auto read = from_npy(bad);
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::kMalformed);
  }
  CHECK(from_npy(npy(dictionary("|u1", "(3,)", "True"), "abc")).error().hint ==
        "convert with numpy.ascontiguousarray");
}

TEST_CASE("text becomes windows and the bytes that follow") {
  const Folder folder;
  test::spill(folder / "t", "abcdefgh");
  const auto read = read_text(folder / "t", 3);
  REQUIRE(read.ok());
  CHECK(read->x.shape() == Shape{2, 3});
  CHECK(as_text(read->x.bytes()) == "abcdef");
  CHECK(as_text(read->y.bytes()) == "bcdefg");
  CHECK(read_text(folder / "t", 7)->x.shape() == Shape{1, 7});
  CHECK(read_text(folder / "t", 8).error().code == ErrorCode::kUsage);
  CHECK(read_text(folder / "t", 0).error().code == ErrorCode::kUsage);
  test::spill(folder / "t", "");
  CHECK(read_text(folder / "t", 1).error().code == ErrorCode::kUsage);
}

TEST_CASE("tokens become windows and the tokens that follow, from NPY or raw") {
  const Folder folder;
  test::spill(folder / "raw", "\x01\x00\x02\x01\x03\x00\x04\x00\x05\x00"s);
  const auto raw = read_tokens(folder / "raw", TokenFile::kU16, 2);
  REQUIRE(raw.ok());
  CHECK(raw->x.shape() == Shape{2, 2});
  CHECK(values<std::int64_t>(raw->x) == std::vector<std::int64_t>{1, 258, 3, 4});
  CHECK(values<std::int64_t>(raw->y) == std::vector<std::int64_t>{258, 3, 4, 5});
  CHECK(!read_tokens(folder / "raw", TokenFile::kU32, 2).ok());
  test::spill(folder / "npy", npy(dictionary("<u2", "(3,)"), "\1\0\2\0\3\0"s));
  CHECK(values<std::int64_t>(read_tokens(folder / "npy", TokenFile::kNpy, 1)->y) ==
        std::vector<std::int64_t>{2, 3});
  test::spill(folder / "npy", npy(dictionary("<u2", "(3, 1)"), "\1\0\2\0\3\0"s));
  CHECK(read_tokens(folder / "npy", TokenFile::kNpy, 1).error().code == ErrorCode::kMalformed);
}

TEST_CASE("a tensor of a safetensors file is read by its name and widened") {
  const Folder folder;
  const std::string header =
      R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"u":{"dtype":"U16","shape":[1],"data_offsets":[4,6]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  test::spill(folder / "s", length + header + "\x80\x3f\x80\xbf\xff\xff"s);
  CHECK(values<float>(*read_safetensor(folder / "s", "b")) == std::vector<float>{1, -1});
  CHECK(values<std::int64_t>(*read_safetensor(folder / "s", "u")) == std::vector<std::int64_t>{65535});
  const auto missing = read_safetensor(folder / "s", "c");
  CHECK(missing.error().code == ErrorCode::kMissing);
  CHECK(missing.error().hint == "the file has b, u");
}

}  // namespace
}  // namespace dgx::bundle
