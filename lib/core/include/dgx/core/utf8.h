#pragma once

#include <string_view>

namespace dgx {

/// True if all of the text is UTF-8 by RFC 3629: shortest forms, no surrogates, at most U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace dgx
