#include <fmt/format.h>

#include <algorithm>

#include "dgx/protocol/forced.h"
#include "settle/read_ledger.h"
#include "settle/settle_files.h"
#include "settle/watch.h"

namespace dgx::jobs {
namespace {

using manifest::RootReference;

/// Digits with which a prefix of an id may stand for it.
constexpr std::size_t kLeastDigits = 8;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// The index of the entry that `name` means: its statement's id, kLeastDigits of it or more, or its file.
Result<std::size_t> entry_named(const std::string& path, const ledger::Log& log, const std::string& name) {
  std::string prefix = name;
  if (!is_hex(name) || name.size() < kLeastDigits) {
    DGX_TRY(const auto statement, manifest::read_any(name));
    prefix = statement.id.hex();
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    if (!log.entries[i].id.hex().starts_with(prefix)) continue;
    if (found) return usage_error(fmt::format("statement {}: more than one id begins with it", name));
    found = i;
  }
  if (found) return *found;
  return usage_error(fmt::format("{}: statement {} is not in the ledger", path, prefix.substr(0, 12)));
}

/// The claim that a signed head, or a receipt, makes about its ledger.
struct Claim {
  Digest ledger;
  RootReference head;
};

Result<Claim> claim_in(const manifest::Signed<manifest::Body>& statement) {
  if (const auto* head = std::get_if<manifest::TreeHead>(&statement.body))
    return Claim{head->ledger, head->head};
  if (const auto* receipt = std::get_if<manifest::Receipt>(&statement.body))
    return Claim{receipt->ledger, receipt->head};
  return malformed(
      fmt::format("is a {} statement, expected a tree head or a receipt", name_of(kind_of(statement.body))));
}

/// Compares the heads in `path`. One that the operator signed but that is none of this ledger's shows a fork:
/// at most one fault a file. Anything else that does not fit is an error.
Status compare_heads(const std::string& path, const ledger::Log& log, std::vector<std::string>& faults) {
  DGX_TRY(const std::vector<Incoming> statements, read_statements(path));
  for (const auto& [statement, where] : statements) {
    const auto claim = claim_in(statement);
    if (!claim.ok()) return within(where, claim.error());
    if (claim->ledger != log.id()) return malformed(where + ": belongs to another ledger");
    if (statement.key_id != log.operator_id())
      return unauthorised(where + ": is not signed by the ledger's operator");
    const std::string fault = fault_of(claim->head, log);
    if (fault.empty()) continue;
    faults.push_back(where + ": " + fault);
    break;
  }
  return {};
}

/// The number of entries that `size` asks for: all without one.
Result<std::size_t> size_or_all(const ledger::Log& log, std::optional<std::int64_t> size) {
  if (!size) return log.entries.size();
  if (*size >= 1 && static_cast<std::uint64_t>(*size) <= log.entries.size())
    return static_cast<std::size_t>(*size);
  return usage_error(fmt::format("a tree of {} entries: the ledger has only {}", *size, log.entries.size()));
}

}  // namespace

std::string fault_of(const RootReference& head, const ledger::Log& log) {
  const auto count = static_cast<std::size_t>(head.count);
  if (count > log.entries.size())
    return fmt::format("was signed over {} entries, the ledger has {}", count, log.entries.size());
  return log.head(count) == head ? ""
                                 : fmt::format("records a different history of the first {} entries", count);
}

Result<Digest> statement_named(const std::string& name) {
  if (const auto id = digest_from_hex(name); id.ok()) return *id;
  DGX_TRY(const auto statement, manifest::read_any(name));
  return statement.id;
}

ledger::Visit visit_of(protocol::Replay& replay) {
  return [&replay](std::size_t index, const manifest::Signed<manifest::Body>& statement,
                   std::int64_t milliseconds) { replay.take(index, statement, milliseconds); };
}

Result<LedgerView> view_ledger(const LedgerFile& file) {
  protocol::Replay replay;
  DGX_TRY(ledger::Log log, read_ledger(file, visit_of(replay)));
  DGX_TRY(LedgerSummary summary, summarize(file, log));
  auto market = std::move(replay).finish();
  if (!market.ok()) return broken_ledger(file.path, market.error());
  return LedgerView{std::move(summary), std::move(log), std::move(market).value()};
}

Result<const protocol::TaskRecord*> find_task(const protocol::Market& market, const std::string& name) {
  std::string prefix = name;
  if (!is_hex(name) || name.size() < kLeastDigits) {
    DGX_TRY(const auto task, manifest::read_statement<manifest::Task>(name));
    prefix = task.id.hex();
  }
  const protocol::TaskRecord* found = nullptr;
  for (const auto& [id, record] : market.tasks()) {
    if (!id.hex().starts_with(prefix)) continue;
    if (found != nullptr) return usage_error(fmt::format("task {}: more than one id begins with it", name));
    found = &record;
  }
  if (found == nullptr) return usage_error(fmt::format("task {} is not in the ledger", name));
  return found;
}

Result<std::map<std::string, std::int64_t>> accounts_of(const LedgerView& view,
                                                        const std::optional<std::string>& task) {
  std::map<std::string, std::int64_t> all = view.market.balances();
  if (!task) {
    if (protocol::rechecks_verdicts(*view.market.policy())) return all;
    // The name says that nothing is paid out of the jackpot.
    auto jackpot = all.extract("jackpot");
    jackpot.key() = "jackpot_burned";
    all.insert(std::move(jackpot));
    return all;
  }
  DGX_TRY(const protocol::TaskRecord* record, find_task(view.market, *task));
  std::map<std::string, std::int64_t> out;
  for (const std::optional<Digest>& who : {std::optional(record->task.key_id), record->solver,
                                           protocol::verifier_at(*record, view.market.clock().now())}) {
    if (who) out[who->hex()] = all[who->hex()];
  }
  for (const protocol::Recheck& one : record->rechecks) out[one.who.hex()] = all[one.who.hex()];
  if (record->secret) {
    const std::string who = record->secret->statement.key_id.hex();
    out[who] = all[who];
  }
  if (record->audit && record->audit->auditor) {
    const std::string auditor = record->audit->auditor->drawn.verifier.hex();
    out[auditor] = all[auditor];
  }
  return out;
}

Result<LedgerCheck> check_ledger(const LedgerFile& file, const LedgerEvidence& evidence,
                                 const std::optional<std::string>& task) {
  DGX_TRY(Watch watch, Watch::open(evidence));
  protocol::Replay replay;
  const auto visit = [&](std::size_t index, const manifest::Signed<manifest::Body>& statement,
                         std::int64_t milliseconds) {
    if (index == 0) watch.begin();
    watch.before(milliseconds, replay.market);
    replay.take(index, statement, milliseconds);
  };
  DGX_TRY(const ledger::Log log, read_ledger(file, visit));
  LedgerCheck out;
  DGX_TRY(out.summary, summarize(file, log));
  const protocol::Market& market = replay.market;
  if (replay.fault)
    out.faults.push_back(
        fmt::format("{}: line {}: {}", file.path, replay.fault->index + 1, replay.fault->error.message));
  for (const std::string& path : evidence.against) DGX_CHECK(compare_heads(path, log, out.faults));
  DGX_TRY(auto seen, watch.compare(log, replay.market));
  std::move(seen.begin(), seen.end(), std::back_inserter(out.faults));
  out.not_anchored = watch.not_anchored(log, market);
  if (task && out.faults.empty()) {
    DGX_TRY([[maybe_unused]] const protocol::TaskRecord* record, find_task(market, *task));
  }
  out.tasks = std::ssize(market.tasks());
  out.settled = std::count_if(market.tasks().begin(), market.tasks().end(),
                              [](const auto& entry) { return entry.second.settlement.has_value(); });
  out.total = market.total();
  return out;
}

Result<LedgerSummary> head_of_ledger(const LedgerFile& file) {
  DGX_TRY(const ledger::Log log, read_ledger(file));
  return summarize(file, log);
}

Result<ledger::Log> read_as_operator(const LedgerWriter& writer, const crypto::SecretKey& key) {
  DGX_TRY(ledger::Log log, read_ledger(writer.file));
  DGX_TRY([[maybe_unused]] const LedgerSummary summary, summarize(writer.file, log));
  if (key.public_key() == log.operator_key()) return log;
  return unauthorised(
      fmt::format("{}: the key is not the operator's, {}", writer.file.path, log.operator_id().brief()));
}

Result<manifest::Signed<manifest::TreeHead>> sign_head(const LedgerWriter& writer) {
  DGX_TRY(const crypto::SecretKey key, read_key(writer.key));
  DGX_TRY(const ledger::Log log, read_as_operator(writer, key));
  return manifest::seal(ledger::tree_head(log, std::max(writer.clock(), log.now())), key);
}

Result<InclusionProof> prove_statement(const LedgerFile& file, const std::string& statement,
                                       std::optional<std::int64_t> size) {
  DGX_TRY(const ledger::Log log, read_ledger(file));
  DGX_TRY(const LedgerSummary summary, summarize(file, log));
  DGX_TRY(const std::size_t index, entry_named(file.path, log, statement));
  DGX_TRY(const std::size_t count, size_or_all(log, size));
  DGX_TRY(std::vector<Digest> path, ledger::prove_inclusion(log, index, count));
  return InclusionProof{summary.ledger,
                        log.entries[index].id,
                        static_cast<std::int64_t>(index),
                        log.entries[index].milliseconds,
                        log.head(count),
                        std::move(path)};
}

Result<ConsistencyProof> prove_growth(const LedgerFile& file, std::int64_t from,
                                      std::optional<std::int64_t> to) {
  DGX_TRY(const ledger::Log log, read_ledger(file));
  DGX_TRY(const LedgerSummary summary, summarize(file, log));
  DGX_TRY(const std::size_t old_size, size_or_all(log, from));
  DGX_TRY(const std::size_t new_size, size_or_all(log, to));
  DGX_TRY(std::vector<Digest> path, ledger::prove_consistency(log, old_size, new_size));
  return ConsistencyProof{summary.ledger, log.head(old_size), log.head(new_size), std::move(path)};
}

}  // namespace dgx::jobs
