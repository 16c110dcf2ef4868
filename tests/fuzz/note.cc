// Signed notes, requests to witnesses and what they sign: what is accepted is printed again as the same
// bytes, and a signature of a key counts only as long as nothing that it signs has changed.

#include "dgx/ledger/note.h"

#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::ledger;

namespace {

const VerifierKey& witness() {
  static const VerifierKey out{"w", SignatureType::kCosignature, test::key(2).public_key()};
  return out;
}

Note seed_note() {
  const Checkpoint point{test::digest("ledger"), {test::digest("root"), 9}};
  Note out{point.text(), {}};
  out.signatures.push_back(sign_note(out, point.origin(), test::key(1)));
  out.signatures.push_back(cosign_note(out, "w", test::key(2), 1'700'000'000));
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  Note sighting{Sighting{test::digest("l"), test::digest("s"), 7}.text(), {}};
  sighting.signatures.push_back(sign_note(sighting, "w", test::key(2)));
  return {seed_note().print(), WitnessRequest{4, {test::digest("a")}, seed_note()}.print(), sighting.print(),
          witness().text()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto note = parse_note(text); note.ok()) {
    fuzz::require(note->print() == text, "an accepted note is printed again");
    if (const auto point = parse_checkpoint(note->text); point.ok())
      fuzz::require(point->text() == note->text, "an accepted checkpoint is printed again");
    if (const auto seen = parse_sighting(note->text); seen.ok())
      fuzz::require(seen->text() == note->text, "an accepted sighting is printed again");
    if (const auto by = signed_by(*note, witness()); by.ok() && by->found)
      fuzz::require(note->text == seed_note().text && by->seconds == 1'700'000'000,
                    "a witness's line counts for what they signed");
  }
  if (const auto request = parse_request(text); request.ok())
    fuzz::require(request->print() == text, "an accepted request is printed again");
  if (const auto key = parse_verifier_key(text); key.ok())
    fuzz::require(key->text() == text, "an accepted verifier key is printed again");
  return 0;
}
