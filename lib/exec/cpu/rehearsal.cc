// Rehearsals: steps in which ranks sleep for what they would compute, and exchange what they would.
#include "cpu/parts_executor_impl.h"
#include "dgx/exchange/ranks.h"

namespace dgx::exec {

Status PartsExecutor::Impl::prepare_rehearsal(const RehearsedRank& rank) {
  if (tail->team->size() != 1) return usage_error("a rehearsal has one thread a rank", "--threads 1");
  rehearsed = rank;
  for (Body* const body : bodies_of_step()) body->machine->time_processor();
  tail->fused->time_processor();
  return {};
}

Result<Rehearsal> PartsExecutor::Impl::rehearse() {
  if (!rehearsed || exchange() == nullptr) return internal_error("a rehearsal that was not prepared");
  double seconds = tail->fused->processor_seconds();
  for (Body* const body : bodies_of_step()) seconds += body->machine->processor_seconds() * runs_of(*body);
  struct Work {
    double operations, operations_per_second, seconds;
  };
  const Work own{rehearsed->operations, rehearsed->operations_per_second, seconds};
  DGX_TRY(const auto all, exchange::gather_items(*exchange(), std::span(&own, 1)));
  double operations = 0, of_all = 0;
  for (const Work& each : all) {
    operations += each.operations;
    of_all += each.seconds;
  }
  if (!(operations > 0 && of_all > 0)) return internal_error("a rehearsal of steps that take no time");
  Rehearsal out{operations / of_all, {}};
  for (const Work& each : all)
    out.sleeps.push_back(each.seconds * out.operations_per_second / each.operations_per_second);
  const double factor = out.operations_per_second / own.operations_per_second;
  for (Body* const body : bodies_of_step()) body->machine->sleep_instead(factor);
  tail->fused->sleep_instead(factor);
  return out;
}

Status PartsExecutor::prepare_rehearsal(const RehearsedRank& rank) { return impl_->prepare_rehearsal(rank); }
Result<Rehearsal> PartsExecutor::rehearse() { return impl_->rehearse(); }

}  // namespace dgx::exec
