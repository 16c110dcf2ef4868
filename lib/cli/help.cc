#include "help.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "parse.h"

namespace dgx::cli {
namespace {

using Form = OptionRow::Form;

constexpr int kMostColumns = 100;

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done or accepted, 1 refuted, 2 wrong usage, 3 inconclusive, 65 malformed input, 66 "
    "missing input, 69 locked, 70 internal error, 73 cannot create output, 74 I/O error, 75 interrupted and "
    "resumable, 76 not allowed now, 77 not authorised.";

/// The width of help: that of the screen, within what is easy to read.
std::size_t line_columns() {
  static const int columns = std::clamp(Out::screen(kMostColumns).columns, 30, kMostColumns);
  return static_cast<std::size_t>(columns);
}

/// The column in which the meaning of options begins; on a narrow screen below the options.
std::size_t help_column() { return line_columns() < 72 ? 8 : 28; }

/// Breaks `text` into lines of at most line_columns(), at spaces; lines after the first begin at
/// `indent`.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (column > indent && column + 1 + word.size() > line_columns()) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at = end + 1;
  }
  return out;
}

/// "[=TIME]" of a flag that may have a value.
std::string optional_value(const OptionRow& row) {
  return row.value_name.empty() ? "" : fmt::format("[={}]", row.value_name);
}

std::string form_text(const OptionRow& row) {
  const std::string dots = row.form == Form::kList || row.form == Form::kRest ? " …" : "";
  if (row.positional()) return row.value_name + dots;
  // -o is what people type; other short names belong to flags only.
  return row.form == Form::kFlag ? row.names.front() + optional_value(row)
                                 : fmt::format("{} {}{}", row.names.back(), row.value_name, dots);
}

std::string option_line(const OptionRow& row) {
  std::vector<std::string> names(row.names.rbegin(), row.names.rend());  // the short one first
  std::string left = row.positional() ? row.value_name : fmt::format("{}", fmt::join(names, ", "));
  if (!row.positional()) left += row.form == Form::kFlag ? optional_value(row) : " " + row.value_name;
  std::string right = row.help;
  const bool shows_default = !row.default_text.empty() && row.need == Need::kOptional;
  if (shows_default) right += fmt::format(" (default: {})", row.default_text);
  const std::size_t column = help_column();
  const std::string gap =
      left.size() + 4 > column ? "\n" + std::string(column, ' ') : std::string(column - left.size() - 2, ' ');
  return fmt::format("  {}{}{}\n", left, gap, wrapped(right, column));
}

std::string option_lines(const Command& command, bool common) {
  std::string out;
  for (const OptionRow& row : command.rows()) {
    if (row.common == common) out += option_line(row);
  }
  return out;
}

std::string group_text(const Command& command, const Command::Group& group) {
  std::vector<std::string> forms;
  for (const std::string& name : group.names) forms.push_back(form_text(*command.find(name)));
  const bool required = group.need == Need::kRequired;
  return fmt::format("{}{}{}", required ? "(" : "[", fmt::join(forms, " | "), required ? ")" : "]");
}

std::string command_name(const Tool& tool, const Tool::Entry& entry) {
  return entry.name.empty() ? tool.name() : fmt::format("{} {}", tool.name(), entry.name);
}

std::string usage_lines(const Tool& tool) {
  std::string out;
  for (const Tool::Entry& entry : tool.commands()) {
    const auto runner = entry.make();
    const std::string line = synopsis(tool, entry, table_of(*runner));
    out += fmt::format("  {}\n      {}\n", wrapped(line, 8), wrapped(entry.summary, 6));
  }
  return out;
}

}  // namespace

Command table_of(Tool::Runner& runner) {
  Command command;
  runner.declare(command);
  // Nothing is stored through these tables, so their variables need not outlive this call.
  Common common;
  Questions questions;
  declare_common(command, common, questions);
  return command;
}

Command common_table() {
  struct Nothing final : Tool::Runner {
    void declare(Command&) override {}
    Result<Verdict> run(Out&) override { return Verdict::kDone; }
  } nothing;
  return table_of(nothing);
}

std::string synopsis(const Tool& tool, const Tool::Entry& entry, const Command& command) {
  std::vector<std::string> parts{command_name(tool, entry)};
  std::set<std::string> grouped;
  for (const Command::Group& group : command.groups()) grouped.insert(group.names.begin(), group.names.end());
  const auto add = [&](bool positional, Need need) {
    for (const OptionRow& row : command.rows()) {
      if (row.common || row.positional() != positional || row.need != need || grouped.count(row.title()) > 0)
        continue;
      parts.push_back(need == Need::kRequired ? form_text(row) : fmt::format("[{}]", form_text(row)));
    }
  };
  add(true, Need::kRequired);
  add(true, Need::kOptional);
  add(false, Need::kRequired);
  for (const Command::Group& group : command.groups()) parts.push_back(group_text(command, group));
  add(false, Need::kOptional);
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string help_text(const Tool& tool, const Tool::Entry* entry) {
  const bool whole = entry == nullptr || (entry->name.empty() && tool.commands().size() > 1);
  if (entry == nullptr) entry = &tool.commands().front();
  const auto runner = entry->make();
  const Command command = table_of(*runner);
  std::string out =
      whole ? fmt::format("{}\n\n{}", wrapped(tool.name() + ": " + tool.summary(), 0), usage_lines(tool))
            : fmt::format("{}\n\n  {}\n", wrapped(command_name(tool, *entry) + ": " + entry->summary, 0),
                          wrapped(synopsis(tool, *entry, command), 6));
  const bool own = !whole || entry->name.empty();
  if (own && !option_lines(command, false).empty()) out += "\n" + option_lines(command, false);
  if (own && !command.text().empty()) out += fmt::format("\n{}\n", wrapped(command.text(), 0));
  if (whole && !own) out += fmt::format("\n{} COMMAND --help describes one command.\n", tool.name());
  out += "\nOptions of every program:\n" + option_lines(command, true);
  return out + fmt::format("\n{}\nSee man {}.\n", wrapped(kExitCodes, 0), tool.name());
}

}  // namespace dgx::cli
