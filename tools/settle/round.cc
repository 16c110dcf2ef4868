// dgx-settle round: the public randomness of a ledger's slots. dgx-settle(1).
#include "dgx/jobs/round.h"

#include <algorithm>

#include "settle/commands.h"
#include "settle/declare.h"
#include "settle/print.h"

namespace dgx::tools {
namespace {

struct Round {
  jobs::RoundOptions options;

  void declare(cli::Command& command) {
    declare_ledger(command, options.writer.file);
    command.key(options.writer.key.path, options.writer.key.passphrase_file);
    command.option("--import", "PULSE.json", options.pulse,
                   "a pulse of drand's quicknet, in a market whose rounds it gives");
    command.flag("--until-logged", options.until_logged,
                 "keep running until no round is awaited: wait for slots to end");
    command.not_with({"--until-logged"}, {"--import"});
    command.output(options.output, "ROUND.json", cli::Need::kOptional, "the new rounds, one a line");
    command.wait(options.writer.wait);
    declare_after_pause(command, options.writer);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::RoundOptions request = options;
    request.writer.file = ledger_of(options.writer.file, out);
    JobContext context = out.job();
    context.lock_wait = request.writer.wait;
    DGX_TRY(const jobs::RoundsResult result, jobs::log_rounds(request, context));
    print_logged(out, result.logged, result.head);
    cli::Table awaited{{"slot", "ends", "pulse"}};
    for (const jobs::AwaitedRound& one : result.awaited)
      awaited.rows.push_back(
          {one.slot, time_cell(one.ends_ms), one.number ? cli::Cell(*one.number) : no_cell()});
    out.field("awaited", std::move(awaited));
    out.field("behind_ms", result.behind_ms);
    if (result.steps > 0) {
      out.field("steps", result.steps);
      out.field("steps_per_second", static_cast<std::int64_t>(result.steps_per_second));
    }
    const bool pulses = std::any_of(result.logged.begin(), result.logged.end(), [](const jobs::Logged& one) {
      return std::get<manifest::Round>(one.statement.body).source() == manifest::RoundSource::kDrand;
    });
    if (pulses) out.note(std::string(kPulseNotVerified));
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_round(cli::Tool& tool) {
  tool.add<Round>("round", "compute or import the rounds that the ledger waits for, and log them");
}

}  // namespace dgx::tools
