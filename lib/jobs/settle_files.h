#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/jobs/settle.h"
#include "dgx/manifest/trust.h"

namespace dgx::jobs {

inline constexpr std::size_t kMaxPolicyFileBytes = manifest::kMaxEnvelopeBytes;

/// The identities of --trust, or none.
[[nodiscard]] Result<manifest::Trust> load_trust(const std::optional<std::string>& path);

/// A log's summary, by what it says of itself. kUnauthorised if its operator is none of the identities that
/// the user accepts.
[[nodiscard]] Result<LedgerSummary> summarize(const LedgerFile& file, const ledger::Log& log);

/// A statement and where it came from, for messages.
struct Incoming {
  manifest::Signed<manifest::Body> statement;
  std::string where;
};
/// The statements of a file: one, or one a line; for each that is none the error that names it.
[[nodiscard]] std::vector<Result<Incoming>> read_each(const std::string& path);
/// All of them, or the first error.
[[nodiscard]] Result<std::vector<Incoming>> read_statements(const std::string& path);

/// An entry broke the rules: whatever the rule says, it is the ledger that is not what it should be.
[[nodiscard]] Error broken_ledger(const std::string& path, const Error& rule);

/// The policy in a file; errors name it.
[[nodiscard]] Result<manifest::Policy> read_policy(const std::string& path);

}  // namespace dgx::jobs
