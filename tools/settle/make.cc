// dgx-settle make: statements that no other program makes, signed by a participant. dgx-settle(1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"
#include "settle/commands.h"

namespace dgx::tools {
namespace {

struct Make {
  jobs::MakeStatement options;
  std::string path = "-";

  void declare(cli::Command& command) {
    command.positional("KIND", options.kind, fmt::format("{}", fmt::join(jobs::makeable_kinds(), ", ")));
    command.positional("TASK.json", options.task_path,
                       "the task that it belongs to; deposit and withdrawal need none");
    command.option("--about", "STATEMENT.json", options.about_path,
                   "the statement that it answers: a beacon-commitment for assign and offer-end, a proof for "
                   "delivery, a verdict for verdict-commitment");
    command.option("--ledger", "ID|FILE", options.ledger,
                   "the market of a deposit or withdrawal: its id, LEDGER.jsonl, a receipt or a head");
    command.option("--profile", "P.json", options.profile,
                   "for assign: your profile of the task, which says how long its longest segment takes you");
    command.option("--model", "FILE", options.model,
                   "for delivery: the model that was received, to be compared with the proof's final state");
    command.option("--set", "FIELD=VALUE", options.settings,
                   "fields that do not follow from the other options; account= also takes a key file");
    command.key(options.key.path, options.key.passphrase_file);
    command.output(path, "S.json", cli::Need::kOptional);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    DGX_TRY(const auto statement, jobs::make_statement(options, out.brief_job()));
    DGX_CHECK(out.output(output, statement.envelope + "\n"));
    if (path == "-") return cli::Verdict::kDone;
    out.field("kind", name_of(kind_of(statement.body)));
    out.field("statement", statement.id);
    out.field("signer", statement.key_id);
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_make(cli::Tool& tool) { tool.add<Make>("make", "sign a statement that no other program makes"); }

}  // namespace dgx::tools
