// Files of people for dgx-settle simulate: what is accepted makes a market that is played, or is refused as
// one that cannot be.
#include "dgx/jobs/simulate.h"
#include "target.h"

using namespace dgx;

namespace {

const StopFlag kGoOn;

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"honest":{"count":2}})",
      R"({"honest":{"count":1,"bond":8796093022208},"lazy":{"count":1,"bond":110000}})",
      R"({"accomplice":{"count":1},"cheat":{"count":1,"false_ppm":50000},"colluder":{"count":1,)"
      R"("share_ppm":500000},"copier":{"count":2},"farmer":{"count":1},"griefer":{"count":3},)"
      R"("honest":{"count":1},"silent":{"count":1},"sybil":{"count":1,"keys":3},"volunteer":{"count":9}})",
      R"({"guesser":{"count":64,"bond":110001},"honest":{"count":1},"insider":{"count":2},)"
      R"("robber":{"count":3},"seller":{"count":2},"venal":{"count":3},"volunteer":{"count":64}})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto agents = jobs::parse_agents(fuzz::text_of(data, size));
  if (!agents.ok()) {
    fuzz::require(agents.error().code == ErrorCode::kMalformed, "what cannot be read is malformed");
    return 0;
  }
  manifest::Policy policy = manifest::standard_policy();
  policy.beacon_source = 1;
  policy.audit_ppm = 500'000;
  policy.forced_error_ppm = 500'000;
  policy.jackpot = 1'000;
  jobs::SimulateOptions options;
  options.tasks = 3;
  Progress progress;
  const auto played = jobs::simulate(policy, *agents, options, {1, Clobber::kRefuse, {}, progress, kGoOn});
  if (played.ok()) {
    fuzz::require(played->tasks == 3, "every task ends");
    return 0;
  }
  const ErrorCode code = played.error().code;
  fuzz::require(code == ErrorCode::kUsage || played.error().message.find("2^53") != std::string::npos,
                "people make no market, or have too much money for one");
  return 0;
}
