// Envelopes: an accepted text is the only one for its payload, key id and signature; opening it checks every
// field.

#include "dgx/manifest/envelope.h"

#include "dgx/manifest/statement.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const Body& body : test::bodies()) out.push_back(seal_any(body, test::key(3))->envelope);
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const auto envelope = parse_envelope(text);
  const auto statement = open_any(text);
  fuzz::require(envelope.ok() || !statement.ok(), "what is no envelope is no statement");
  if (!envelope.ok()) return 0;
  if (text.ends_with('\n')) text.remove_suffix(1);
  const json::Object signature{{"keyid", envelope->key_id.hex()},
                               {"sig", to_base64(envelope->signature.bytes)}};
  const json::Object whole{{"payload", to_base64(as_bytes(envelope->payload))},
                           {"payloadType", kPayloadType},
                           {"signatures", json::Array{json::Value(signature)}}};
  fuzz::require(json::Value(whole).dump() == text, "an accepted envelope re-encodes to itself");
  if (!statement.ok()) return 0;
  fuzz::require(statement->id == statement_id(envelope->payload), "a statement's id is its payload's");
  fuzz::require(verify(*envelope, statement->signer).ok(), "an opened statement is signed by its signer");
  fuzz::require(payload_of(statement->body, statement->signer) == envelope->payload,
                "an accepted statement re-encodes to itself");
  return 0;
}
