#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "class_names.h"
#include "dgx/bundle/format.h"
#include "dgx/bundle/pack_sources.h"
#include "dgx/core/checked.h"
#include "inflate.h"
#include "table_text.h"

// A table is read twice: first to count the samples and to find out whether the labels are integers, numbers
// or words, then to convert. So a large one needs no more memory than a small one.
namespace dgx::bundle {
namespace {

constexpr std::int64_t kMostInteger = std::int64_t{1} << 53;
constexpr std::size_t kMaxListed = 200;  // characters of names in a hint

/// The columns of a table by place, from 0.
struct Columns {
  std::vector<std::string> names;  ///< empty without a header
  std::size_t count = 0;
  std::size_t label = 0;
  std::vector<std::size_t> x;

  /// "line 3, column 2 (age)"
  [[nodiscard]] std::string place(std::uint64_t line, std::size_t column) const {
    const std::string name = names.empty() ? "" : fmt::format(" ({})", names[column]);
    return fmt::format("line {}, column {}{}", line, column + 1, name);
  }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The error of a field: `problem` continues the sentence that its text begins.
Error bad_field(std::string_view text, std::string_view problem) {
  constexpr std::size_t kMost = 40;
  if (trimmed(text).empty()) return malformed("is missing");
  std::size_t end = std::min(kMost, text.size());
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80)
    --end;  // not within a character of UTF-8
  return malformed(fmt::format("\"{}{}\" {}", text.substr(0, end), end < text.size() ? "…" : "", problem));
}

/// from_chars() of the whole text, which may begin with a plus sign.
template <class T>
std::errc parse_whole(std::string_view text, T& out) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

/// True for text that is written as a number of this type, whether or not it is in range and finite.
template <class T>
bool is_written_as(std::string_view text) {
  T ignored = 0;
  return parse_whole(trimmed(text), ignored) != std::errc::invalid_argument;
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const std::errc error = parse_whole(trimmed(text), value);
  if (error == std::errc::invalid_argument) return bad_field(text, "is not a whole number");
  if (error != std::errc() || value < -kMostInteger || value > kMostInteger)
    return bad_field(text, "is beyond 2^53");
  return value;
}

/// The nearest binary32. A number that is too small for any is 0.
Result<float> parse_float(std::string_view text) {
  float value = 0;
  const std::errc error = parse_whole(trimmed(text), value);
  if (error == std::errc::result_out_of_range) {
    // from_chars() does not say on which side: strtof(), which rounds alike, returns infinity or 0.
    value = std::strtof(std::string(trimmed(text)).c_str(), nullptr);
    if (std::isinf(value)) return bad_field(text, "is too large for f32");
    return value;
  }
  if (error != std::errc()) return bad_field(text, "is not a number");
  if (!std::isfinite(value)) return bad_field(text, "is not finite");
  return value;
}

/// The place of a column that is given by its number, from 1.
std::optional<std::size_t> numbered(const Columns& columns, std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || number < 1 || number > columns.count) return std::nullopt;
  return number - 1;
}

/// The place of a column that is given by name or by number.
Result<std::size_t> column_of(const Columns& columns, std::string_view text) {
  const auto& names = columns.names;
  const auto named = std::find(names.begin(), names.end(), text);
  if (named != names.end()) {
    if (std::find(named + 1, names.end(), text) != names.end())
      return usage_error(fmt::format("two columns are called \"{}\"", text), "give the column's number");
    return static_cast<std::size_t>(named - names.begin());
  }
  if (const auto place = numbered(columns, text)) return *place;
  std::string known;
  for (const std::string& name : names) {
    if (known.size() < kMaxListed) known += (known.empty() ? "" : ", ") + name;
  }
  return usage_error(
      fmt::format("there is no column \"{}\"", text),
      names.empty() ? fmt::format("the table has columns 1 to {}; give --header if its first line has names",
                                  columns.count)
                    : "the table has " + known);
}

/// One item of a list of columns: a name, a number, or a range of numbers.
Status add_columns(std::string_view item, Columns& columns) {
  auto one = column_of(columns, item);
  if (one.ok()) {
    columns.x.push_back(*one);
    return {};
  }
  const std::size_t dash = item.find('-');
  if (dash == std::string_view::npos) return std::move(one).error();
  const auto first = numbered(columns, item.substr(0, dash));
  const auto last = numbered(columns, item.substr(dash + 1));
  if (!first || !last || *first > *last) return std::move(one).error();
  for (std::size_t i = *first; i <= *last; ++i) columns.x.push_back(i);
  return {};
}

Status choose_columns(const TableReading& table, Columns& columns) {
  auto label = column_of(columns, table.label);
  if (!label.ok()) return within("--label", std::move(label).error());
  columns.label = *label;
  if (table.columns.empty()) {
    for (std::size_t i = 0; i < columns.count; ++i) {
      if (i != columns.label) columns.x.push_back(i);
    }
  }
  for (std::string_view rest = table.columns; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    Status added = add_columns(rest.substr(0, comma), columns);
    if (!added.ok()) return within("--columns", std::move(added).error());
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (columns.x.size() > kMaxTableColumns) return usage_error("--columns: too many columns");
  }
  if (columns.x.empty()) return usage_error("the table has no column but the label");
  if (std::find(columns.x.begin(), columns.x.end(), columns.label) != columns.x.end())
    return usage_error("--columns: the label cannot be a column of x as well");
  return {};
}

/// The labels of a column: integers if all of them are written so, else numbers if all are, else words. The
/// first pass shows each to see(); after finish(), the second pass converts them, and refuses a NaN among
/// numbers.
class Labels {
 public:
  explicit Labels(const std::vector<std::string>& classes)
      : are_given_(!classes.empty()), classes_(classes) {}

  /// Looks at a label, before finish().
  Status see(std::string_view text) {
    text = trimmed(text);
    if (text.empty()) return bad_field(text, "");
    if (are_given_) return {};
    are_integers_ = are_integers_ && is_written_as<std::int64_t>(text);
    are_numbers_ = are_numbers_ && is_written_as<float>(text);
    if (!are_numbers_ && text.size() > kMaxNameBytes)
      return bad_field(text, "is too long for the name of a class");
    // A longer number is cut to what finish() needs to refuse it as a name.
    text = text.substr(0, kMaxNameBytes + 1);
    if (words_.size() <= kMaxClasses && !words_.contains(text)) words_.emplace(text);
    if (words_.size() > kMaxClasses && !are_numbers_)
      return malformed(fmt::format("there are more than {} classes", kMaxClasses));
    return {};
  }
  /// Ends the first pass. kMalformed if the words cannot be names of classes.
  Status finish() {
    if (!are_given_ && !are_numbers_) classes_.assign(words_.begin(), words_.end());
    words_.clear();
    return check_classes(classes_);
  }

  [[nodiscard]] DType dtype() const { return classes_.empty() && !are_integers_ ? DType::kF32 : DType::kI64; }
  /// The names of the classes, in the order of their numbers; empty if the labels are numbers.
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }

  Status put(std::string_view text, std::size_t sample, BulkTensor& y) const {
    if (dtype() == DType::kF32) {
      DGX_TRY(y.as<float>()[sample], parse_float(text));
    } else if (classes_.empty()) {
      DGX_TRY(y.as<std::int64_t>()[sample], parse_integer(text));
    } else {
      DGX_TRY(y.as<std::int64_t>()[sample], number_of(text));
    }
    return {};
  }

 private:
  [[nodiscard]] Result<std::int64_t> number_of(std::string_view field) const {
    const std::string_view text = trimmed(field);
    const auto found = are_given_ ? std::find(classes_.begin(), classes_.end(), text)
                                  : std::lower_bound(classes_.begin(), classes_.end(), text);
    if (found == classes_.end() || *found != text) return bad_field(text, "is not one of the classes");
    return found - classes_.begin();
  }

  bool are_given_;
  bool are_integers_ = true;
  bool are_numbers_ = true;
  std::set<std::string, std::less<>> words_;
  std::vector<std::string> classes_;
};

/// Calls take(fields, line, sample) for each line of samples, checking that all have as many fields; returns
/// their count.
template <class Take>
Result<std::size_t> for_each_sample(const BulkTensor& file, const TableReading& table, const Columns& columns,
                                    const Take& take) {
  TableText text(file, table.delimiter);
  std::size_t samples = 0;
  for (bool is_header = table.header;; is_header = false) {
    DGX_TRY(const bool more, text.next());
    if (!more) return samples;
    if (is_header) continue;
    if (text.fields().size() != columns.count) {
      return malformed(fmt::format("line {}: {} fields, the first line has {}", text.line(),
                                   text.fields().size(), columns.count));
    }
    DGX_CHECK(take(text.fields(), text.line(), samples++));
  }
}

Result<Columns> columns_of(const BulkTensor& file, const TableReading& table) {
  TableText text(file, table.delimiter);
  DGX_TRY(const bool more, text.next());
  if (!more) return malformed("has no lines");
  Columns columns;
  columns.count = text.fields().size();
  if (table.header) {
    for (const std::string& name : text.fields()) columns.names.emplace_back(trimmed(name));
  }
  DGX_CHECK(choose_columns(table, columns));
  return columns;
}

Status put_number(std::string_view text, std::size_t at, BulkTensor& x) {
  switch (x.dtype()) {
    case DType::kF32: {
      DGX_TRY(x.as<float>()[at], parse_float(text));
      return {};
    }
    case DType::kI64: {
      DGX_TRY(x.as<std::int64_t>()[at], parse_integer(text));
      return {};
    }
    case DType::kU8: {
      DGX_TRY(const std::int64_t value, parse_integer(text));
      if (value < 0 || value > 255) return bad_field(text, "is not from 0 to 255");
      x.bytes()[at] = static_cast<std::uint8_t>(value);
      return {};
    }
  }
  return internal_error("unknown element type");
}

/// Adds a hint to an error of the first sample: text in place of a number is probably a column's name.
Error with_hint(Error error, std::size_t sample, const TableReading& table) {
  if (sample == 0 && !table.header) error.hint = "give --header if the first line has the columns' names";
  return error;
}

/// The second pass: converts all samples, into tensors of the size that the first pass found.
Status convert(const BulkTensor& file, const TableReading& table, const Columns& columns,
               const Labels& labels, Samples& out) {
  PageReleaser x_pages(out.x.view()), y_pages(out.y.view());
  const std::uint64_t x_bytes = columns.x.size() * size_of(out.x.dtype());
  const auto expected = static_cast<std::size_t>(out.y.count());
  const auto changed = [] { return malformed("changed while it was read"); };
  const auto take = [&](const std::vector<std::string>& fields, std::uint64_t line,
                        std::size_t sample) -> Status {
    if (sample == expected) return changed();
    for (std::size_t i = 0; i < columns.x.size(); ++i) {
      Status put = put_number(fields[columns.x[i]], sample * columns.x.size() + i, out.x);
      if (put.ok()) continue;
      return with_hint(within(columns.place(line, columns.x[i]), std::move(put).error()), sample, table);
    }
    Status put = labels.put(fields[columns.label], sample, out.y);
    if (!put.ok()) return within(columns.place(line, columns.label), std::move(put).error());
    x_pages.passed((sample + 1) * x_bytes);
    y_pages.passed((sample + 1) * size_of(out.y.dtype()));
    return {};
  };
  DGX_TRY(const std::size_t samples, for_each_sample(file, table, columns, take));
  return samples == expected ? Status() : changed();
}

Result<Samples> parse(const BulkTensor& file, const TableReading& table, const Reading& reading) {
  DGX_TRY(const std::string head, copy_head(file.view(), 2));
  if (is_gzip(head)) return malformed("is packed by gzip", "unpack it first");
  DGX_TRY(const Columns columns, columns_of(file, table));
  Labels labels(table.classes);
  const auto see = [&](const std::vector<std::string>& fields, std::uint64_t line, std::size_t) -> Status {
    Status seen = labels.see(fields[columns.label]);
    if (!seen.ok()) return within(columns.place(line, columns.label), std::move(seen).error());
    return {};
  };
  DGX_TRY(const std::size_t samples, for_each_sample(file, table, columns, see));
  if (samples == 0) return malformed("has no samples");
  DGX_CHECK(labels.finish());
  const auto numbers = checked_mul(std::uint64_t{samples}, std::uint64_t{columns.x.size()});
  if (!numbers || *numbers > kMaxTensorBytes / size_of(table.dtype))
    return malformed(fmt::format("{} samples of {} numbers are too many", samples, columns.x.size()));
  const auto rows = static_cast<std::int64_t>(samples);
  Samples out{{}, {}, labels.classes()};
  DGX_TRY(out.x, BulkTensor::create(table.dtype, {rows, static_cast<std::int64_t>(columns.x.size())},
                                    reading.bulk_bytes));
  DGX_TRY(out.y, BulkTensor::create(labels.dtype(), {rows}, reading.bulk_bytes));
  DGX_CHECK(convert(file, table, columns, labels, out));
  return out;
}

}  // namespace

Result<Samples> read_csv(const std::string& path, const TableReading& table, const Reading& reading) {
  DGX_TRY(const BulkTensor file, BulkTensor::open(path, kMaxTensorBytes, reading.bulk_bytes));
  auto samples = parse(file, table, reading);
  if (!samples.ok()) return within(path, std::move(samples).error());
  return samples;
}

}  // namespace dgx::bundle
