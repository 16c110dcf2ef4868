#include "dgx/jobs/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dgx/crypto/random.h"
#include "settle_files.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Signed;

constexpr std::size_t kMaxStatementFileBytes = std::size_t{1} << 28;

/// The operator at work: his ledger, locked, and the market its entries give.
struct Session {
  crypto::SecretKey key;
  ledger::Writer writer;
  protocol::Market market;

  [[nodiscard]] static Result<Session> open(const LedgerWriter& options) {
    DGX_TRY(crypto::SecretKey key, read_key(options.key));
    auto copy = crypto::SecretKey::from_seed(key.seed());
    DGX_TRY(ledger::Writer writer, ledger::Writer::open(options.file.path, std::move(copy)));
    DGX_TRY([[maybe_unused]] const LedgerSummary summary, summarize(options.file, writer.log()));
    auto market = protocol::Market::replay(writer.log());
    if (!market.ok()) return broken_ledger(options.file.path, market.error());
    return Session{std::move(key), std::move(writer), std::move(market).value()};
  }

  /// No time of the ledger is before the last receipt's.
  [[nodiscard]] std::int64_t time(const LedgerWriter& options) const {
    return std::max(options.clock(), writer.log().now());
  }

  /// The ledger's head now, as its next entry; it records a pause if there was one.
  [[nodiscard]] Result<Signed<Body>> log_clock(const LedgerWriter& options, std::int64_t now) {
    manifest::TreeHead head = ledger::tree_head(writer.log(), now);
    head.pause = market.is_pause(now);
    if (head.pause && !options.after_pause) return silent(now - writer.log().now());
    DGX_TRY(Signed<Body> statement, manifest::seal_any(head, key));
    DGX_CHECK(market.apply(statement, now));
    return statement;
  }

 private:
  [[nodiscard]] Error silent(std::int64_t gap_ms) const {
    return usage_error(fmt::format("the ledger was silent for {} s while a deadline ran", gap_ms / 1000),
                       "if the clock is right, --after-pause records the pause and moves every deadline by it");
  }
};

/// Appends statements that the market allows, all of them or none.
Result<std::vector<Logged>> log_all(ledger::Writer& writer, std::vector<Signed<Body>> statements,
                                    std::int64_t now) {
  DGX_TRY(auto receipts, writer.append_all(statements, now));
  std::vector<Logged> out;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    out.push_back({std::move(statements[i]), std::move(receipts[i])});
  }
  return out;
}

bool is_transcript(const std::vector<Incoming>& statements) {
  const auto is = [](const Incoming& item, manifest::Kind kind) {
    return kind_of(item.statement.body) == kind;
  };
  return is(statements.front(), manifest::Kind::kTask) &&
         std::any_of(statements.begin(), statements.end(),
                     [&](const Incoming& item) { return is(item, manifest::Kind::kChallenge); });
}

/// What of a transcript is the operator's own word, or in his ledger: returns how many were taken out.
std::int64_t drop_known(std::vector<Incoming>& statements, const std::set<Digest>& known) {
  return static_cast<std::int64_t>(std::erase_if(statements, [&](const Incoming& item) {
    const manifest::Kind kind = kind_of(item.statement.body);
    return kind == manifest::Kind::kReceipt || kind == manifest::Kind::kTreeHead ||
           known.contains(item.statement.id);
  }));
}

std::set<Digest> ids_of(const ledger::Log& log) {
  std::set<Digest> out;
  for (const ledger::Entry& entry : log.entries) out.insert(entry.statement.id);
  return out;
}

}  // namespace

Result<std::vector<Incoming>> read_statements(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, kMaxStatementFileBytes));
  if (text.empty()) return malformed(path + ": is empty, expected statements");
  std::vector<Incoming> out;
  std::string_view rest = text;
  const bool several = rest.find('\n') != std::string_view::npos && rest.find('\n') + 1 < rest.size();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string where = several ? fmt::format("{}: line {}", path, out.size() + 1) : path;
    auto statement = manifest::open_any(rest.substr(0, end));
    if (!statement.ok()) return within(where, std::move(statement).error());
    out.push_back({std::move(statement).value(), where});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

Error broken_ledger(const std::string& path, const Error& rule) {
  return malformed(path + ": " + rule.message, "its operator let in what the rules forbid: dgx-settle check");
}

Result<manifest::Trust> load_trust(const std::optional<std::string>& path) {
  if (!path) return manifest::Trust();
  return manifest::Trust::load(*path);
}

Result<LedgerSummary> summarize(const LedgerFile& file, const ledger::Log& log) {
  DGX_TRY(const manifest::Trust trust, load_trust(file.trust));
  LedgerSummary out;
  out.ledger = log.id();
  out.operator_id = log.operator_id();
  DGX_TRY(out.trust, trust.check(log.operator_id(), file.path + ": the operator"));
  out.head = ledger::head_of(log.entries);
  out.milliseconds = log.now();
  out.torn = log.torn;
  return out;
}

Result<manifest::Policy> read_policy(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, kMaxPolicyFileBytes));
  auto policy = manifest::parse_policy_file(text);
  if (!policy.ok()) return within(path, std::move(policy).error());
  return policy;
}

Result<LedgerSummary> init_ledger(const LedgerWriter& writer, const std::string& policy_path) {
  DGX_TRY(const manifest::Policy policy, read_policy(policy_path));
  DGX_TRY(const crypto::SecretKey key, read_key(writer.key));
  manifest::LedgerPolicy entry{policy, {}};
  DGX_CHECK(crypto::random_bytes(entry.nonce.bytes));
  DGX_TRY(Signed<Body> first, manifest::seal_any(entry, key));
  DGX_TRY(const ledger::Log log, ledger::create(writer.file.path, std::move(first), key, writer.clock()));
  return summarize(writer.file, log);
}

Result<Appended> append_statements(const LedgerWriter& options, const std::vector<std::string>& paths) {
  std::vector<std::vector<Incoming>> files;
  for (const std::string& path : paths) {
    DGX_TRY(std::vector<Incoming> statements, read_statements(path));
    files.push_back(std::move(statements));
  }
  DGX_TRY(Session session, Session::open(options));
  const std::int64_t now = session.time(options);
  std::set<Digest> known = ids_of(session.writer.log());
  Appended out;
  std::vector<Signed<Body>> allowed;
  if (session.market.is_pause(now)) {
    DGX_TRY(Signed<Body> clock, session.log_clock(options, now));
    allowed.push_back(std::move(clock));
  }
  for (std::vector<Incoming>& statements : files) {
    if (is_transcript(statements)) out.skipped += drop_known(statements, known);
    for (Incoming& item : statements) {
      Status status = session.market.apply(item.statement, now);
      if (!status.ok()) return within(item.where, std::move(status).error());
      known.insert(item.statement.id);
      allowed.push_back(std::move(item.statement));
    }
  }
  if (!allowed.empty()) {
    DGX_TRY(out.logged, log_all(session.writer, std::move(allowed), now));
  }
  out.head = ledger::head_of(session.writer.log().entries);
  return out;
}

Result<std::vector<Logged>> run_ledger(const LedgerWriter& options, const std::optional<std::string>& task) {
  DGX_TRY(Session session, Session::open(options));
  std::optional<Digest> only;
  if (task) {
    DGX_TRY(const protocol::TaskRecord* record, find_task(session.market, *task));
    only = record->task.id;
  }
  const std::int64_t now = session.time(options);
  std::vector<Signed<Body>> statements;
  DGX_TRY(Signed<Body> clock, session.log_clock(options, now));
  statements.push_back(std::move(clock));
  for (manifest::Settlement& settlement : session.market.due(now)) {
    if (only && settlement.task != *only) continue;
    DGX_TRY(Signed<Body> statement, manifest::seal_any(std::move(settlement), session.key));
    DGX_CHECK(session.market.apply(statement, now));
    statements.push_back(std::move(statement));
  }
  return log_all(session.writer, std::move(statements), now);
}

Result<std::optional<std::int64_t>> milliseconds_to_run(const LedgerWriter& options) {
  DGX_TRY(const LedgerView view, view_ledger(options.file));
  const protocol::MarketClock& clock = view.market.clock();
  std::optional<std::int64_t> next;
  for (const auto& [id, record] : view.market.tasks()) {
    const protocol::Standing stands = protocol::standing(record, clock.now());
    if (stands.state == protocol::TaskState::kSettled) continue;
    const std::int64_t at = stands.deadline_ms ? clock.receipt_time(*stands.deadline_ms) + 1 : clock.receipt_now();
    next = std::min(next.value_or(at), at);
  }
  if (!next) return next;
  *next = std::min(*next, clock.receipt_now() + protocol::heartbeat_ms(*view.market.policy()));
  *next = std::max<std::int64_t>(0, *next - options.clock());
  return next;
}

Result<std::int64_t> clock_lag(const LedgerWriter& options) {
  DGX_TRY(const LedgerSummary summary, head_of_ledger(options.file));
  return std::max<std::int64_t>(0, summary.milliseconds - options.clock());
}

}  // namespace dgx::jobs
