#include "train/log_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

namespace dgx::jobs {
namespace {

constexpr double kMaxStep = 0x1p53;

/// Parses a cell. An empty one is a NaN.
bool parse_cell(std::string_view text, double& out) {
  out = std::numeric_limits<double>::quiet_NaN();
  if (text.empty()) return true;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stopped == end;
}

/// Parses the cells of a line into `row`, which has one item per column.
bool parse_line(std::string_view line, std::vector<double>& row) {
  for (std::size_t column = 0; column < row.size(); ++column) {
    const std::size_t comma = line.find(',');
    const bool last = column + 1 == row.size();
    if ((comma == std::string_view::npos) != last || !parse_cell(line.substr(0, comma), row[column]))
      return false;
    line.remove_prefix(last ? line.size() : comma + 1);
  }
  return true;
}

/// True if a row's step is a whole number above the one before.
bool ascends(double before, double step) {
  return step > before && step <= kMaxStep && step == std::floor(step);
}

constexpr auto kMend = "move it away; dgx-train writes a new one";

Error bad_line(std::size_t number, std::string_view what) {
  return malformed(fmt::format("line {}: {}", number, what), kMend);
}

}  // namespace

Result<std::size_t> read_log_rows(std::string_view text, const LogFormat& format,
                                  const std::function<bool(LogRow)>& take) {
  const std::size_t first = text.find('\n');
  if (first == std::string_view::npos && format.header.starts_with(text)) return std::size_t{0};
  if (text.substr(0, first) != format.header) return bad_line(1, fmt::format("is not \"{}\"", format.header));
  std::vector<double> row(
      static_cast<std::size_t>(std::count(format.header.begin(), format.header.end(), ',')) + 1);
  std::size_t at = first + 1;
  double step = 0;
  for (std::size_t number = 2;; ++number) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return at;
    if (!parse_line(text.substr(at, end - at), row))
      return bad_line(number, fmt::format("is not a row of {} numbers", row.size()));
    if (!ascends(step, row[kStepColumn])) return bad_line(number, "its step is not above the one before");
    step = row[kStepColumn];
    if (!take(row)) return at;
    at = end + 1;
  }
}

Result<std::size_t> read_log(const std::string& run, const LogFormat& format,
                             const std::function<bool(LogRow)>& take) {
  const std::string path = format.path(run);
  if (!exists(path)) return std::size_t{0};
  std::error_code unknown;
  // A stranger may have put a pipe there, which is never written to.
  if (!std::filesystem::is_regular_file(path, unknown))
    return malformed(path + ": is not a regular file", kMend);
  DGX_TRY(const std::string text, read_file(path, kMaxLogBytes));
  Result<std::size_t> bytes = read_log_rows(text, format, take);
  if (!bytes.ok()) return within(path, std::move(bytes).error());
  return bytes;
}

LogLine::LogLine(std::int64_t step) {
  text_.reserve(96);
  text_ += std::to_string(step);
}

LogLine& LogLine::add(double number) {
  fmt::format_to(std::back_inserter(text_), ",{}", number);
  return *this;
}

LogLine& LogLine::add(float number) {
  fmt::format_to(std::back_inserter(text_), ",{}", number);
  return *this;
}

LogLine& LogLine::add(const std::optional<double>& number) {
  if (number) return add(*number);
  text_ += ',';
  return *this;
}

Result<RunLog> RunLog::open(const std::string& run, const LogFormat& format,
                            const std::function<bool(LogRow)>& keep) {
  DGX_TRY(const std::size_t bytes, read_log(run, format, keep));
  return RunLog(format.path(run), format.header, bytes);
}

Status RunLog::flush() {
  if (waiting_.empty()) return {};
  if (!file_) {
    DGX_TRY(GrowingFile file, GrowingFile::open(path_, kept_bytes_));
    file_.emplace(std::move(file));
    if (kept_bytes_ == 0) waiting_.insert(0, std::string(header_) + "\n");
  }
  Status written = file_->append(waiting_);
  waiting_.clear();
  return written;
}

}  // namespace dgx::jobs
