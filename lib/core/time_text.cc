#include "dgx/core/time_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

namespace dgx {

std::string utc_text(std::int64_t milliseconds) {
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string duration_text(std::int64_t milliseconds) {
  constexpr std::array<std::pair<const char*, std::int64_t>, 3> kUnits{
      {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}}};
  std::string out;
  for (const auto& [name, size] : kUnits) {
    if (milliseconds >= size)
      out += fmt::format("{}{} {}", out.empty() ? "" : " ", milliseconds / size, name);
    milliseconds %= size;
  }
  if (milliseconds > 0 || out.empty())
    out += fmt::format("{}{} s", out.empty() ? "" : " ", static_cast<double>(milliseconds) / 1000);
  return out;
}

Result<std::chrono::seconds> parse_duration(const std::string& text) {
  constexpr std::int64_t kMost = std::int64_t{366} * 86400;
  constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits{
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  const auto refused = [&] {
    return usage_error(fmt::format("'{}' is not a time such as 1h30m, 45m, 90s or 2d", text));
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  std::int64_t total = 0;
  for (const auto& [unit, seconds] : kUnits) {
    std::int64_t count = 0;
    const auto [stopped, error] = std::from_chars(at, end, count);
    if (error != std::errc() || stopped == end || *stopped != unit) continue;
    if (count < 0 || count > kMost) return refused();
    total += count * seconds;
    at = stopped + 1;
  }
  if (at != end || total < 1 || total > kMost) return refused();
  return std::chrono::seconds(total);
}

}  // namespace dgx
