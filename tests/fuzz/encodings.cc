// Base64, hex and hex floats: accepted text is exactly what the writer produces.

#include "dgx/core/bytes.h"
#include "dgx/program/number_text.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {
      "",        "Zg==",   "Zm8=",     "Zm9v",           "+/+/AAAA", "00ff",      std::string(64, 'a'),
      "0x1.8p3", "-0x0p0", "0x1p-149", "0x1.fffffep127", "inf",      "0x1p-1074", "0x1.fffffffffffffp1023"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto bytes = from_base64(text); bytes.ok()) {
    fuzz::require(to_base64(*bytes) == text, "accepted base64 re-encodes to itself");
  }
  if (const auto bytes = from_hex(text); bytes.ok()) {
    fuzz::require(to_hex(*bytes) == text, "accepted hex re-encodes to itself");
  }
  if (const auto digest = digest_from_hex(text); digest.ok()) {
    fuzz::require(digest->hex() == text, "an accepted digest re-encodes to itself");
  }
  if (const auto value = program::parse_hex_float(text); value.ok()) {
    fuzz::require(program::hex_float(*value) == text, "an accepted float re-encodes to itself");
  }
  if (const auto value = program::parse_hex_double(text); value.ok()) {
    fuzz::require(program::hex_float(*value) == text, "an accepted double re-encodes to itself");
  }
  const Bytes all(data, data + size);
  fuzz::require(*from_base64(to_base64(all)) == all, "bytes survive base64");
  fuzz::require(*from_hex(to_hex(all)) == all, "bytes survive hex");
  return 0;
}
