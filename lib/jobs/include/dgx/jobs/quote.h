#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"

namespace dgx::jobs {

/// The worth of money and the cost of machines: the file of dgx-submit(1), --prices. It decides nothing; no
/// statement has anything of it.
struct Prices {
  struct Machine {
    std::string name;
    std::int64_t per_hour_millionths = 0;  ///< of the currency
    std::int64_t operations_per_second = 0;
    bool operator==(const Machine&) const = default;
  };
  std::string currency;
  std::int64_t units = 0;  ///< base units of a ledger that one unit of the currency is worth
  std::vector<Machine> machines;
  bool operator==(const Prices&) const = default;
};

/// kMalformed, naming field and row, for anything that the page does not allow.
[[nodiscard]] Result<Prices> parse_prices(std::string_view text);

/// A task in a currency. Amounts are exact and rounded up to a millionth, in decimal: "12.05".
struct Quote {
  struct Machine {
    std::string name;
    std::int64_t milliseconds = 0;  ///< that the training takes it
    std::string charge;             ///< for that time
  };
  std::string currency;
  std::string escrow;
  std::string reward;
  std::vector<Machine> machines;
};

/// kUsage if an amount exceeds 2^53 millionths, or a time 2^53 milliseconds.
[[nodiscard]] Result<Quote> quote(const Prices& prices, const manifest::Estimate& estimate);

/// quote() with the prices of a file.
[[nodiscard]] Result<Quote> quote_by(const std::string& prices_path, const manifest::Estimate& estimate);

}  // namespace dgx::jobs
