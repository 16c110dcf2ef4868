#pragma once

#include "dgx/cli/tool.h"

/// The commands of dgx-settle(1), each added to the program by a function of its own.
namespace dgx::tools {

void add_init(cli::Tool& tool);
void add_make(cli::Tool& tool);
void add_deposit(cli::Tool& tool);
void add_withdraw(cli::Tool& tool);
void add_append(cli::Tool& tool);
void add_fetch(cli::Tool& tool);
void add_extract(cli::Tool& tool);
void add_status(cli::Tool& tool);
void add_balances(cli::Tool& tool);
void add_run(cli::Tool& tool);
void add_round(cli::Tool& tool);
void add_check(cli::Tool& tool);
void add_head(cli::Tool& tool);
void add_prove(cli::Tool& tool);
void add_cosign(cli::Tool& tool);
void add_bounds(cli::Tool& tool);
void add_simulate(cli::Tool& tool);

}  // namespace dgx::tools
