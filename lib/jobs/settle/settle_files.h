#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/jobs/settle.h"
#include "dgx/manifest/trust.h"

namespace dgx::jobs {

inline constexpr std::size_t kMaxPolicyFileBytes = manifest::kMaxEnvelopeBytes;

/// The identities of --trust; empty without it.
[[nodiscard]] Result<manifest::Trust> load_trust(const std::optional<std::string>& path);

/// A log's summary, from what the log says of itself. kUnauthorised if its operator is not among the
/// identities that the user accepts.
[[nodiscard]] Result<LedgerSummary> summarize(const LedgerFile& file, const ledger::Log& log);

/// Gives the entries of a ledger that is read to a replay, which must outlive the reading.
[[nodiscard]] ledger::Visit visit_of(protocol::Replay& replay);

/// A signed head's contradiction to the ledger, in words; empty if there is none.
[[nodiscard]] std::string fault_of(const manifest::RootReference& head, const ledger::Log& log);

/// Reads a ledger for its operator. kUnauthorised unless the key is theirs.
[[nodiscard]] Result<ledger::Log> read_as_operator(const LedgerWriter& writer, const crypto::SecretKey& key);

/// The name of a witness to whom nobody gave another (dgx-ledger(5), "NOTES").
[[nodiscard]] std::string witness_name(const crypto::PublicKey& key);

/// A statement's id, or the id of the statement in a file.
[[nodiscard]] Result<Digest> statement_named(const std::string& name);

/// A statement and its source, for messages.
struct Incoming {
  manifest::Signed<manifest::Body> statement;
  std::string where;
};
/// The statements of a file, one or one a line; a line that is not a statement gives the error that names it.
[[nodiscard]] std::vector<Result<Incoming>> read_each(const std::string& path);
/// All statements of a file, or the first error.
[[nodiscard]] Result<std::vector<Incoming>> read_statements(const std::string& path);

/// The error for an entry that broke the rules: whatever code the rule's error has, the ledger is what is
/// malformed.
[[nodiscard]] Error broken_ledger(const std::string& path, const Error& rule);

/// A statement that the operator is about to sign, and what messages call it.
struct Unsealed {
  manifest::Body body;
  std::string where;
};
using MakeStatements =
    std::function<Result<std::vector<Unsealed>>(const ledger::Log& log, const protocol::Market& market)>;
/// Asks `make` for statements under the ledger's lock, signs them with the operator's key and appends them
/// all or, on an error, none. What the ledger has already is skipped.
[[nodiscard]] Result<Appended> append_made(const LedgerWriter& writer, const MakeStatements& make);

// Readers of the words that users write for a statement's fields.

/// A number; of a time also a duration, "2h", which is turned into milliseconds.
[[nodiscard]] Result<json::Value> integer_of(const std::string& field, const std::string& text);
/// An account: a key id, the file of its key, or the treasury.
[[nodiscard]] Result<json::Value> account_of(const std::string& text);
/// 16 hexadecimal digits at random: the reference of a transfer to which nobody gave one.
[[nodiscard]] Result<std::string> random_word();

/// Appends statements that the operator has just signed, under the ledger's lock: all of them or, with the
/// first refusal, none.
[[nodiscard]] Result<Appended> append_signed(const LedgerWriter& options,
                                             std::vector<manifest::Signed<manifest::Body>> statements);

/// The policy in a file; errors name it.
[[nodiscard]] Result<manifest::Policy> read_policy(const std::string& path);

}  // namespace dgx::jobs
