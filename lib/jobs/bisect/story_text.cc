#include <fmt/format.h>

#include <algorithm>

#include "bisect/story_tables.h"
#include "dgx/core/text.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kColumns = 110;

/// `text` broken between words, each line indented by `margin` spaces.
std::string wrapped(std::string_view text, std::size_t margin) {
  const std::string indent(margin, ' ');
  const std::string clean = printable(text);
  std::string out;
  std::string line;
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t end = std::min(clean.find(' ', at), clean.size());
    const std::string word = clean.substr(at, end - at);
    if (!line.empty() && margin + columns_of(line) + 1 + columns_of(word) > kColumns) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + indent + line + "\n";
}

/// Rows in aligned columns, each ending in a newline; the last column is wrapped under its own beginning.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::vector<StoryTable::Column>& columns = {}) {
  constexpr std::size_t kMargin = 2;
  constexpr std::size_t kGap = 2;
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(printable(row[i])));
  }
  const auto is_number = [&](std::size_t i) { return i < columns.size() && columns[i].is_number; };
  std::string out;
  for (const auto& row : rows) {
    std::string start(kMargin, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = printable(row[i]);
      const std::string padding(widths[i] - columns_of(cell), ' ');
      if (i + 1 == row.size() && !is_number(i)) {
        out += start + wrapped(row[i], columns_of(start)).substr(columns_of(start));
      } else {
        start += (is_number(i) ? padding + cell : cell + padding) + std::string(kGap, ' ');
      }
    }
    if (is_number(row.size() - 1)) out += start.substr(0, start.size() - kGap) + "\n";
  }
  return out;
}

/// A table with the names of its columns; empty if it has no rows.
std::string table_text(StoryTable table) {
  if (table.rows.empty()) return {};
  std::vector<std::string> head;
  for (const StoryTable::Column& column : table.columns) head.push_back(column.name);
  if (!head.empty()) table.rows.insert(table.rows.begin(), std::move(head));
  return aligned(table.rows, table.columns);
}

std::string section(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("\n{}\n{}", title, body);
}

std::string sentences(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& one : list) out += wrapped(one, 2);
  return out;
}

std::string funnel_text(const std::vector<Level>& levels) {
  std::vector<std::vector<std::string>> rows;
  for (const Level& level : levels) {
    rows.push_back({level.of, level.picked});
    rows.push_back({"", level.agreed});
  }
  return aligned(rows);
}

std::string operation_text(const ToldOperation& operation) {
  const std::string why = operation.why.empty() ? "" : wrapped(operation.why, 2);
  return wrapped(fmt::format("{} = {}", operation.what, operation.formula), 2) +
         table_text(table_of(operation)) + why;
}

std::string checks_text(const std::vector<Check>& checks) {
  std::string out;
  for (const Check& check : checks) out += wrapped(check.what, 2) + "    " + printable(check.command) + "\n";
  return out;
}

std::string curves_text(const std::vector<Curve>& curves) {
  std::vector<std::vector<std::string>> rows;
  for (const Curve& curve : curves) rows.push_back({curve.name, curve.words});
  return aligned(rows);
}

}  // namespace

std::string print_text(const DisputeStory& story) {
  std::string out = wrapped(sentence_case(story.heading) + ".", 0);
  out += section("What is claimed", sentences(story.claims));
  out += section("Where they first disagree", funnel_text(story.funnel));
  if (story.operation) out += section("The operation", operation_text(*story.operation));
  out += section("The moves", table_text(table_of(story.moves)));
  out += section("The end", sentences(story.end));
  return out + section("Whole ids", table_text(table_of("", story.ids)));
}

std::string print_text(const Story& story) {
  std::string out = wrapped(story.title, 0);
  out += section("In short", sentences(story.summary));
  out += section("How this works", sentences(story.explanation));
  out += section("Who", table_text(table_of(story.parties)));
  out += section("What was bought", table_text(table_of("", story.bought)));
  out += section("Loss", curves_text(story.curves));
  out += section("What was replayed", table_text(table_of(story.stretches)));
  for (const DisputeStory& dispute : story.disputes) out += "\n" + print_text(dispute);
  out += section("Money, in base units", table_text(table_of(story.accounts)));
  out += section("When", table_text(table_of(story.events)));
  out += section("Check it yourself", checks_text(story.checks));
  out += section("Left out", sentences(story.left_out));
  return out + section("Whole ids", table_text(table_of("", story.ids)));
}

}  // namespace dgx::jobs
