#pragma once

#include <string>
#include <string_view>

namespace dgx::fuzz {

/// The zip file that a text describes, so that damage of the text is damage of members, whose sizes, offsets
/// and checksums still fit, or just what it says does not:
///
///     ## net/models/model.json crc=0 method=8
///     {…}
///     ## net/data/weights/weight_0 size=24
///     !! -8 255
///
/// A line "## NAME" begins a member, whose bytes are the lines up to the next such line, cut or filled with
/// zeros to `size` (at most 1 MiB). `crc`, `method`, `flags` and `bytes` (the size that is stated) are
/// written instead of the true ones; `at=K` makes the directory lead to the header of member K, `local=NAME`
/// is the name in the header before the member. "!! OFFSET BYTE" changes a byte of the zip, counted from its
/// end if OFFSET is negative. A text that begins otherwise is the file itself.
[[nodiscard]] std::string zip_of_text(std::string_view text);

}  // namespace dgx::fuzz
