// dgx-settle: a market's ledger, its money and its rules. dgx-settle(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/settle.h"
#include "settle/commands.h"

using namespace dgx;

int main(int argc, char** argv) {
  cli::Tool tool("dgx-settle", "keep a market's ledger: money, deadlines, payments and slashing");
  tool.names(jobs::names_of_trust);
  tools::add_init(tool);
  tools::add_make(tool);
  tools::add_deposit(tool);
  tools::add_withdraw(tool);
  tools::add_append(tool);
  tools::add_fetch(tool);
  tools::add_extract(tool);
  tools::add_status(tool);
  tools::add_balances(tool);
  tools::add_run(tool);
  tools::add_round(tool);
  tools::add_check(tool);
  tools::add_head(tool);
  tools::add_prove(tool);
  tools::add_cosign(tool);
  tools::add_bounds(tool);
  tools::add_simulate(tool);
  return tool.run(argc, argv);
}
