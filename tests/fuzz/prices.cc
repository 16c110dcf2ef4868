// Files of prices: what is accepted is quoted, or refused as too large.

#include "dgx/jobs/quote.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"currency":"EUR","units":1000000,"rows":[]})",
      R"({"currency":"USD","units":9007199254740992,"rows":[{"name":"a","per_hour":3,)"
      R"("operations_per_second":1}]})",
      R"({"currency":"EUR","units":1,"rows":[{"name":"H100","per_hour":"2.49","operations_per_second":)"
      R"(4000000000000},{"name":"mine","per_hour":"0.000001","operations_per_second":9007199254740992}]})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto prices = jobs::parse_prices(fuzz::text_of(data, size));
  if (!prices.ok()) return 0;
  for (const std::int64_t amount : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 53}) {
    manifest::Estimate estimate;
    estimate.train = estimate.reward = estimate.escrow = amount;
    const auto quoted = jobs::quote(*prices, estimate);
    if (!quoted.ok()) {
      fuzz::require(amount > 1, "an operation has a price");
      continue;
    }
    fuzz::require(quoted->machines.size() == prices->machines.size(), "each machine is quoted");
    for (const jobs::Quote::Machine& machine : quoted->machines)
      fuzz::require((machine.milliseconds == 0) == (amount == 0), "work takes time");
    fuzz::require((quoted->escrow == "0") == (amount == 0), "what is worth anything costs something");
  }
  return 0;
}
