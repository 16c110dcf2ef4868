// Pulses of drand as its servers give them: an accepted pulse makes a round that can be signed, and that
// opens with the same pulse.

#include "dgx/core/bytes.h"
#include "dgx/manifest/statement.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;

std::vector<std::string> fuzz::seeds() {
  const Round drawn = test::pulse();
  const auto& pulse = std::get<DrandPulse>(drawn.origin);
  const std::string signature = to_hex(pulse.signature);
  const std::string all =
      "\"signature\":\"" + signature + "\",\"randomness\":\"" + round_value(pulse).hex() + "\"";
  return {"{\"round\":1732252," + all + "}", "{\"round\":1, \"signature\":\"" + signature + "\"}\n",
          "{\"round\":9007199254740992," + all +
              ",\"chain_hash\":\"52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971\"}",
          "{\"round\":3," + all + ",\"previous_signature\":\"00\"}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const crypto::SecretKey key = test::key(3);
  const auto pulse = parse_pulse(fuzz::text_of(data, size));
  if (!pulse.ok()) return 0;
  Round round = test::pulse();
  round.origin = *pulse;
  round.value = round_value(*pulse);
  const auto sealed = seal(round, key);
  fuzz::require(sealed.ok(), "a round of an accepted pulse can be signed");
  const auto opened = open_statement<Round>(sealed->envelope);
  fuzz::require(opened.ok() && std::get<DrandPulse>(opened->body.origin) == *pulse,
                "a signed round opens with its pulse");
  return 0;
}
