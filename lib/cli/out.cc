#include "dgx/cli/out.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "dgx/cli/command.h"
#include "dgx/cli/signals.h"
#include "progress_bar.h"
#include "text_form.h"

namespace dgx::cli {
namespace {

enum class WriteEnd { kDone, kReaderGone, kFailed };

WriteEnd write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;  // a device that takes nothing may do so for ever
    if (written <= 0) return errno == EPIPE ? WriteEnd::kReaderGone : WriteEnd::kFailed;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return WriteEnd::kDone;
}

/// True if standard error is a terminal that obeys escape sequences.
bool on_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

bool colored(const Common& common) {
  if (common.color != "auto") return common.color == "always";
  const char* const no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && on_terminal();
}

/// True if the environment names a UTF-8 locale, by the precedence of setlocale(3). That function itself
/// knows only the locales that are installed.
bool asks_for_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale(value);
    for (char& c : locale) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

/// $COLUMNS, if it is a width.
std::optional<int> asked_columns() {
  const char* const text = std::getenv("COLUMNS");
  int columns = 0;
  if (text == nullptr || !parse_value(text, columns).ok() || columns < 1) return std::nullopt;
  return columns;
}

std::string spaced(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

}  // namespace

Cell::Cell(bool yes) : value(yes), text(yes ? "yes" : "no") {}
Cell::Cell(double number) : value(number), text(fmt::format("{}", number)) {}
Cell::Cell(const Digest& digest) : value(digest.hex()), text(digest.hex()) {}
Cell::Cell(std::string words) : value(words), text(std::move(words)) {}

Cell Cell::of_unsigned(std::uint64_t number) {
  const std::string text = std::to_string(number);
  const bool is_signed = number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return {is_signed ? json::Output(static_cast<std::int64_t>(number)) : json::Output(text), text};
}

Out::Out(std::string program, Common common) : program_(std::move(program)), common_(std::move(common)) {
  using Form = ProgressBar::Form;
  const Form form = common_.quiet ? Form::kNothing : on_terminal() ? Form::kBar : Form::kLines;
  progress_ = std::make_unique<ProgressBar>(
      form, where_requests(), [this](std::string_view text) { talk("note", text); },
      [this](std::string_view text) { note(text); }, [this](std::string_view text) { warning(text); });
}

Out::~Out() = default;

void Out::field(std::string_view name, Cell cell) {
  const std::int64_t* const number = cell.value.as_int();
  const bool is_plain = number != nullptr && cell.text == std::to_string(*number);
  entries_.push_back(
      {spaced(name), is_plain ? with_time(name, *number) : with_decimal(printable(named(cell.text))), false});
  object_.insert_or_assign(std::string(name), std::move(cell.value));
}

void Out::field(std::string_view name, Table table) {
  json::Output::Array rows;
  for (auto& row : table.rows) {
    assert(row.size() == table.columns.size());
    json::Output::Object object;
    for (std::size_t i = 0; i < row.size(); ++i) object.insert_or_assign(table.columns[i], row[i].value);
    rows.emplace_back(std::move(object));
  }
  object_.insert_or_assign(std::string(name), std::move(rows));
  if (table.rows.empty()) return none(name);
  for (auto& row : table.rows) {
    for (Cell& cell : row) {
      if (const auto known = names_.find(cell.text); known != names_.end()) {
        cell.text = known->second;
      } else if (digest_from_hex(cell.text).ok()) {
        cell.text.resize(12);
      }
    }
  }
  for (std::string& column : table.columns) column = spaced(column);
  entries_.push_back({spaced(name), table_text(table, 2), true});
}

void Out::json_field(std::string_view name, json::Output value) {
  const json::Output::Array* const array = value.as_array();
  const bool rows =
      array != nullptr && std::any_of(array->begin(), array->end(), [](const json::Output& item) {
        return item.as_object() != nullptr || item.as_array() != nullptr;
      });
  const bool block = rows || (value.as_object() != nullptr && !value.as_object()->empty());
  const json::Output told = named(value);
  entries_.push_back({spaced(name), block ? block_text(told, 2) : scalar_text(told), block});
  object_.insert_or_assign(std::string(name), std::move(value));
}

std::string Out::named(const std::string& text) const {
  const auto known = names_.find(text);
  return known == names_.end() ? text : fmt::format("{} ({})", known->second, text);
}

json::Output Out::named(const json::Output& value) const {
  if (names_.empty()) return value;
  if (const std::string* const text = value.as_string()) return named(*text);
  if (const json::Output::Array* const array = value.as_array()) {
    json::Output::Array out;
    for (const json::Output& item : *array) out.push_back(named(item));
    return out;
  }
  if (const json::Output::Object* const object = value.as_object()) {
    json::Output::Object out;
    for (const auto& [key, item] : *object) out.emplace(named(key), named(item));
    return out;
  }
  return value;
}

void Out::none(std::string_view name) { entries_.push_back({spaced(name), "none", false}); }

void Out::line(std::string_view text) { entries_.push_back({"", printable(text, Newlines::kKeep), false}); }

void Out::raw(std::string_view content) { write(content); }

Result<Output> Out::claim(const std::string& path) const { return Output::claim(path, clobber()); }

Status Out::output(Output& claimed, std::string_view content) {
  if (claimed.path() != "-") return claimed.write(content);
  raw(content);
  return {};
}

void Out::next() {
  progress_->finish();
  if (common_.json) {
    if (!object_.empty()) write(json::Output(std::exchange(object_, {})).dump() + "\n");
    entries_.clear();
    return;
  }
  if (common_.quiet) entries_.clear();
  std::size_t widest = 0;
  for (const Entry& entry : entries_) {
    if (!entry.block) widest = std::max(widest, entry.name.size());
  }
  std::string text = first_ || entries_.empty() ? "" : "\n";
  for (const Entry& entry : entries_) {
    if (entry.name.empty()) {
      text += entry.text + "\n";
    } else if (entry.block) {
      text += fmt::format("{}:\n{}", entry.name, entry.text);
    } else {
      text += fmt::format("{:<{}}  {}\n", entry.name + ":", widest + 1, entry.text);
    }
  }
  if (!entries_.empty()) first_ = false;
  write(text);
  entries_.clear();
  object_.clear();
}

void Out::write(std::string_view text) {
  if (failure_ || text.empty()) return;
  if (write_all(STDOUT_FILENO, text) == WriteEnd::kFailed) {
    failure_ = errno_error("standard output", "write");
    failure_->code = ErrorCode::kIo;
  }
}

void Out::talk(std::string_view kind, std::string_view text, json::Output::Object more) {
  if (common_.json) {
    more.emplace("program", program_);
    more.emplace(kind, printable(text));
    write_all(STDERR_FILENO, json::Output(std::move(more)).dump() + "\n");
    return;
  }
  const bool plain = kind == "note";
  const bool color = colored(common_) && !plain;
  const std::string_view start = !color ? "" : kind == "error" ? "\x1b[1;31m" : "\x1b[1;33m";
  const std::string word = plain ? "" : fmt::format("{}{}:{} ", start, kind, color ? "\x1b[0m" : "");
  write_all(STDERR_FILENO, fmt::format("{}: {}{}\n", program_, word, printable(text)));
}

void Out::note(std::string_view text) {
  if (!common_.quiet) talk("note", text);
}

void Out::detail(std::string_view text, int level) {
  if (common_.verbosity >= level) note(text);
}

void Out::warning(std::string_view text) {
  if (!common_.quiet) talk("warning", text);
}

void Out::error(const Error& error) {
  progress_->finish();
  json::Output::Object more{{"code", exit_code(error.code)}};
  if (!error.hint.empty()) more.emplace("hint", printable(error.hint));
  talk("error", error.message, std::move(more));
  if (!error.hint.empty() && !common_.json)
    write_all(STDERR_FILENO, fmt::format("hint: {}\n", printable(error.hint)));
}

Progress& Out::progress() { return *progress_; }

Out::Screen Out::screen(int otherwise) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {asked_columns().value_or(known ? size.ws_col : otherwise), asks_for_utf8()};
}

JobContext Out::context(const StopFlag& stop) {
  return {.threads = common_.threads,
          .clobber = clobber(),
          .trust = common_.trust,
          .progress = *progress_,
          .stop = stop};
}

JobContext Out::job() { return context(watch_signals()); }

JobContext Out::brief_job() {
  static const StopFlag never;
  return context(never);
}

Status Out::flush() {
  next();
  if (failure_) return *failure_;
  return {};
}

}  // namespace dgx::cli
