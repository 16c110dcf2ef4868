#include "dgx/jobs/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dgx/core/inputs.h"
#include "dgx/crypto/random.h"
#include "settle/opening_store.h"
#include "settle/read_ledger.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Signed;

constexpr std::size_t kMaxStatementFileBytes = std::size_t{1} << 28;

/// An operator's session: their ledger, locked, and the market that its entries give.
///
/// Each statement is applied to the market before it enters the ledger, so the market is always that of the
/// entries and of those about to be written. All of them get one time, which time() decides once. The lock is
/// held as long as the session lives; another writer gets kLocked.
struct Session {
  crypto::SecretKey key;
  ledger::Writer writer;
  protocol::Market market;

  [[nodiscard]] static Result<Session> open(const LedgerWriter& options) {
    DGX_TRY(crypto::SecretKey key, read_key(options.key));
    auto copy = crypto::SecretKey::from_seed(key.seed());
    protocol::Replay replay;
    DGX_TRY(ledger::Writer writer, open_writer(options, std::move(copy), visit_of(replay)));
    DGX_TRY([[maybe_unused]] const LedgerSummary summary, summarize(options.file, writer.log()));
    auto market = std::move(replay).finish();
    if (!market.ok()) return broken_ledger(options.file.path, market.error());
    return Session{std::move(key), std::move(writer), std::move(market).value()};
  }

  /// The time of what is logged now, never before the last receipt's. kNotAllowed if the clock is far ahead:
  /// in a ledger in which nothing waits it would move the ledger's time for good.
  [[nodiscard]] Result<std::int64_t> time(const LedgerWriter& options) const {
    constexpr std::int64_t kDay = 24 * std::int64_t{3'600'000};
    const std::int64_t gap = options.clock() - writer.log().now();
    if (options.after_pause || gap <= 30 * kDay) return writer.log().now() + std::max<std::int64_t>(gap, 0);
    return not_allowed(fmt::format("the ledger's last receipt is {} days old", gap / kDay),
                       "if the clock is right, confirm it with --after-pause");
  }

  /// Seals the ledger's current head as its next entry; it records a pause if there was one.
  [[nodiscard]] Result<Signed<Body>> log_clock(const LedgerWriter& options, std::int64_t now) {
    manifest::TreeHead head = ledger::tree_head(writer.log(), now);
    head.pause = market.is_pause(now);
    if (head.pause && !options.after_pause) return silent(now - writer.log().now());
    DGX_TRY(Signed<Body> statement, manifest::seal_any(head, key));
    DGX_CHECK(market.apply(statement, now));
    return statement;
  }

  /// True if the clock is so far behind the last receipt that the ledger's time stands still.
  [[nodiscard]] bool is_behind(const LedgerWriter& options) const {
    return options.clock() + protocol::heartbeat_ms(*market.policy()) < writer.log().now();
  }

 private:
  [[nodiscard]] Error silent(std::int64_t gap_ms) const {
    return not_allowed(
        fmt::format("the ledger was silent for {} s while a deadline ran", gap_ms / 1000),
        "if the clock is right, --after-pause records the pause and moves every deadline by it");
  }
};

/// Appends statements that the market allows, all of them or none.
Result<std::vector<Logged>> log_all(ledger::Writer& writer, std::vector<Signed<Body>> statements,
                                    std::int64_t now) {
  std::vector<Logged> out;
  if (statements.empty()) return out;
  DGX_TRY(auto receipts, writer.append_all(statements, now));
  for (std::size_t i = 0; i < statements.size(); ++i) {
    out.push_back({std::move(statements[i]), std::move(receipts[i])});
  }
  return out;
}

/// Statements about to enter the ledger, at one time: each is checked after those before it, all are written
/// together.
///
/// Two things can refuse one: the rules, and the room. Each of the ledger's two files has a limit, and room
/// in it is kept for what must still be possible (dgx-ledger(5), "LIMITS"). `reserved_bytes_` counts that
/// room; a statement that adds to it must leave it free, and one that the room is kept for may use it.
class Batch {
 public:
  Batch(Session& session, std::int64_t now)
      : session_(session),
        now_(now),
        used_bytes_(session.writer.size_bytes()),
        reserved_bytes_(session.market.reserved_bytes()) {}

  [[nodiscard]] bool knows(const Digest& statement) const {
    return session_.writer.contains(statement) || ids_.contains(statement);
  }

  /// Takes a statement that the rules allow and for which there is room; on an error nothing changes.
  [[nodiscard]] Status take(Signed<Body> statement) {
    // The file that grows more: the ledger or its receipts.
    const std::size_t bytes = std::max(statement.envelope.size() + 1, ledger::kMaxReceiptBytes);
    const std::optional<std::size_t> reserve = session_.market.reserve_of(statement);
    const std::size_t reserved = reserve ? reserved_bytes_ + *reserve : 0;
    DGX_CHECK(check_room(bytes, reserved));
    DGX_CHECK(session_.market.apply(statement, now_));
    take_allowed(std::move(statement), bytes);
    reserved_bytes_ += reserve.value_or(0);
    return {};
  }

  /// Takes a tree head that the session has already applied, for which there is room.
  void take_allowed(Signed<Body> statement, std::size_t bytes = ledger::kMaxReceiptBytes) {
    used_bytes_ += bytes;
    ids_.insert(statement.id);
    statements_.push_back(std::move(statement));
  }

  [[nodiscard]] Result<std::vector<Logged>> log() {
    return log_all(session_.writer, std::move(statements_), now_);
  }

 private:
  [[nodiscard]] Status check_room(std::size_t bytes, std::size_t reserved) const {
    const std::size_t most = session_.writer.most_bytes();
    if (used_bytes_ + bytes + reserved <= most) return {};
    return not_allowed(
        fmt::format(
            "no room: {} bytes on top of {} in use and {} reserved for what is open, at most {} allowed",
            bytes, used_bytes_, reserved, most),
        "start another ledger with dgx-settle init; what is open here can still be finished");
  }

  Session& session_;
  std::int64_t now_;            ///< the receipts' time
  std::size_t used_bytes_;      ///< size of the longer file, these statements included
  std::size_t reserved_bytes_;  ///< an upper bound: what a statement frees is not taken off
  std::set<Digest> ids_;
  std::vector<Signed<Body>> statements_;
};

bool is_kind(const Result<Incoming>& item, manifest::Kind kind) {
  return item.ok() && kind_of(item->statement.body) == kind;
}

bool is_transcript(const std::vector<Result<Incoming>>& items) {
  return is_kind(items.front(), manifest::Kind::kTask) &&
         std::any_of(items.begin(), items.end(),
                     [](const auto& item) { return is_kind(item, manifest::Kind::kChallenge); });
}

/// Takes one item of a file; an error names its place.
Status take(Batch& batch, Result<Incoming> item) {
  if (!item.ok()) return std::move(item).error();
  Status status = batch.take(std::move(item->statement));
  return status.ok() ? Status() : Status(within(item->where, std::move(status).error()));
}

}  // namespace

std::vector<Result<Incoming>> read_each(const std::string& path) {
  const auto text = read_file(path, kMaxStatementFileBytes);
  if (!text.ok()) return {text.error()};
  if (text->empty()) return {malformed(path + ": is empty, expected statements")};
  std::vector<Result<Incoming>> out;
  std::string_view rest = *text;
  const bool several = rest.find('\n') != std::string_view::npos && rest.find('\n') + 1 < rest.size();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string where = several ? fmt::format("{}: line {}", path, out.size() + 1) : path;
    auto statement = manifest::open_any(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (statement.ok()) {
      out.emplace_back(Incoming{std::move(statement).value(), std::move(where)});
    } else {
      out.emplace_back(within(std::move(where), std::move(statement).error()));
    }
  }
  return out;
}

Result<std::vector<Incoming>> read_statements(const std::string& path) {
  std::vector<Incoming> out;
  for (Result<Incoming>& item : read_each(path)) {
    DGX_TRY(Incoming statement, std::move(item));
    out.push_back(std::move(statement));
  }
  return out;
}

Error broken_ledger(const std::string& path, const Error& rule) {
  return malformed(path + ": " + rule.message,
                   "its operator logged what the rules forbid: run dgx-settle check");
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
  out.head = log.head();
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

namespace {

/// The summary of a ledger that is there already. kCannotCreate if it has another policy or operator.
Result<LedgerSummary> existing_ledger(const LedgerWriter& writer, const manifest::Policy& policy,
                                      const crypto::SecretKey& key) {
  const std::string& path = writer.file.path;
  DGX_TRY(const ledger::Log log, read_ledger(writer.file));
  const auto* const first = std::get_if<manifest::LedgerPolicy>(&log.policy.body);
  const bool same_key = log.operator_id() == crypto::key_id(key.public_key());
  if (!same_key || first == nullptr || first->policy != policy)
    return Error{ErrorCode::kCannotCreate,
                 fmt::format("{}: is there already, with another {}", path, same_key ? "policy" : "operator"),
                 "choose another name"};
  DGX_TRY(LedgerSummary out, summarize(writer.file, log));
  out.existed = true;
  return out;
}

}  // namespace

void note_ledger(const LedgerFile& file) {
  note_input(file.path);
  note_input(ledger::receipts_path(file.path));
}

Result<LedgerSummary> init_ledger(const LedgerWriter& writer, const std::string& policy_path) {
  DGX_TRY(const manifest::Policy policy, read_policy(policy_path));
  DGX_TRY(const crypto::SecretKey key, read_key(writer.key));
  if (writer.skip_existing && exists(writer.file.path)) return existing_ledger(writer, policy, key);
  manifest::LedgerPolicy entry{policy, {}};
  DGX_CHECK(crypto::random_bytes(entry.nonce.bytes));
  DGX_TRY(Signed<Body> first, manifest::seal_any(entry, key));
  DGX_TRY(const ledger::Log log,
          ledger::create(writer.file.path, std::move(first), key, writer.clock(), writer.wait));
  return summarize(writer.file, log);
}

namespace {

/// The statements of each file, or the errors of its lines.
using Files = std::vector<std::vector<Result<Incoming>>>;

/// Refuses statements that lock money while the ledger's time stands still: no deadline would pass.
Status check_time_passes(const Result<Incoming>& item, bool behind) {
  const bool locks = is_kind(item, manifest::Kind::kTask) ||
                     is_kind(item, manifest::Kind::kBeaconCommitment) ||
                     is_kind(item, manifest::Kind::kAssign) || is_kind(item, manifest::Kind::kChallenge);
  if (!behind || !locks) return {};
  return within(item->where,
                not_allowed("the clock is behind the ledger's last receipt: no deadline would pass",
                            "set the clock, or wait until it has caught up"));
}

/// Appends what is new in these files; `behind` as in check_time_passes(). A pause, if there was one, is
/// recorded first. With kAppendNone the first refusal is returned and nothing written; else refusals are
/// listed, and each statement is judged as if the refused ones were not there.
Result<Appended> append_to(Session& session, const LedgerWriter& options, Files files, OnRefusal on_refusal,
                           bool behind = false) {
  DGX_TRY(const std::int64_t now, session.time(options));
  Batch batch(session, now);
  if (session.market.is_pause(now)) {
    DGX_TRY(Signed<Body> clock, session.log_clock(options, now));
    batch.take_allowed(std::move(clock));
  }
  Appended out;
  for (std::vector<Result<Incoming>>& items : files) {
    const bool transcript = !items.empty() && is_transcript(items);
    for (Result<Incoming>& item : items) {
      if (item.ok() &&
          (batch.knows(item->statement.id) || (transcript && is_kind(item, manifest::Kind::kReceipt)))) {
        ++out.skipped;
        continue;
      }
      Status status = check_time_passes(item, behind);
      if (status.ok()) status = take(batch, std::move(item));
      if (status.ok()) continue;
      if (on_refusal == OnRefusal::kAppendNone) return std::move(status).error();
      out.refused.push_back(std::move(status).error());
    }
  }
  DGX_TRY(out.logged, batch.log());
  out.head = session.writer.log().head();
  return out;
}

Result<Appended> append_now(const LedgerWriter& options, Files files, OnRefusal on_refusal) {
  DGX_TRY(Session session, Session::open(options));
  const bool behind = session.is_behind(options);
  return append_to(session, options, std::move(files), on_refusal, behind);
}

/// A statement with the files fetched for it, if it needs any.
struct Fetched {
  Incoming item;
  std::optional<FetchedFiles> files;
};

/// The statements of one task that wait for files, and a limit on each file's length: the total length of all
/// when the groups were ordered, so that one that grows afterwards cannot hold up the groups after it.
struct Group {
  std::vector<Incoming> statements;
  std::int64_t most_bytes = manifest::kMaxInteger;
};

/// Orders the smallest fetches first; those whose files are not all there last.
std::vector<Group> in_order(std::vector<std::vector<Incoming>> tasks,
                            const std::optional<std::string>& store) {
  std::vector<Group> out;
  for (std::vector<Incoming>& statements : tasks) {
    std::optional<std::int64_t> bytes = store ? std::optional<std::int64_t>(0) : std::nullopt;
    for (const Incoming& item : statements) {
      const auto more = bytes ? bytes_in_store(*store, item.statement) : std::nullopt;
      bytes = more ? std::optional(std::min(*bytes + *more, manifest::kMaxInteger)) : std::nullopt;
    }
    out.push_back({std::move(statements), bytes.value_or(manifest::kMaxInteger)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Group& a, const Group& b) { return a.most_bytes < b.most_bytes; });
  return out;
}

/// Fetches the files of one task's statements. Returns those that can be appended, the errors of the rest in
/// `out`. The ledger is not locked.
Result<std::vector<Fetched>> fetch_all(const LedgerWriter& options, Group group, Appended& out) {
  const OpeningStore copies(options.file.path);
  DGX_TRY(const LedgerView view, view_ledger(options.file));
  std::vector<Fetched> good;
  const FetchFrom from{options.store, group.most_bytes, options.threads};
  for (Incoming& item : group.statements) {
    if (view.log.find(item.statement.id)) {
      ++out.skipped;
    } else if (!needs_fetch(item.statement.body)) {
      good.push_back({std::move(item), {}});
    } else {
      auto files = copies.fetch(from, view, item.statement);
      if (files.ok()) {
        good.push_back({std::move(item), std::move(files).value()});
      } else {
        out.refused.push_back(within(item.where, std::move(files).error()));
      }
    }
  }
  return good;
}

/// Keeps the fetched files and appends the statements, under one lock of the ledger: another process may have
/// logged one of them meanwhile; then its copy is the ledger's.
Result<Appended> append_with_copies(const LedgerWriter& options, std::vector<Fetched> statements) {
  const OpeningStore copies(options.file.path);
  DGX_TRY(Session session, Session::open(options));
  std::vector<Result<Incoming>> good;
  std::vector<Signed<Body>> kept;
  for (Fetched& one : statements) {
    if (one.files && !session.writer.contains(one.item.statement.id)) {
      Status status = copies.keep(one.item.statement, *std::move(one.files));
      if (!status.ok()) {
        good.emplace_back(within(one.item.where, std::move(status).error()));
        continue;
      }
      kept.push_back(one.item.statement);
    }
    good.emplace_back(std::move(one.item));
  }
  Files group;
  group.push_back(std::move(good));
  // A failing disk may have taken the entries after all: their copies stay.
  DGX_TRY(Appended out, append_to(session, options, std::move(group), OnRefusal::kKeepGoing));
  for (const Signed<Body>& statement : kept) {
    if (!session.writer.contains(statement.id)) copies.drop(statement);
  }
  return out;
}

/// Fetches the files that one task's statements name, and appends the statements that can be.
Status append_fetched(const LedgerWriter& options, Group group, Appended& out) {
  DGX_TRY(std::vector<Fetched> good, fetch_all(options, std::move(group), out));
  if (good.empty()) return {};
  DGX_TRY(Appended appended, append_with_copies(options, std::move(good)));
  std::move(appended.logged.begin(), appended.logged.end(), std::back_inserter(out.logged));
  std::move(appended.refused.begin(), appended.refused.end(), std::back_inserter(out.refused));
  out.skipped += appended.skipped;
  out.head = appended.head;
  return {};
}

}  // namespace

Result<Appended> append_signed(const LedgerWriter& options, std::vector<Signed<Body>> statements) {
  Files files(1);
  for (Signed<Body>& one : statements) {
    std::string where(name_of(kind_of(one.body)));
    files.front().emplace_back(Incoming{std::move(one), std::move(where)});
  }
  return append_now(options, std::move(files), OnRefusal::kAppendNone);
}

Result<Appended> append_statements(const LedgerWriter& options, const std::vector<std::string>& paths,
                                   OnRefusal on_refusal) {
  Files files;
  for (const std::string& path : paths) {
    files.push_back(read_each(path));
    if (on_refusal == OnRefusal::kKeepGoing) continue;
    for (const Result<Incoming>& item : files.back()) {
      if (!item.ok()) return item.error();
    }
  }
  // All statements get the time at which they were handed in, however long the fetches take.
  LedgerWriter at_once = options;
  at_once.clock = [begun = options.clock()] { return begun; };
  Parted parted = part(std::move(files));
  DGX_TRY(Appended out, append_now(at_once, std::move(parted.now), on_refusal));
  for (Group& group : in_order(std::move(parted.later), options.store)) {
    Status status = append_fetched(at_once, std::move(group), out);
    if (!status.ok()) out.refused.push_back(std::move(status).error());
  }
  return out;
}

Result<Appended> append_made(const LedgerWriter& options, const MakeStatements& make) {
  DGX_TRY(Session session, Session::open(options));
  DGX_TRY(std::vector<Unsealed> made, make(session.writer.log(), session.market));
  Files files(1);
  for (Unsealed& one : made) {
    DGX_TRY(Signed<Body> statement, manifest::seal_any(std::move(one.body), session.key));
    files.front().emplace_back(Incoming{std::move(statement), std::move(one.where)});
  }
  return append_to(session, options, std::move(files), OnRefusal::kAppendNone);
}

Result<std::vector<Logged>> run_ledger(const LedgerWriter& options, const std::optional<std::string>& task) {
  DGX_TRY(Session session, Session::open(options));
  std::optional<Digest> only;
  if (task) {
    DGX_TRY(const protocol::TaskRecord* record, find_task(session.market, *task));
    only = record->task.id;
  }
  DGX_TRY(const std::int64_t now, session.time(options));
  std::vector<Signed<Body>> statements;
  DGX_TRY(Signed<Body> clock, session.log_clock(options, now));
  statements.push_back(std::move(clock));
  for (manifest::Settlement& settlement : session.market.due(now)) {
    if (only && settlement.task != *only) continue;
    DGX_TRY(Signed<Body> statement, manifest::seal_any(std::move(settlement), session.key));
    DGX_CHECK(session.market.apply(statement, now));
    statements.push_back(std::move(statement));
  }
  DGX_TRY(auto logged, log_all(session.writer, std::move(statements), now));
  OpeningStore(options.file.path).prune(session.market);
  return logged;
}

Result<std::int64_t> clock_lag(const LedgerWriter& options) {
  DGX_TRY(const LedgerSummary summary, head_of_ledger(options.file));
  return std::max<std::int64_t>(0, summary.milliseconds - options.clock());
}

}  // namespace dgx::jobs
