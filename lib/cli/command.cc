#include "dgx/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>

#include "dgx/core/time_text.h"

namespace dgx::cli {
namespace {

template <class T>
Status parse_number(const std::string& text, T& out, std::string_view expected) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc::result_out_of_range) return usage_error(fmt::format("'{}' is out of range", text));
  if (error != std::errc() || stopped != end)
    return usage_error(fmt::format("'{}' is not {}", text, expected));
  return {};
}

/// parse_value() of every item between commas.
template <class T>
Status parse_list(const std::string& text, std::vector<T>& out) {
  out.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    DGX_CHECK(parse_value(text.substr(begin, end - begin), out.emplace_back()));
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> out;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    out.emplace_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return out;
}

}  // namespace

bool OptionRow::takes_file() const {
  if (!choices.empty() || form == Form::kFlag) return false;
  const auto has = [&](std::string_view part) { return value_name.find(part) != std::string::npos; };
  return has("FILE") || has("DIR") || has("RUN") || has(".") || value_name == "-";
}

Status parse_value(const std::string& text, std::string& out) {
  out = text;
  return {};
}

Status parse_value(const std::string& text, std::int64_t& out) {
  return parse_number(text, out, "a whole number");
}

Status parse_value(const std::string& text, int& out) { return parse_number(text, out, "a whole number"); }

Status parse_value(const std::string& text, std::uint64_t& out) {
  return parse_number(text, out, "a whole number of at least 0");
}

Status parse_value(const std::string& text, double& out) {
  DGX_CHECK(parse_number(text, out, "a number"));
  if (!std::isfinite(out)) return usage_error(fmt::format("'{}' is not a finite number", text));
  return {};
}

Status parse_value(const std::string& text, std::chrono::seconds& out) {
  DGX_TRY(out, parse_duration(text));
  return {};
}

Status parse_value(const std::string& text, std::vector<std::int64_t>& out) { return parse_list(text, out); }

Status parse_value(const std::string& text, std::vector<double>& out) { return parse_list(text, out); }

OptionRow& Command::add(std::string_view names, std::string value_name, std::string help) {
  OptionRow row;
  row.names = split_names(names);
  row.value_name = std::move(value_name);
  row.help = std::move(help);
  for (const std::string& name : row.names) assert(find(name) == nullptr && "an option is declared twice");
  return rows_.emplace_back(std::move(row));
}

Command& Command::flag(std::string_view names, bool& value, std::string help) {
  add(names, {}, std::move(help)).store = [&value](const std::vector<std::string>&) -> Status {
    value = true;
    return {};
  };
  return *this;
}

Command& Command::suggest(std::vector<std::string> words) {
  rows_.back().suggestions = std::move(words);
  return *this;
}

Command& Command::output(std::string& path, std::string value_name, Need need, std::string help) {
  const std::string default_text = path;
  add_value("--output,-o", std::move(value_name), path, std::move(help));
  OptionRow& row = rows_.back();
  row.need = need;
  row.writes = true;
  row.default_text = need == Need::kRequired ? "" : default_text == "-" ? "standard output" : default_text;
  return *this;
}

Command& Command::key(std::string& path, std::optional<std::string>& passphrase_file, Need need) {
  const bool required = need == Need::kRequired;
  add_value("--key", "KEY.pem", path,
            required ? "private key to sign with; else DGX_KEY" : "private key to sign with")
      .need = need;
  rows_.back().default_text.clear();
  if (required) rows_.back().variable = "DGX_KEY";
  may_be_key(path);
  option("--passphrase-file", "FILE", passphrase_file, "file whose first line is the key's passphrase");
  return only_with({"--passphrase-file"}, {"--key"});
}

Command& Command::may_be_key(const std::string& path) {
  keys_.push_back(&path);
  return *this;
}

Command& Command::wait(LockWait& wait) {
  add("--wait", "TIME",
      "wait while another process is writing here, such as 30s or 1h30m; without a time, as long as it takes")
      .store = [&wait](const std::vector<std::string>& texts) -> Status {
    constexpr auto kForever = std::chrono::hours(24 * 365 * 100);
    std::chrono::seconds most = kForever;
    if (texts.back() != kGiven) DGX_CHECK(parse_value(texts.back(), most));
    wait.most = most;
    return {};
  };
  return *this;
}

Command& Command::skip_existing(bool& value) {
  flag("--skip-existing", value,
       "if the output is there already and is what this call would make, say so and do nothing");
  return at_most_one({"--skip-existing", "--force"});
}

Command& Command::isa(std::optional<std::string>& name) {
  return choice("--isa", {"scalar", "avx2", "avx512", "neon"}, name,
                "compute with this instruction set instead of the best one; the results are the same");
}

Command& Command::parts(std::int64_t& count) {
  return option("--parts", "M", count, "cut each batch into M parts, made one after another: less memory");
}

Command& Command::writes(const std::vector<std::string>& names) {
  for (OptionRow& row : rows_)
    row.writes = row.writes || std::find(names.begin(), names.end(), row.title()) != names.end();
  return *this;
}

Command& Command::exactly_one(std::vector<std::string> names) {
  groups_.push_back({std::move(names), Need::kRequired, {}});
  return *this;
}

Command& Command::at_most_one(std::vector<std::string> names) {
  groups_.push_back({std::move(names), Need::kOptional, {}});
  return *this;
}

Command& Command::required_when(std::string_view title, std::function<bool()> condition) {
  for (Group& group : groups_) {
    if (group.names.front() != title) continue;
    group.need = Need::kOptional;
    group.required_when = std::move(condition);
    return *this;
  }
  for (OptionRow& row : rows_) {
    if (row.title() != title) continue;
    row.need = Need::kOptional;
    row.required_when = std::move(condition);
    return *this;
  }
  assert(false && "no option of that name");
  return *this;
}

Command& Command::only_with(std::vector<std::string> options, std::vector<std::string> modes) {
  rules_.push_back({std::move(options), std::move(modes), true});
  return *this;
}

Command& Command::not_with(std::vector<std::string> options, std::vector<std::string> modes) {
  rules_.push_back({std::move(options), std::move(modes), false});
  return *this;
}

Command& Command::about(std::string text) {
  text_ = std::move(text);
  return *this;
}

const OptionRow* Command::find(std::string_view name) const {
  for (const OptionRow& row : rows_) {
    if (row.positional() ? row.value_name == name
                         : std::find(row.names.begin(), row.names.end(), name) != row.names.end())
      return &row;
  }
  return nullptr;
}

std::string Command::joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, "|"));
}

std::string Command::show(double value) { return fmt::format("{}", value); }

std::string Command::show(const std::vector<std::int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

std::string Command::show(const std::vector<double>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

}  // namespace dgx::cli
