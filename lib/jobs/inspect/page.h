#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgx::jobs {

/// Writes an HTML page whose tags and attribute names are the program's own. Text and attribute values only
/// come in through escaped(), so no name, path or statement can become markup, whatever it holds: there is no
/// way to add raw text.
class Page {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;

  /// `tag` and the attributes' names must be literals of the program.
  void open(std::string_view tag, Attributes attributes = {});
  /// Closes the tag that was opened last. Asserted: one is open.
  void close();
  /// An element without content: `meta`, `circle`.
  void empty(std::string_view tag, Attributes attributes = {});
  void text(std::string_view text) { out_ += escaped(text); }
  /// An element with text and nothing else.
  void element(std::string_view tag, std::string_view words, Attributes attributes = {});
  /// A style sheet of the program's own. Asserted: it has no '<'.
  void style(std::string_view css);

  /// The page. Asserted: everything opened is closed.
  [[nodiscard]] std::string finish() &&;

  /// printable() text with the characters that HTML gives a meaning as entities.
  [[nodiscard]] static std::string escaped(std::string_view text);

 private:
  void start(std::string_view tag, Attributes attributes);

  std::string out_ = "<!DOCTYPE html>\n";
  std::vector<std::string> open_;
};

}  // namespace dgx::jobs
