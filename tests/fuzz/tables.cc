// Answers of a dgx-h5 that an attacker controls.

#include "table.h"

#include <algorithm>

#include "target.h"

using namespace dgx;
using namespace dgx::bundle;

std::vector<std::string> fuzz::seeds() {
  Table chunked;
  chunked.type = {NumberType::Kind::kFloat, 4, NumberType::Order::kLittle};
  chunked.shape = {5, 6};
  chunked.layout = Table::Layout::kChunked;
  chunked.chunk = {2, 6};
  chunked.filters = {2, 1, 3, 32015};
  for (std::uint64_t i = 0; i < 3; ++i) chunked.chunks.push_back({{1000 * i, 48}, 1});
  Table compact;
  compact.type = {NumberType::Kind::kSigned, 2, NumberType::Order::kBig};
  compact.shape = {3};
  compact.layout = Table::Layout::kCompact;
  compact.compact = {1, 2, 3, 4, 5, 6};
  Table contiguous;
  contiguous.shape = {7};
  contiguous.contiguous = {100, 7};
  std::vector<std::string> out;
  for (const Result<Table>& table :
       {Result<Table>(chunked), Result<Table>(compact), Result<Table>(contiguous),
        Result<Table>(malformed("is not one", "look"))}) {
    out.emplace_back(as_text(encode_message(table)));
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto table = decode_message({data, size});
  if (table.ok()) {
    fuzz::require(std::ranges::equal(encode_message(table), ByteView(data, size)),
                  "an accepted table re-encodes to itself");
  } else {
    const auto& text = table.error().message;
    fuzz::require(std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; }),
                  "an error can be printed");
  }
  return 0;
}
