#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

inline constexpr std::size_t kMaxTableColumns = 65536;
inline constexpr std::size_t kMaxFieldBytes = 65536;
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

/// Reads a table as text line by line (RFC 4180): fields between delimiters; a field in double quotes may
/// hold delimiters and line breaks, and "" for a quote. Lines end in LF or CRLF. Empty lines and a byte order
/// mark are skipped. The file is read by copy_bytes() in pieces; a line that does not end within what has
/// been read is parsed again with more of it.
class TableText {
 public:
  /// `file` outlives the reader. `piece_bytes` is how much is read at once, at least.
  TableText(const BulkTensor& file, char delimiter, std::size_t piece_bytes = std::size_t{1} << 20)
      : file_(file.view()), delimiter_(delimiter), piece_bytes_(piece_bytes) {}

  /// Reads the next line that is not empty; false at the end. kMalformed, with the line, for a quote that is
  /// not closed, or closed before the field's end, and for a line beyond the limits above. Errors of
  /// copy_bytes().
  [[nodiscard]] Result<bool> next();
  /// The fields of that line.
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
  /// The line's number, from 1: where it begins, if a field of it has line breaks.
  [[nodiscard]] std::uint64_t line() const { return line_; }

 private:
  [[nodiscard]] bool is_whole() const { return read_bytes_ == file_.bytes.size(); }
  [[nodiscard]] Status read_on();
  [[nodiscard]] Status take_line();
  [[nodiscard]] Status take_field(std::string& out);
  [[nodiscard]] Status take_quoted(std::string& out);
  [[nodiscard]] bool at_line_end() const;
  void skip_line_end();
  [[nodiscard]] Error wrong(std::string_view what) const;

  const BulkView& file_;
  char delimiter_;
  std::size_t piece_bytes_;
  std::string text_;  ///< the file up to byte read_bytes_, from a line's beginning
  std::uint64_t read_bytes_ = 0;
  std::size_t at_ = 0;  ///< in text_
  std::uint64_t line_ = 0;
  std::uint64_t next_line_ = 1;
  std::vector<std::string> fields_;
};

}  // namespace dgx::bundle
