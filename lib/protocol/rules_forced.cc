#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/verify.h"
#include "rules.h"

namespace dgx::protocol {
namespace {

/// Checks that this is the secret of the offer by which the signer of the verdict was drawn.
Status check_secret(const TaskRecord& record, const manifest::Beacon& beacon) {
  const auto offer = record.offers.find(beacon.commitment);
  if (offer == record.offers.end() || offer->second.statement.key_id != record.verdict->key_id)
    return malformed("commitment: is not the offer of whoever gave the verdict");
  if (manifest::beacon_commitment(beacon.secret) == offer->second.statement.body.commitment) return {};
  return malformed("secret: is not the one that was committed to");
}

}  // namespace

/// A secret that is revealed before it is due gives a quarter of its owner's bond to whoever reveals it,
/// whatever becomes of the verdict. So nobody can sell it without fear of the buyer; nor does its owner gain
/// by that quarter, which an accomplice who makes the verdict fall would have, too.
Status reveal_secret(MarketState& market, TaskRecord& record, const Entry& entry,
                     const manifest::Beacon& beacon) {
  if (!forces_errors(record.task.body.policy))
    return not_allowed("this market draws by rounds: nobody reveals a beacon");
  DGX_CHECK(check_about(record, beacon.proof));
  if (!owes_secret(record))
    return not_allowed(
        fmt::format("task {} has no acceptance whose secret could be revealed", record.task.id.brief()));
  if (record.secret) return not_allowed("the secret is already revealed");
  DGX_CHECK(check_secret(record, beacon));
  const bool own = entry.signer() == record.verdict->key_id;
  const bool due = standing(record, entry.now).state == TaskState::kReveal;
  if (due) DGX_CHECK(check_signer(entry, record.verdict->key_id, "verifier"));
  DGX_CHECK(check_state(record, entry.now, {own ? TaskState::kReveal : TaskState::kRecheck}));
  record.secret = RevealedSecret{entry.with(beacon), entry.now, !own};
  promise_jackpot(market, record);
  return {};
}

/// The round that draws the verifiers also decides whose error is forced. So there is no jackpot for the
/// verdict of one who was asked after others were silent: a coalition of those drawn would choose whose turn
/// it is.
void promise_jackpot(MarketState& market, TaskRecord& record) {
  if (record.jackpot > 0 || !record.secret || record.secret->early) return;
  if (record.round->drawn.front().drawn.verifier != record.verdict->key_id) return;
  const bool claimed = std::any_of(record.rechecks.begin(), record.rechecks.end(),
                                   [&](const Recheck& one) { return claims_jackpot(record, one); });
  if (!claimed) return;
  const manifest::Task& task = record.task.body;
  const manifest::Proof& proof = record.proof->body;
  const std::int64_t replayed = drawn_count(task, *segments_of(task, proof));
  record.jackpot = jackpot_of(task, earned(task, proof), replayed, balance_of(market, "jackpot"));
  transfer(market, "jackpot", "escrow", record.jackpot);
}

}  // namespace dgx::protocol
