// Policy files: an accepted policy can be sealed, and opens as the same policy.

#include "dgx/manifest/policy.h"

#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;

std::vector<std::string> fuzz::seeds() {
  return {"{}",
          "{ \"sample_ppm\": 10000, \"window_move_ms\": 1 }\n",
          "{\"miss_ppm\": 50000, \"miss_share_ppm\": 100000}",
          json::Value(test::policy().to_json()).dump(),
          json::Value(standard_policy().to_json()).dump(),
          seal(test::ledger_policy(), test::key(3))->envelope + "\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const crypto::SecretKey key = test::key(3);
  const auto policy = parse_policy_file(fuzz::text_of(data, size));
  if (!policy.ok()) return 0;
  const auto sealed = seal(LedgerPolicy{*policy, {}}, key);
  fuzz::require(sealed.ok(), "an accepted policy can be signed");
  const auto opened = open_statement<LedgerPolicy>(sealed->envelope);
  fuzz::require(opened.ok() && opened->body.policy == *policy, "a signed policy opens as itself");
  return 0;
}
