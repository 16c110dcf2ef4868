#pragma once

#include <string>

#include "dgx/core/job_context.h"
#include "dgx/jobs/settle.h"
#include "dgx/ledger/ledger.h"

/// Reading a ledger, and remembering how far it was found to be right (dgx-ledger(5), "READING").
///
/// Checking signatures takes nearly all the time of reading. What this user has checked once is remembered in
/// their state folder, with a code under their work key: nothing that lies beside a ledger is believed, and
/// nothing there that was made elsewhere.
namespace dgx::jobs {

/// ledger::read(), with the file's threads and with what was checked of it before; remembers what was checked
/// now, if that saves much, and says so if the ledger is not what was remembered.
[[nodiscard]] Result<ledger::Log> read_ledger(const LedgerFile& file, ledger::Visit visit = {});
/// ledger::Writer::open(), likewise.
[[nodiscard]] Result<ledger::Writer> open_writer(const LedgerWriter& options, crypto::SecretKey key,
                                                 ledger::Visit visit);

/// The ledger at `path`, for a job.
[[nodiscard]] LedgerFile ledger_file(const std::string& path, const JobContext& context);

}  // namespace dgx::jobs
