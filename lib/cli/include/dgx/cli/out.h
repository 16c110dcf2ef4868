#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/job_context.h"
#include "dgx/core/json_output.h"
#include "dgx/core/result.h"

namespace dgx::cli {

/// The options that every program takes.
struct Common {
  bool json = false;
  bool quiet = false;
  int verbosity = 0;  ///< number of -v
  int threads = 1;
  bool force = false;
  std::string color = "auto";  ///< auto, always, never
  std::optional<std::string> trust;
};

/// One printed value: as JSON, and as the text that people read.
struct Cell {
  json::Output value;
  std::string text;

  template <std::signed_integral T>
  Cell(T number)  // NOLINT: implicit by design, as below
      : Cell(json::Output(static_cast<std::int64_t>(number)), std::to_string(number)) {}
  template <std::unsigned_integral T>
  Cell(T number) : Cell(of_unsigned(number)) {}               // NOLINT
  Cell(bool yes);                                             // NOLINT
  Cell(double number);                                        // NOLINT
  Cell(const Digest& digest);                                 // NOLINT
  Cell(std::string words);                                    // NOLINT
  Cell(std::string_view words) : Cell(std::string(words)) {}  // NOLINT
  Cell(const char* words) : Cell(std::string(words)) {}       // NOLINT
  /// A value that reads differently in text ("1.3 GB" for a number of bytes).
  Cell(json::Output json_value, std::string words) : value(std::move(json_value)), text(std::move(words)) {}

 private:
  static Cell of_unsigned(std::uint64_t number);
};

/// Rows of equal length. In JSON an array of objects with the columns as keys; in text aligned columns, with
/// digests cut to twelve digits.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};
};

/// All output of a program. Results go to standard output, as `name: value` lines or, with --json, as one
/// JSON object a line (json::Output); messages go to standard error only, as text or, with --json, as one
/// object a line: {"error", "code", "hint"}, {"warning"} or {"note"}, each with "program".
///
/// A result is gathered and printed at its end (the program's, or next()), so that text can be aligned, and a
/// program that fails prints no partial result.
class Out {
 public:
  Out(std::string program, Common common);
  ~Out();

  /// From now on text calls each of these keys, by their ids in hex, by its name: in tables the name alone
  /// stands for it, elsewhere before the id. JSON has the ids.
  void name_keys(std::map<std::string, std::string> names) { names_ = std::move(names); }

  /// One named value of the result. Text shows underscores in the name as spaces.
  void field(std::string_view name, Cell cell);
  void field(std::string_view name, Table table);
  /// JSON arrays and objects, nested at will; text indents them.
  template <class T>
  requires std::same_as<T, json::Output> || std::same_as<T, json::Output::Array> ||
      std::same_as<T, json::Output::Object> || std::same_as<T, json::Value> || std::same_as<T, json::Array> ||
      std::same_as<T, json::Object>
  void field(std::string_view name, T value) { json_field(name, json::Output(std::move(value))); }
  /// An optional value; if empty, absent in JSON and "none" in text.
  template <class T>
  void field(std::string_view name, const std::optional<T>& value) {
    value ? field(name, *value) : none(name);
  }
  /// One named value in JSON only: a number that text says in words.
  void data(std::string_view name, Cell cell) {
    object_.insert_or_assign(std::string(name), std::move(cell.value));
  }
  /// A line of prose, in text only.
  void line(std::string_view text);
  /// Prints exactly these bytes, in text and in JSON: a file's content, a payload.
  void raw(std::string_view content);
  /// Claims an output before the work that it is for. A file is replaced only with --force.
  [[nodiscard]] Result<Output> claim(const std::string& path) const;
  /// Writes a claimed output: "-" as raw() does.
  [[nodiscard]] Status output(Output& claimed, std::string_view content);
  /// Ends one result and begins the next: for programs that take several files.
  void next();

  /// Notes that --skip-existing left an output as it was.
  void note_skipped(const std::string& path) { note(path + ": is there already, and stays as it is"); }
  /// Messages: a note (silenced by -q), a detail (with -v; level 2 with -vv), a warning.
  void note(std::string_view text);
  void detail(std::string_view text, int level = 1);
  void warning(std::string_view text);
  /// Prints `dgx-x: error: …` and a `hint: …` line, or one object.
  void error(const Error& error);

  [[nodiscard]] const Common& common() const { return common_; }
  [[nodiscard]] Clobber clobber() const { return common_.force ? Clobber::kForce : Clobber::kRefuse; }
  /// The screen behind standard output: its columns, which are $COLUMNS if that is set, else the terminal's
  /// or, without one, `otherwise`; and whether the locale is UTF-8.
  struct Screen {
    int columns = 80;
    bool unicode = false;
  };
  [[nodiscard]] static Screen screen(int otherwise = 80);
  /// A bar with rate and remaining time on a terminal, lines elsewhere, nothing with -q. Its notes and
  /// warnings are note() and warning().
  [[nodiscard]] Progress& progress();
  /// The context of a job that polls the stop flag. From here on SIGTERM, SIGINT and SIGUSR1 only set that
  /// flag (signals.h), so call this only where the job polls it. SIGUSR2 prints where the job is.
  [[nodiscard]] JobContext job();
  /// The context of a job that does not poll the flag: signals keep ending the process.
  [[nodiscard]] JobContext brief_job();

  /// Prints what was gathered. kIo if standard output cannot be written; a reader that went away (`| head`)
  /// is no error.
  [[nodiscard]] Status flush();

 private:
  struct Entry {
    std::string name;  ///< empty: a line of prose
    std::string text;
    bool block = false;  ///< text is lines of its own, printed below the name
  };
  void json_field(std::string_view name, json::Output value);
  /// A text, or each text and key inside a value, with the names of the keys that they are.
  [[nodiscard]] std::string named(const std::string& text) const;
  [[nodiscard]] json::Output named(const json::Output& value) const;
  void none(std::string_view name);
  /// A message of a kind, "error", "warning" or "note", and what else its object has.
  void talk(std::string_view kind, std::string_view text, json::Output::Object more = {});
  void write(std::string_view text);
  [[nodiscard]] JobContext context(const StopFlag& stop);

  std::string program_;
  Common common_;
  std::map<std::string, std::string> names_;  ///< by key id
  std::vector<Entry> entries_;
  json::Output::Object object_;
  bool first_ = true;
  std::optional<Error> failure_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace dgx::cli
