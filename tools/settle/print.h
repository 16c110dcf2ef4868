#pragma once

#include "dgx/cli/out.h"
#include "dgx/jobs/settle.h"
#include "market_cells.h"

/// The forms in which dgx-settle prints a ledger's summary and receipts.
namespace dgx::tools {

/// Said wherever a round rests on a pulse.
inline constexpr std::string_view kPulseNotVerified =
    "drand: number and hash are checked; the signature is kept as proof, and not verified by this program";

inline void print_summary(cli::Out& out, const jobs::LedgerSummary& summary) {
  if (!summary.torn.empty()) out.warning(summary.torn);
  out.field("ledger", summary.ledger);
  out.field("operator", summary.operator_id);
  out.field("trust", summary.trust);
  out.field("entries", summary.head.count);
  out.field("root", summary.head.root);
  out.field("time", time_cell(summary.milliseconds));
}

inline void print_logged(cli::Out& out, const std::vector<jobs::Logged>& logged,
                         const manifest::RootReference& head) {
  cli::Table table{{"index", "kind", "statement", "signer", "time"}};
  for (const jobs::Logged& one : logged)
    table.rows.push_back({one.receipt.body.index, name_of(kind_of(one.statement.body)), one.statement.id,
                          one.statement.key_id, time_cell(one.receipt.body.milliseconds)});
  out.field("receipts", std::move(table));
  out.field("entries", head.count);
  out.field("root", head.root);
}

}  // namespace dgx::tools
