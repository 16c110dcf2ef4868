#pragma once

#include "dgx/cli/tool.h"
#include "dgx/jobs/settle.h"

/// Arguments that several commands of dgx-settle take.
namespace dgx::tools {

inline void declare_ledger(cli::Command& command, jobs::LedgerFile& file) {
  command.positional("LEDGER.jsonl", file.path, "the ledger, with LEDGER.receipts.jsonl next to it");
}

/// The ledger that was named, as the common options say to read it.
inline jobs::LedgerFile ledger_of(const jobs::LedgerFile& file, cli::Out& out) {
  const JobContext context = out.brief_job();
  return {file.path, context.trust, context.threads, &context.progress};
}

inline void declare_after_pause(cli::Command& command, jobs::LedgerWriter& writer) {
  command.flag("--after-pause", writer.after_pause,
               "the operator was away while a deadline ran: record the pause and move every deadline by it");
}

inline void declare_task(cli::Command& command, std::optional<std::string>& task, std::string help) {
  command.option("--task", "ID", task,
                 std::move(help) + "; its id, at least eight digits of it, or TASK.json");
}

}  // namespace dgx::tools
