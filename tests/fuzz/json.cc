// JSON: whatever is accepted has one canonical form, and that form is accepted.

#include "dgx/core/json.h"

#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {R"({"a":[1,-2,9007199254740992],"b":{"c":true,"d":"\u001f\"\\\n"},"e":""})",
          R"([[[[[]]]],{},"a",0,false])",
          "  { \"spaced\" : [ 1 , 2 ] }\n",
          "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \\ud83d\\ude00\"",
          R"({"a":1e3,"b":null,"c":1.5})",
          std::string(40, '[') + std::string(40, ']')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto canonical = json::parse_canonical(text);
  if (canonical.ok()) fuzz::require(canonical->dump() == text, "canonical text re-encodes to itself");
  const auto value = json::parse(text);
  fuzz::require(value.ok() || !canonical.ok(), "what is canonical is JSON");
  if (!value.ok()) return 0;
  const auto again = json::parse_canonical(value->dump());
  fuzz::require(again.ok() && *again == *value, "the canonical form of a value is that value");
  return 0;
}
