#include "train/log_rows.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "small_task.h"

namespace dgx::jobs {
namespace {

constexpr LogFormat kFormat{"t.csv", "step,epoch,loss"};
const std::string kHeader = "step,epoch,loss\n";

/// The rows up to the first whose step is `end`, which is refused.
Result<std::size_t> rows_until(const std::string& text, double end, std::vector<std::vector<double>>& rows) {
  return read_log_rows(text, kFormat, [&](LogRow row) {
    if (row[kStepColumn] == end) return false;
    rows.emplace_back(row.begin(), row.end());
    return true;
  });
}

Result<std::size_t> all_rows(const std::string& text, std::vector<std::vector<double>>& rows) {
  return rows_until(text, -1, rows);
}

TEST_CASE("complete rows are read, and an empty cell is no number") {
  std::vector<std::vector<double>> rows;
  const std::string text = kHeader + "1,0.5,2.25\n3,,-1e-3\n";
  CHECK(all_rows(text, rows).value() == text.size());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == std::vector<double>{1, 0.5, 2.25});
  CHECK(std::isnan(rows[1][1]));
  CHECK(rows[1][kLossColumn] == -1e-3);
}

TEST_CASE("what a killed writer left of a line is not a row, wherever it was killed") {
  const std::string whole = kHeader + "1,0.5,2.25\n";
  const std::string text = whole + "2,1,2.5\n";
  for (std::size_t size = 0; size < text.size(); ++size) {
    std::vector<std::vector<double>> rows;
    const auto bytes = all_rows(text.substr(0, size), rows);
    REQUIRE(bytes.ok());
    CHECK(*bytes == (size < kHeader.size() ? 0 : size < whole.size() ? kHeader.size() : whole.size()));
    CHECK(rows.size() == (size < whole.size() ? 0 : 1));
  }
}

TEST_CASE("reading ends before the row that is refused") {
  std::vector<std::vector<double>> rows;
  const std::string kept = kHeader + "1,0,1\n2,0,1\n";
  CHECK(rows_until(kept + "3,0,1\n4,0,1\n", 3, rows).value() == kept.size());
  CHECK(rows.size() == 2);
}

TEST_CASE("a text that is another table is refused by line") {
  const auto refused_at = [](const std::string& text, const std::string& line) {
    std::vector<std::vector<double>> rows;
    const auto read = all_rows(text, rows);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::kMalformed);
    CHECK(read.error().message.starts_with("line " + line + ": "));
  };
  refused_at("step,loss\n1,2\n", "1");
  refused_at("step,epoch,loss\r\n", "1");
  refused_at("a letter without a newline", "1");
  refused_at(kHeader + "1,2\n", "2");
  refused_at(kHeader + "1,2,3,4\n", "2");
  refused_at(kHeader + "1,2,3\n2,x,3\n", "3");
  refused_at(kHeader + "1,2,3\n1,2,3\n", "3");
  refused_at(kHeader + "1.5,2,3\n", "2");
  refused_at(kHeader + ",2,3\n", "2");
  refused_at(kHeader + "0,2,3\n", "2");
  refused_at(kHeader + "\n", "2");
}

TEST_CASE("a log that is opened again goes on after the rows that are kept") {
  const test::SmallTask folder;
  const std::string run = folder.at("run");
  std::filesystem::create_directory(run);
  const auto keep = [](double last) { return [last](LogRow row) { return row[kStepColumn] <= last; }; };
  const auto add = [&](double last, std::int64_t step) {
    auto log = test::must(RunLog::open(run, kFormat, keep(last)));
    log.add(LogLine(step).add(0.5).add(0.25F).take());
    test::must(log.flush());
  };
  add(0, 1);
  add(1, 2);
  test::must(write_file(kFormat.path(run), kHeader + "1,0.5,0.25\n2,0.5,0.25\n3,0", Clobber::kReplace));
  add(2, 3);
  CHECK(test::must(read_file(kFormat.path(run), 1000)) == kHeader + "1,0.5,0.25\n2,0.5,0.25\n3,0.5,0.25\n");
  add(1, 2);
  CHECK(test::must(read_file(kFormat.path(run), 1000)) == kHeader + "1,0.5,0.25\n2,0.5,0.25\n");
}

TEST_CASE("a table of several pieces is read like one text") {
  const test::SmallTask folder;
  std::filesystem::create_directory(folder.at("run"));
  const std::string path = kFormat.path(folder.at("run"));
  constexpr std::int64_t kRows = 150000;
  std::string text = kHeader;
  for (std::int64_t step = 1; step <= kRows; ++step) text += LogLine(step).add(0.125).add(0.5).take();
  REQUIRE(text.size() > std::size_t{2} << 20);
  test::must(write_file(path, text, Clobber::kRefuse));
  std::int64_t last = 0;
  const auto until = [&last](std::int64_t end) {
    return [&last, end](LogRow row) {
      if (row[kStepColumn] > static_cast<double>(end)) return false;
      return last = static_cast<std::int64_t>(row[kStepColumn]), true;
    };
  };
  CHECK(test::must(read_log(folder.at("run"), kFormat, until(kRows))) == text.size());
  CHECK(last == kRows);
  const std::size_t kept = text.find("\n100001,") + 1;
  CHECK(test::must(read_log(folder.at("run"), kFormat, until(100000))) == kept);
  CHECK(last == 100000);
  text[text.find("\n140000,") + 1] = 'x';
  test::must(write_file(path, text, Clobber::kReplace));
  const auto read = read_log(folder.at("run"), kFormat, until(kRows));
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().message == path + ": line 140001: is not a row of 3 numbers");
}

TEST_CASE("a line longer than any row is refused, however much of it there is") {
  std::vector<std::vector<double>> rows;
  for (const char* end : {"", "\n"}) {
    const auto read = all_rows(kHeader + "1,0,1\n" + std::string(5000, '7') + end, rows);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.starts_with("line 3: "));
  }
}

TEST_CASE("numbers in a line read back as they were, and what is not known is empty") {
  CHECK(LogLine(7).add(0.1).add(0.1F).add(std::nullopt).take() == "7,0.1,0.1,\n");
  CHECK(LogLine(7).add(std::optional(1e-300)).take() == "7,1e-300\n");
}

}  // namespace
}  // namespace dgx::jobs
