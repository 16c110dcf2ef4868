// Tables as text: what is read exactly, and what is refused with its place.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "dgx/bundle/pack_sources.h"
#include "formats/table_text.h"
#include "support.h"

namespace dgx::bundle {
namespace {

using namespace std::string_literals;
using test::Folder;

template <class T>
std::vector<T> values(const BulkTensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

Result<Samples> from_csv(const std::string& content, TableReading table = {},
                         std::uint64_t bulk = kBulkBytes) {
  const Folder folder;
  test::spill(folder / "f", content);
  if (table.label.empty()) table.label = "1";
  auto read = read_csv(folder / "f", table, {bulk});
  if (read.ok()) return read;
  Error error = read.error();
  error.message.erase(0, (folder / "f: ").size());
  return error;
}

std::string refusal(const std::string& content, const TableReading& table = {}) {
  const auto read = from_csv(content, table);
  return read.ok() ? "accepted" : read.error().message;
}

/// All lines of a table, with their numbers and fields, and how reading ends.
std::string lines_of(const std::string& content, std::size_t piece_bytes) {
  const BulkTensor file(
      Tensor(TensorView{DType::kU8, {static_cast<std::int64_t>(content.size())}, as_bytes(content)}));
  TableText text(file, ',', piece_bytes);
  std::string out;
  while (true) {
    const auto more = text.next();
    if (!more.ok()) return out + more.error().message;
    if (!*more) return out + "end";
    out += fmt::format("{}:", text.line());
    for (const std::string& field : text.fields()) out += fmt::format("[{}]", field);
  }
}

TEST_CASE("lines are the same in whatever pieces a table is read") {
  const std::string good =
      "\xef\xbb\xbf"
      "a,\"b\"\"\n\r\nc\",\r\n\n\r\n1,2\r,3\n,\n\"\",x\r\n\n9,\"8\"";
  CHECK(lines_of(good, 1000) == "1:[a][b\"\n\r\nc][]6:[1][2\r][3]7:[][]8:[][x]10:[9][8]end");
  for (const std::string& content : {good, good + "\n", good + "\r", good + "\r\n", good + "x", good + ",\"7",
                                     ""s, "\n"s, "\r"s, "\xef\xbb"s, "\xef\xbb\xbf"s, "1\n\"2\" \n3\n"s}) {
    CAPTURE(content);
    for (std::size_t piece = 1; piece <= content.size(); ++piece)
      CHECK(lines_of(content, piece) == lines_of(content, 1000));
  }
}

TEST_CASE("a line is not too long before its end has been read") {
  const std::string field(kMaxFieldBytes, 'x');
  CHECK(lines_of(field + "," + field + "\n1\n", 1 << 10) == lines_of(field + "," + field + "\n1\n", 1 << 20));
  CHECK(lines_of(field + "y\n1\n", 1 << 10) == "line 1: a field of more than 65536 bytes");
}

TEST_CASE("labels are integers, numbers or words, whichever all of them are") {
  const auto integers = from_csv("3,1\n-1,2\n");
  REQUIRE(integers.ok());
  CHECK(values<std::int64_t>(integers->y) == std::vector<std::int64_t>{3, -1});
  CHECK(values<float>(integers->x) == std::vector<float>{1, 2});
  CHECK(integers->classes.empty());
  CHECK(values<float>(from_csv("3,1\n0.5,2\n")->y) == std::vector<float>{3, 0.5F});
  const auto words = from_csv("3,1\nb,2\n\" a\",2\nb,2\n");
  REQUIRE(words.ok());
  CHECK(words->classes == std::vector<std::string>{"3", "a", "b"});
  CHECK(values<std::int64_t>(words->y) == std::vector<std::int64_t>{0, 2, 1, 2});
}

TEST_CASE("a word that is too long for the name of a class is refused, also if a number came first") {
  const std::string longest(512, 'a');
  CHECK(from_csv(longest + ",1\n")->classes == std::vector<std::string>{longest});
  CHECK(refusal(longest + "a,1\n").ends_with("is too long for the name of a class"));
  CHECK(refusal(std::string(513, '0') + ",1\nb,1\n") == "the name of a class is longer than 512 bytes");
}

TEST_CASE("a label that is no usable number is refused among numbers, and is a word among words") {
  CHECK(refusal("0.5,1\nnan,1\n") == "line 2, column 1: \"nan\" is not finite");
  CHECK(refusal("1e39,1\n") == "line 1, column 1: \"1e39\" is too large for f32");
  CHECK(refusal("1,1\n9007199254740993,1\n") == "line 2, column 1: \"9007199254740993\" is beyond 2^53");
  CHECK(refusal("1,1\n99999999999999999999,1\n").ends_with("is beyond 2^53"));
  CHECK(from_csv("a,1\nnan,1\n")->classes == std::vector<std::string>{"a", "nan"});
}

TEST_CASE("given classes keep their numbers, and others are refused") {
  TableReading table;
  table.classes = {"b", "a", "7"};
  CHECK(values<std::int64_t>(from_csv("a,1\nb,2\n7,2\n", table)->y) == std::vector<std::int64_t>{1, 0, 2});
  CHECK(refusal("a,1\nc,2\n", table) == "line 2, column 1: \"c\" is not one of the classes");
}

TEST_CASE(
    "quotes, line ends, empty lines and a byte order mark are read as RFC 4180 and spreadsheets write them") {
  const auto read = from_csv("\xef\xbb\xbf\"a \"\"b\"\", c\",1\r\n\n\r\n\"two\nlines\",\"2\"\r\nlast, +3 \r");
  REQUIRE(!read.ok());
  CHECK(read.error().message == "class \"two\nlines\": is not UTF-8, or has a control character");
  const auto fine = from_csv("\xef\xbb\xbf\"a \"\"b\"\", c\",1\r\n\n\r\nx,\"2\"\r\nlast, +3 \r");
  REQUIRE(fine.ok());
  CHECK(fine->classes == std::vector<std::string>{"a \"b\", c", "last", "x"});
  CHECK(values<float>(fine->x) == std::vector<float>{1, 2, 3});
}

TEST_CASE("a number is the nearest f32 of its decimal text, not of a double in between") {
  // Just above the middle of 1 and its successor, by less than a double can tell: two roundings would give 1.
  const auto read = from_csv("0,1.00000005960464477540,1e-60,-2.5e-3,16777217\n");
  REQUIRE(read.ok());
  CHECK(values<float>(read->x) == std::vector<float>{1 + 0x1p-23F, 0, -0.0025F, 16777216});
}

TEST_CASE("columns are chosen by name, by number and by range, in the order given") {
  TableReading table;
  table.header = true;
  table.label = "y";
  table.columns = "4,a,1-2";
  const auto read = from_csv("a,b,y,2\n1,2,0,4\n", table);
  REQUIRE(read.ok());
  CHECK(values<float>(read->x) == std::vector<float>{4, 1, 1, 2});
  CHECK(refusal("a,b\n1,2\n", table) == "--label: there is no column \"y\"");
  table.columns = "3";
  CHECK(refusal("a,b,y\n1,2,3\n", table) == "--columns: the label cannot be a column of x as well");
  table.columns = "9-2";
  CHECK(refusal("a,b,y\n1,2,3\n", table) == "--columns: there is no column \"9-2\"");
}

TEST_CASE("types of whole numbers take no others") {
  TableReading table;
  table.dtype = DType::kU8;
  CHECK(values<std::uint8_t>(from_csv("0,0,255\n", table)->x) == std::vector<std::uint8_t>{0, 255});
  CHECK(refusal("0,256\n", table) == "line 1, column 2: \"256\" is not from 0 to 255");
  CHECK(refusal("0,1.0\n", table) == "line 1, column 2: \"1.0\" is not a whole number");
  table.dtype = DType::kI64;
  CHECK(values<std::int64_t>(from_csv("0,-9007199254740992\n", table)->x)[0] == -9007199254740992);
  CHECK(refusal("0,9007199254740993\n", table) == "line 1, column 2: \"9007199254740993\" is beyond 2^53");
}

TEST_CASE("what is no table of numbers is refused with line and column") {
  CHECK(refusal("") == "has no lines");
  CHECK(refusal("\n\n") == "has no lines");
  CHECK(refusal("1\n") == "the table has no column but the label");
  CHECK(refusal("0,1\n0,1,2\n") == "line 2: 3 fields, the first line has 2");
  CHECK(refusal("0,1\n0,\n") == "line 2, column 2: is missing");
  CHECK(refusal("0,1\n ,1\n") == "line 2, column 1: is missing");
  CHECK(refusal("0,1\n0,NA\n") == "line 2, column 2: \"NA\" is not a number");
  CHECK(refusal("0,1\n0,nan\n") == "line 2, column 2: \"nan\" is not finite");
  CHECK(refusal("0,1\n0,-inf\n") == "line 2, column 2: \"-inf\" is not finite");
  CHECK(refusal("0,1\n0,1e39\n") == "line 2, column 2: \"1e39\" is too large for f32");
  // A number of 500 digits that 1e-400 brings back to 10^99, and one of 500 places that is nearly 0.
  CHECK(refusal("0,1\n0,1" + std::string(499, '0') + "e-400\n").ends_with("is too large for f32"));
  CHECK(values<float>(from_csv("0,0." + std::string(499, '0') + "1\n")->x) == std::vector<float>{0});
  CHECK(refusal("0,1\n0,1e999\n") == "line 2, column 2: \"1e999\" is too large for f32");
  CHECK(refusal("0,1\n0,1e-999x\n") == "line 2, column 2: \"1e-999x\" is not a number");
  CHECK(refusal("0,1\n0,+-1\n") == "line 2, column 2: \"+-1\" is not a number");
  CHECK(refusal("0,1\n0,0x10\n") == "line 2, column 2: \"0x10\" is not a number");
  CHECK(refusal("0,1\n\n0,\"1\n") == "line 3: a quote is not closed");
  CHECK(refusal("0,1\n0,\"1\"2\n") == "line 2: text follows the quote that ends a field");
  CHECK(refusal("0," + std::string(65537, '1')) == "line 1: a field of more than 65536 bytes");
  std::string line = "0";
  for (int i = 0; i < 1100; ++i) line += "," + std::string(65000, '1');
  CHECK(refusal(line) == "line 1: is longer than 67108864 bytes");
  CHECK(refusal(std::string(65536, ',')) == "line 1: more than 65536 columns");
  TableReading table;
  table.header = true;
  CHECK(refusal("a,b\n", table) == "has no samples");
  CHECK(refusal("a,b\n0,x\n", table) == "line 2, column 2 (b): \"x\" is not a number");
  CHECK(from_csv("a,b\n0,1\n").error().hint == "give --header if the first line has the columns' names");
}

TEST_CASE("a table that is too large for memory is read alike") {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i % 7) + "," + std::to_string(i) + ".25\n";
  const auto in_memory = from_csv(text);
  const auto in_file = from_csv(text, {}, 1000);
  REQUIRE((in_memory.ok() && in_file.ok()));
  CHECK(in_file->x.view().file >= 0);
  CHECK(test::same(in_file->x.view(), in_memory->x.view()));
  CHECK(test::same(in_file->y.view(), in_memory->y.view()));
}

}  // namespace
}  // namespace dgx::bundle
