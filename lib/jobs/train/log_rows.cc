#include "train/log_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "dgx/core/bulk.h"

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

/// Reads the rows of a table that comes in pieces; see read_log_rows().
class RowReader {
 public:
  RowReader(const LogFormat& format, const std::function<bool(LogRow)>& take)
      : header_(format.header),
        take_(take),
        row_(static_cast<std::size_t>(std::count(header_.begin(), header_.end(), ',')) + 1) {}

  /// Reads on; false if no more rows are wanted.
  Result<bool> read(std::string_view piece) {
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      line_ += piece.substr(0, end);
      DGX_TRY(const bool more, take_line());
      if (!more) return false;
      taken_bytes_ += line_.size() + 1;
      line_.clear();
      piece.remove_prefix(end + 1);
    }
    line_ += piece;
    if (line_.size() > kMaxLineBytes) return bad_line(number_, "is too long");
    return true;
  }

  /// The size of the header and of the rows taken, at the end of the table.
  [[nodiscard]] Result<std::size_t> finish() const {
    if (number_ == 1 && !header_.starts_with(line_)) return not_the_header();
    return taken_bytes_;
  }

 private:
  static constexpr std::size_t kMaxLineBytes = 4096;

  [[nodiscard]] Error not_the_header() const { return bad_line(1, fmt::format("is not \"{}\"", header_)); }

  Result<bool> take_line() {
    const std::size_t number = number_++;
    if (number == 1) {
      if (line_ != header_) return not_the_header();
      return true;
    }
    if (!parse_line(line_, row_))
      return bad_line(number, fmt::format("is not a row of {} numbers", row_.size()));
    if (!ascends(step_, row_[kStepColumn])) return bad_line(number, "its step is not above the one before");
    step_ = row_[kStepColumn];
    return take_(row_);
  }

  std::string_view header_;
  const std::function<bool(LogRow)>& take_;
  std::vector<double> row_;
  double step_ = 0;
  std::size_t number_ = 1;  // of the line that line_ holds, as far as it was read
  std::string line_;
  std::size_t taken_bytes_ = 0;
};

}  // namespace

Result<std::size_t> read_log_rows(std::string_view text, const LogFormat& format,
                                  const std::function<bool(LogRow)>& take) {
  RowReader reader(format, take);
  DGX_CHECK(reader.read(text));
  return reader.finish();
}

Result<std::size_t> read_log(const std::string& run, const LogFormat& format,
                             const std::function<bool(LogRow)>& take) {
  const std::string path = format.path(run);
  if (!exists(path)) return std::size_t{0};
  std::error_code unknown;
  // A stranger may have put a pipe there, which is never written to.
  if (!std::filesystem::is_regular_file(path, unknown))
    return malformed(path + ": is not a regular file", kMend);
  constexpr std::uint64_t kAnySize = std::numeric_limits<std::int64_t>::max();
  constexpr std::uint64_t kStaysInFile = std::uint64_t{1} << 20;
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kAnySize, kStaysInFile));
  RowReader reader(format, take);
  std::string piece;
  bool more = true;
  Status read = for_each_piece(file.bytes().size(), [&](std::uint64_t begin, std::uint64_t size) -> Status {
    if (!more) return {};
    piece.resize(size);
    DGX_CHECK(copy_bytes(file.view(), begin, {reinterpret_cast<std::uint8_t*>(piece.data()), size}));
    DGX_TRY(more, reader.read(piece));
    return {};
  });
  if (!read.ok()) return within(path, std::move(read).error());
  Result<std::size_t> bytes = reader.finish();
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
