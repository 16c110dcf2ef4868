#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/core/result.h"

namespace dgx::cli {

/// An option that must be given, or one that may be left out.
enum class Need { kRequired, kOptional };

/// One row of a command's option table: help, completions and the parser are made from it.
struct OptionRow {
  enum class Form {
    kFlag,        ///< no value; with a value name, one after "=" at will
    kValue,       ///< one value
    kList,        ///< one value or more, and may be repeated
    kPositional,  ///< one value by position
    kRest,        ///< one value or more by position, the last ones
  };
  Form form = Form::kFlag;
  std::vector<std::string> names;  ///< "--out", "-o"; empty for positionals
  std::string value_name;          ///< "FILE", "N", "SAMPLE.h5|RUN", or the choices joined by '|'
  std::string help;
  std::string default_text;          ///< empty: none
  std::vector<std::string> choices;  ///< empty: any value
  /// Values that shells offer, where any other may be given.
  std::vector<std::string> suggestions = {};
  Need need = Need::kOptional;
  bool common = false;  ///< every program has it
  /// If set, the option must be given where this holds; asked once the command line's values are stored.
  std::function<bool()> required_when = {};
  /// The environment variable that stands for the option, if any; where the option is optional but for
  /// required_when, only where that holds.
  std::string variable = {};
  bool writes = false;              ///< its values are files that the command writes
  bool given = false;               ///< set by the parser: on the command line
  bool by_environment = false;      ///< set by the parser: by the variable
  std::vector<std::string> values;  ///< those given, set by the parser
  /// Stores the values given. Its error does not name the option: the caller adds that.
  std::function<Status(const std::vector<std::string>&)> store;

  /// The name in messages: the option's first name, or the positional's value name.
  [[nodiscard]] const std::string& title() const { return names.empty() ? value_name : names.front(); }
  [[nodiscard]] bool positional() const { return form == Form::kPositional || form == Form::kRest; }
  /// True if a shell should complete file names: the value name is "-", or contains FILE, DIR, RUN or a dot.
  [[nodiscard]] bool takes_file() const;
};

/// CLI11's text of a flag that was given without a value.
inline constexpr std::string_view kGiven = "true";

/// Parses text into a value; the error's message says what was expected.
[[nodiscard]] Status parse_value(const std::string& text, std::string& out);
[[nodiscard]] Status parse_value(const std::string& text, std::int64_t& out);
[[nodiscard]] Status parse_value(const std::string& text, int& out);
/// For 64-bit seeds: the whole unsigned range.
[[nodiscard]] Status parse_value(const std::string& text, std::uint64_t& out);
/// Accepts a finite decimal number.
[[nodiscard]] Status parse_value(const std::string& text, double& out);
/// parse_duration() of core/time_text.h: "1h30m", "2d", "90s".
[[nodiscard]] Status parse_value(const std::string& text, std::chrono::seconds& out);
/// Numbers separated by commas, at least one.
[[nodiscard]] Status parse_value(const std::string& text, std::vector<std::int64_t>& out);
[[nodiscard]] Status parse_value(const std::string& text, std::vector<double>& out);

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// The option table of one command, filled by its declare(). Everything is bound to a variable that outlives
/// the parsing. The variable's type determines what is accepted: std::string, std::int64_t, int,
/// std::uint64_t, double, std::chrono::seconds, std::vector of std::int64_t or double, std::optional of those
/// (stays empty when not given), or std::vector<std::string> (one or more values). A variable that is not
/// optional keeps its value when its option is not given, and help shows that value as the default.
class Command {
 public:
  /// An argument by position, in the order declared; required unless std::optional. A vector takes all that
  /// are left and comes last.
  template <class T>
  Command& positional(std::string value_name, T& value, std::string help) {
    OptionRow& row = add_value({}, std::move(value_name), value, std::move(help));
    row.form = row.form == OptionRow::Form::kList ? OptionRow::Form::kRest : OptionRow::Form::kPositional;
    row.need = kIsOptional<T> ? Need::kOptional : Need::kRequired;
    return *this;
  }

  /// An option; `names` is "--out" or "--out,-o".
  template <class T>
  Command& option(std::string_view names, std::string value_name, T& value, std::string help) {
    add_value(names, std::move(value_name), value, std::move(help));
    return *this;
  }

  /// An option that must be given.
  template <class T>
  Command& required(std::string_view names, std::string value_name, T& value, std::string help) {
    OptionRow& row = add_value(names, std::move(value_name), value, std::move(help));
    row.need = Need::kRequired;
    row.default_text.clear();
    return *this;
  }

  Command& flag(std::string_view names, bool& value, std::string help);

  /// An option whose value is one of a few words. T is std::string, std::optional<std::string>, or whatever
  /// parse_value() takes.
  template <class T>
  Command& choice(std::string_view names, std::vector<std::string> words, T& value, std::string help) {
    OptionRow& row = add_value(names, joined(words), value, std::move(help));
    row.choices = std::move(words);
    return *this;
  }

  /// An option with a value after "=" at will: `value` is empty if it is not given, and holds an empty one
  /// if it is given without a value.
  template <class T>
  Command& optional_value(std::string_view names, std::string value_name,
                          std::optional<std::optional<T>>& value, std::string help) {
    add(names, std::move(value_name), std::move(help)).store =
        [&value](const std::vector<std::string>& texts) -> Status {
      value.emplace();
      return texts.back() == kGiven ? Status() : parse_value(texts.back(), value->emplace());
    };
    return *this;
  }

  /// Values that shells offer for the last option declared, which also takes others.
  Command& suggest(std::vector<std::string> words);

  /// -o FILE. With kOptional, `path` keeps its value, usually "-", when the option is not given.
  Command& output(std::string& path, std::string value_name, Need need,
                  std::string help = "file to write the result to");
  /// --key and --passphrase-file. If no key is given, `path` stays empty. The user is warned of a key file
  /// that others can use. DGX_KEY stands for a required key alone, so that it makes no program sign what it
  /// would leave unsigned.
  Command& key(std::string& path, std::optional<std::string>& passphrase_file, Need need = Need::kRequired);
  /// Names a variable that holds the path of what may be a private key: the user is warned if others can use
  /// it.
  Command& may_be_key(const std::string& path);
  /// --wait[=TIME], for programs that lock: without a time they wait as long as it takes.
  Command& wait(LockWait& wait);
  /// --skip-existing, not with --force.
  Command& skip_existing(bool& value);
  /// --isa, for programs that compute.
  Command& isa(std::optional<std::string>& name);
  /// --parts M, for programs that take steps of a task.
  Command& parts(std::int64_t& count);

  /// Says that these options name files that the command writes, as output() does of -o. A file that is also
  /// an input is refused, which --force would otherwise destroy.
  Command& writes(const std::vector<std::string>& names);

  /// Requires exactly one, or at most one, of these options, which must have been declared as not required.
  /// Here and below a positional argument goes by its value name.
  Command& exactly_one(std::vector<std::string> names);
  Command& at_most_one(std::vector<std::string> names);

  /// Refuses these options unless one of `modes` is given, or if one of `modes` is given: those that would
  /// have no effect, which somebody who gives them does not know.
  Command& only_with(std::vector<std::string> options, std::vector<std::string> modes);
  Command& not_with(std::vector<std::string> options, std::vector<std::string> modes);
  /// Requires a row, named by its title, or the group that begins with it, only where `condition` holds. The
  /// row was declared as required, and is optional otherwise.
  Command& required_when(std::string_view title, std::function<bool()> condition);

  /// A paragraph at the end of --help.
  Command& about(std::string text);

  struct Group {
    std::vector<std::string> names;
    Need need = Need::kOptional;
    std::function<bool()> required_when = {};
  };
  /// Options, and the modes without which (`wanted`) or with which they have no effect.
  struct Rule {
    std::vector<std::string> options;
    std::vector<std::string> modes;
    bool wanted = false;
  };
  [[nodiscard]] std::vector<OptionRow>& rows() { return rows_; }
  [[nodiscard]] const std::vector<OptionRow>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The variables that hold paths of private keys.
  [[nodiscard]] const std::vector<const std::string*>& keys() const { return keys_; }
  /// The row with that name, or of the positional argument with that value name; or nullptr.
  [[nodiscard]] const OptionRow* find(std::string_view name) const;

 private:
  static std::string joined(const std::vector<std::string>& words);
  static std::string show(const std::string& value) { return value; }
  static std::string show(double value);
  static std::string show(const std::vector<std::int64_t>& values);
  static std::string show(const std::vector<double>& values);
  template <class T>
  static std::string show(const T& value) {
    return std::to_string(value);
  }

  OptionRow& add(std::string_view names, std::string value_name, std::string help);

  template <class T>
  OptionRow& add_value(std::string_view names, std::string value_name, T& value, std::string help) {
    OptionRow& row = add(names, std::move(value_name), std::move(help));
    row.form = OptionRow::Form::kValue;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      row.form = OptionRow::Form::kList;
      row.store = [&value](const std::vector<std::string>& texts) -> Status {
        return value = texts, Status();
      };
    } else if constexpr (kIsOptional<T>) {
      row.store = [&value](const std::vector<std::string>& texts) {
        return parse_value(texts.front(), value.emplace());
      };
    } else {
      row.default_text = show(value);
      row.store = [&value](const std::vector<std::string>& texts) {
        return parse_value(texts.front(), value);
      };
    }
    return row;
  }

  std::vector<OptionRow> rows_;
  std::vector<Group> groups_;
  std::vector<Rule> rules_;
  std::vector<const std::string*> keys_;
  std::string text_;
};

}  // namespace dgx::cli
