// Statements of every kind from a hostile signer: the input is the payload, which is put into canonical form
// and signed before it is opened. An accepted statement re-encodes to the same payload.

#include "dgx/manifest/statement.h"
#include "dgx/manifest/file_kind.h"

#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const Body& body : test::bodies()) out.push_back(payload_of(body, test::key(3).public_key()));
  out.push_back(payload_of(test::pulse(), test::key(3).public_key()));
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const crypto::SecretKey key = test::key(3);
  const auto value = json::parse(fuzz::text_of(data, size));
  if (!value.ok()) return 0;
  const std::string payload = value->dump();
  const auto envelope = sign(payload, key);
  if (!envelope.ok()) return 0;
  const auto statement = open_any(*envelope);
  const auto claimed = recognise(*envelope).statement;
  if (!statement.ok()) return 0;
  fuzz::require(claimed == kind_of(statement->body), "an accepted statement is recognised as its kind");
  fuzz::require(payload_of(statement->body, statement->signer) == payload,
                "an accepted payload re-encodes to itself");
  const auto again = seal_any(statement->body, key);
  fuzz::require(again.ok() && again->id == statement->id, "an accepted body seals to the same statement");
  return 0;
}
