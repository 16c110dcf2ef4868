// The files next to verdicts and proofs: a shard, VERDICT.rows.jsonl and PROOF.states. The commitment is made
// to fit the input, as a hostile signer would. Accepted files re-encode to the same bytes.

#include "dgx/manifest/proof.h"
#include "dgx/manifest/verdict.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/shards.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

std::vector<VerdictRow> rows() {
  return {{0, test::digest("a"), test::digest("a"), true, RowReason::kEqual, test::digest("w")},
          {3, test::digest("b"), test::digest("c"), false, RowReason::kDigest, test::digest("w")},
          {9, test::digest("d"), Digest{}, false, RowReason::kStep, Digest{}}};
}

void read_rows(std::string_view text) {
  const auto leaves = merkle::program_leaves(text);
  if (!leaves.ok()) return;
  Verdict verdict;
  verdict.segments = kMaxStates;
  verdict.replayed = std::ssize(*leaves);
  verdict.rows = {merkle::root_of(*leaves), verdict.replayed};
  const auto read = decode_rows(text, verdict);
  if (!read.ok()) return;
  fuzz::require(encode_rows(*read) == text, "accepted rows re-encode to themselves");
  fuzz::require(rows_root(*read) == verdict.rows, "accepted rows have the committed root");
}

void read_states(std::string_view bytes) {
  Proof proof;
  std::vector<Digest> states;
  for (std::size_t i = 0; i + 32 <= bytes.size(); i += 32) {
    states.push_back(*digest_from_bytes(as_bytes(bytes.substr(i, 32))));
  }
  if (states.empty()) return;
  proof.states = states_root(states);
  proof.initial = states.front();
  proof.final_state = states.back();
  const auto read = decode_states(bytes, proof);
  fuzz::require(read.ok() == (bytes.size() % 32 == 0), "states are whole digests");
  if (read.ok()) fuzz::require(encode_states(*read) == bytes, "accepted states re-encode to themselves");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  using protocol::ShardRole;
  const protocol::Assignment who{test::digest("task"),   test::digest("proof"), test::key_id(4),
                                 test::digest("beacon"), test::digest("value"), Draw::kPolicy};
  protocol::Assignment chosen = who;
  chosen.beacon.reset();
  chosen.draw = Draw::kChosen;
  protocol::Assignment audit = who;
  audit.draw = Draw::kAudit;
  audit.audited = protocol::Audited{test::digest("verdict"), test::digest("its signer")};
  const protocol::Shard audited{ShardRole::kShard, "0.1.0", audit, test::digest("data"), 0, 1,
                                {0, 3, 9},         rows(),  {0}};
  return {protocol::encode_shard(audited),
          protocol::encode_shard(
              {ShardRole::kShard, "0.1.0", who, test::digest("data"), 0, 1, {0, 3, 9}, rows()}),
          protocol::encode_shard({ShardRole::kPart, "0.1.0", chosen, test::digest("data"), 1, 4, {5}, {}}),
          encode_rows(rows()), encode_states(std::vector<Digest>{test::digest("a"), test::digest("b")})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto shard = protocol::decode_shard(text); shard.ok()) {
    fuzz::require(protocol::encode_shard(*shard) == text, "an accepted shard re-encodes to itself");
    const auto merged = protocol::merge_shards(std::span(&*shard, 1));
    fuzz::require(!merged.ok() || merged->denied.size() <= merged->rows.size(), "a denial is of a row");
  }
  read_rows(text);
  read_states(text);
  return 0;
}
