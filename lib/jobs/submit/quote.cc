#include "dgx/jobs/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dgx/core/files.h"
#include "dgx/core/json.h"
#include "dgx/core/text.h"
#include "dgx/manifest/fields.h"

namespace dgx::jobs {
namespace {

using manifest::kMaxInteger;

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::size_t kMostDecimals = 6;
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::size_t kMostMachines = 256;
constexpr std::size_t kMostCurrency = 16;
constexpr std::size_t kMostName = 64;

/// ceil(a · b / divisor), all of them positive or 0; nullopt above 2^53.
std::optional<std::int64_t> portion(std::int64_t a, std::int64_t b, std::int64_t divisor) {
  const __int128 out = (static_cast<__int128>(a) * b + divisor - 1) / divisor;
  if (out > kMaxInteger) return std::nullopt;
  return static_cast<std::int64_t>(out);
}

/// "12.05" of 12050000 millionths.
std::string decimal_text(std::int64_t millionths) {
  std::string out = fmt::format("{}.{:06}", millionths / kMillion, millionths % kMillion);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out;
}

/// Millionths of digits, and perhaps a point and one to six digits more; nullopt for any other text, and
/// above 2^53.
std::optional<std::int64_t> millionths_of(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = text.substr(std::min(point + 1, text.size()));
  if (whole.empty() || whole.size() > 10 || part.size() > kMostDecimals || text.ends_with('.'))
    return std::nullopt;
  std::string digits(whole);
  digits.append(part).append(kMostDecimals - part.size(), '0');
  std::int64_t out = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    out = out * 10 + (digit - '0');
  }
  return out <= kMaxInteger ? std::optional(out) : std::nullopt;
}

std::string read_name(json::Fields& in, std::string_view key, std::size_t most) {
  std::string out = in.string(key, most);
  if (out.empty() || printable(out) != out)
    in.fail(key, fmt::format("must be 1 to {} printable characters", most));
  return out;
}

std::int64_t read_decimal(json::Fields& in, std::string_view key) {
  const json::Value& value = in.value(key);
  const std::int64_t* const integer = value.as_int();
  const std::string* const text = value.as_string();
  const auto out = integer != nullptr ? millionths_of(std::to_string(*integer))
                   : text != nullptr  ? millionths_of(*text)
                                      : std::nullopt;
  if (!out) in.fail(key, "is neither an integer nor a decimal in quotes, such as \"2.49\"");
  return out.value_or(0);
}

Result<Prices::Machine> read_machine(const json::Value& row, const std::string& where) {
  json::Fields in(row, where);
  Prices::Machine out;
  out.name = read_name(in, "name", kMostName);
  out.per_hour_millionths = read_decimal(in, "per_hour");
  out.operations_per_second = in.integer("operations_per_second", 1, kMaxInteger);
  DGX_CHECK(in.finish());
  return out;
}

/// An amount of base units in the currency.
Result<std::string> in_currency(const Prices& prices, std::string_view what, std::int64_t amount) {
  const auto out = portion(amount, kMillion, prices.units);
  if (!out)
    return usage_error(fmt::format("prices: {} exceeds 2^53 millionths of {}", what, prices.currency));
  return decimal_text(*out);
}

Result<Quote::Machine> machine_quote(const Prices::Machine& machine, std::int64_t train) {
  constexpr std::int64_t kSecondsPerHour = 3'600;
  constexpr std::int64_t kMillisecondsPerSecond = 1'000;
  const auto milliseconds = portion(train, kMillisecondsPerSecond, machine.operations_per_second);
  // Seconds of an hour, and operations of a second, are in the divisor, which may be above 2^63.
  const __int128 divisor = static_cast<__int128>(machine.operations_per_second) * kSecondsPerHour;
  const __int128 charge =
      (static_cast<__int128>(machine.per_hour_millionths) * train + divisor - 1) / divisor;
  if (!milliseconds || charge > kMaxInteger)
    return usage_error(fmt::format("prices: {}: the training takes too long for a number", machine.name));
  return Quote::Machine{machine.name, *milliseconds, decimal_text(static_cast<std::int64_t>(charge))};
}

}  // namespace

Result<Prices> parse_prices(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse(text, {kMostBytes}));
  json::Fields in(value, "prices");
  Prices out;
  out.currency = read_name(in, "currency", kMostCurrency);
  out.units = in.integer("units", 1, kMaxInteger);
  const json::Array& rows = in.array("rows", kMostMachines);
  DGX_CHECK(in.finish());
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const std::string where = fmt::format("prices: row {}", n + 1);
    DGX_TRY(Prices::Machine machine, read_machine(rows[n], where));
    if (std::ranges::find(out.machines, machine.name, &Prices::Machine::name) != out.machines.end())
      return malformed(fmt::format("{}: a second machine is called {}", where, machine.name));
    out.machines.push_back(std::move(machine));
  }
  return out;
}

Result<Quote> quote(const Prices& prices, const manifest::Estimate& estimate) {
  Quote out{prices.currency, {}, {}, {}};
  DGX_TRY(out.escrow, in_currency(prices, "escrow", estimate.escrow));
  DGX_TRY(out.reward, in_currency(prices, "reward", estimate.reward));
  for (const Prices::Machine& machine : prices.machines) {
    DGX_TRY(out.machines.emplace_back(), machine_quote(machine, estimate.train));
  }
  return out;
}

Result<Quote> quote_by(const std::string& prices_path, const manifest::Estimate& estimate) {
  DGX_TRY(const std::string text, read_file(prices_path, kMostBytes));
  const auto prices = parse_prices(text);
  if (!prices.ok()) return within(prices_path, prices.error());
  return quote(*prices, estimate);
}

}  // namespace dgx::jobs
