#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

// The tables that a run's folder keeps for people (dgx-train(1), WATCHING): text, with a header and one row
// per logged step. A row is a list of cells, each a number or empty.

/// The file name and the columns of a table. Column 0 is the step, column 2 the loss.
struct LogFormat {
  std::string_view name;
  std::string_view header;

  [[nodiscard]] std::string path(const std::string& run) const { return run + "/" + std::string(name); }
};
inline constexpr LogFormat kTrainingFormat{
    "log.csv", "step,epoch,loss,learning_rate,gradient_norm,seconds,samples_per_second"};
inline constexpr LogFormat kValidationFormat{"validation.csv",
                                             "step,epoch,loss,accuracy,top5,perplexity,seconds"};
/// Columns that both tables have.
inline constexpr std::size_t kStepColumn = 0;
inline constexpr std::size_t kLossColumn = 2;

/// The cells of a row; an empty cell is a NaN.
using LogRow = std::span<const double>;

/// The row of RUN/validation.csv with the lowest loss; of equal ones the first.
struct BestRow {
  std::int64_t step = 0;  ///< 0: there is none
  double loss = std::numeric_limits<double>::infinity();

  void take(LogRow row) {
    if (row[kLossColumn] < loss) *this = {static_cast<std::int64_t>(row[kStepColumn]), row[kLossColumn]};
  }
};

/// The state with the lowest validation loss: RUN/best.h5.
[[nodiscard]] inline std::string best_path(const std::string& run) { return run + "/best.h5"; }

/// Passes the rows to `take`, in order, until it returns false. Returns the size in bytes of the header and
/// of the rows taken. A last line without a newline was left by a killed writer and is not passed.
/// kMalformed, naming the line, for another header, another number of cells, a cell that is not a number, or
/// a step that is not whole or not above the one before; and for a line of more than 4 KiB.
[[nodiscard]] Result<std::size_t> read_log_rows(std::string_view text, const LogFormat& format,
                                                const std::function<bool(LogRow)>& take);

/// read_log_rows() of RUN/log.csv or RUN/validation.csv; no rows if there is no such file. It is read in
/// pieces, whatever its size. Also kMalformed if it is not a regular file, and kIo.
[[nodiscard]] Result<std::size_t> read_log(const std::string& run, const LogFormat& format,
                                           const std::function<bool(LogRow)>& take);

/// Builds one line of a table, newline included. Numbers are the shortest decimals that read back the same.
class LogLine {
 public:
  explicit LogLine(std::int64_t step);
  LogLine& add(double number);
  LogLine& add(float number);
  LogLine& add(const std::optional<double>& number);
  [[nodiscard]] std::string take() { return std::move(text_ += '\n'); }

 private:
  std::string text_;
};

/// Writes a table of the run that this process trains. The first flush() with a line to write changes the
/// file, so a call that takes no step leaves it alone.
class RunLog {
 public:
  /// Reads the run's table, if there is one, and passes its rows to `keep`, in order. The first row that it
  /// refuses and all after it will be cut off, and so will a torn last line. Errors of read_log().
  [[nodiscard]] static Result<RunLog> open(const std::string& run, const LogFormat& format,
                                           const std::function<bool(LogRow)>& keep);
  /// Adds a line, which is written by the next flush().
  void add(std::string line) { waiting_ += line; }
  /// The size of what flush() would write.
  [[nodiscard]] std::size_t waiting_bytes() const { return waiting_.size(); }
  /// Errors of GrowingFile.
  [[nodiscard]] Status flush();

 private:
  RunLog(std::string path, std::string_view header, std::size_t kept_bytes)
      : path_(std::move(path)), header_(header), kept_bytes_(kept_bytes) {}

  std::string path_;
  std::string_view header_;
  std::size_t kept_bytes_;
  std::optional<GrowingFile> file_;
  std::string waiting_;
};

}  // namespace dgx::jobs
