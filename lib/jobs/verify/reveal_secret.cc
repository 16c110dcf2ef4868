#include <fmt/format.h>

#include "dgx/jobs/beacon.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/protocol/forced.h"
#include "settle/opening_store.h"
#include "settle/read_ledger.h"
#include "verify/reveal.h"

namespace dgx::jobs {

Result<RevealBeaconResult> reveal_secret(const RevealBeaconOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  if (!protocol::forces_errors(task.body.policy)) return reveal_into(output, options, context);
  if (!options.logged.ledger)
    return usage_error("--ledger is required: in this market the ledger says when the secret is due");
  DGX_TRY(const auto offer, manifest::read_statement<manifest::BeaconCommitment>(options.commitment));
  DGX_TRY(const LedgerView view, view_ledger(ledger_file(*options.logged.ledger, context)));
  const auto found = view.market.tasks().find(task.id);
  if (found == view.market.tasks().end())
    return not_allowed(fmt::format("{}: does not have task {}", *options.logged.ledger, task.id.brief()));
  const protocol::TaskRecord& record = found->second;
  if (!protocol::owes_secret(record))
    return not_allowed("there is no acceptance whose verifier owes a secret");
  if (record.verdict->key_id != offer.key_id)
    return not_allowed(fmt::format("{}: is not the offer of whoever gave the verdict", options.commitment));
  if (record.secret) return not_allowed("the secret is already revealed");
  const protocol::TaskState state = protocol::standing(record, view.market.clock().now()).state;
  if (state != protocol::TaskState::kRecheck && state != protocol::TaskState::kReveal)
    return not_allowed(fmt::format("task {} is {}: the secret is late", task.id.brief(), name_of(state)));
  RevealBeaconOptions now = options;
  now.due = state == protocol::TaskState::kReveal ? SecretDue::kFromOwner : SecretDue::kNotYet;
  return reveal_into(output, now, context);
}

}  // namespace dgx::jobs
