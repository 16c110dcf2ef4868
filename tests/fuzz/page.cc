// Text of strangers on a page, and numbers in hex: no text is markup, or hides or turns around other text.

#include "inspect/page.h"

#include <algorithm>

#include "dgx/core/text.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {"<a href='x'>&amp;\"</a>",
          "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
          "\xe2\x80\xaeturned\xe2\x81\xa9",
          "\x1b[2J\x00\x7f\xc2\x9b",
          "0x3f800000",
          "-0x1.8p-149",
          "0xffffffffffffffff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::string shown = jobs::Page::escaped(text);
  fuzz::require(shown.find_first_of("<>\"'") == std::string::npos, "no text is markup");
  fuzz::require(
      std::none_of(shown.begin(), shown.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }),
      "no text has controls");
  for (const std::string_view mark : {"\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x80\x8f", "\xc2\x9b"})
    fuzz::require(shown.find(mark) == std::string::npos, "no text turns others");
  // Escaped text holds only characters that stay as they are, but for '&'.
  std::string again = shown;
  std::replace(again.begin(), again.end(), '&', '+');
  fuzz::require(jobs::Page::escaped(again) == again, "what is shown is UTF-8");
  if (const auto decimal = decimal_of_hex(text)) fuzz::require(!decimal->empty(), "a decimal has digits");
  return 0;
}
