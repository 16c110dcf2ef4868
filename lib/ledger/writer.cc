#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "dgx/core/parallel.h"
#include "dgx/ledger/index.h"
#include "dgx/ledger/ledger.h"
#include "scan.h"

namespace dgx::ledger {
namespace {

using manifest::Body;
using manifest::Receipt;
using manifest::RootReference;
using manifest::Signed;
using manifest::TreeHead;

Result<std::size_t> size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t out = std::filesystem::file_size(path, error);
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", path, error.message()), {}};
  return static_cast<std::size_t>(out);
}

Receipt receipt_for(const Log& log, const Entry& entry) {
  const RootReference head = log.head(log.tree.size());
  return {log.id(), entry.id, head.count - 1, entry.milliseconds, head};
}

Error exists_already(const std::string& path) {
  return {ErrorCode::kCannotCreate, fmt::format("{}: already exists", path), {}};
}

Status refuse_existing(const std::string& path) {
  if (exists(path)) return exists_already(path);
  return {};
}

/// Accepts the receipts that a killed create() may have left without a ledger: none, a first one, or a torn
/// one.
Status check_beginning(const std::string& path) {
  auto text = read_file(path, kMaxReceiptBytes);
  if (!text.ok())
    return text.error().code == ErrorCode::kMalformed ? exists_already(path) : std::move(text).error();
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) return {};
  const auto receipt = manifest::open_statement<Receipt>(std::string_view(*text).substr(0, end));
  const bool one = text->find('\n', end + 1) == std::string::npos;
  if (receipt.ok() && receipt->body.index == 0 && one) return {};
  return exists_already(path);
}

}  // namespace

/// A ledger exists as soon as its own file does, which is written last and atomically. Receipts without it
/// were left by a killed call. They are locked meanwhile, so that one of two concurrent calls is refused.
Result<Log> create(const std::string& path, Signed<Body> policy, const crypto::SecretKey& operator_key,
                   std::int64_t milliseconds, const LockWait& wait) {
  DGX_CHECK(check_first(policy));
  if (policy.signer != operator_key.public_key()) {
    return unauthorised(fmt::format("{}: the policy is not signed by the operator's key", path));
  }
  Log log;
  log.path = path;
  log.policy = std::move(policy);
  log.entries.push_back({log.policy.id, milliseconds});
  log.tree.add_hash(leaf_of(log.entries[0]));
  DGX_TRY(const auto receipt, manifest::seal(receipt_for(log, log.entries[0]), operator_key));
  const std::string line = log.policy.envelope + "\n";
  const std::string receipt_line = receipt.envelope + "\n";
  log.ledger_bytes = line.size();
  log.receipt_bytes = receipt_line.size();
  const std::string receipts = receipts_path(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  DGX_CHECK(refuse_existing(path));
  DGX_TRY(const FileLock lock, FileLock::acquire_file(receipts, wait));
  DGX_CHECK(refuse_existing(path));
  DGX_CHECK(check_beginning(receipts));
  Status status = truncate_file(receipts, 0);
  if (status.ok()) status = append_text(receipts, receipt_line);
  if (status.ok()) status = sync_folder(folder.empty() ? "." : folder);
  if (status.ok()) status = write_file(path, line, Clobber::kRefuse);
  // If only syncing the folder failed, the ledger exists and needs its receipts.
  if (!status.ok() && !exists(path)) static_cast<void>(remove_file(receipts));
  if (!status.ok()) return std::move(status).error();
  return log;
}

Writer::Writer(FileLock lock, crypto::SecretKey key, std::size_t most_bytes, int threads)
    : lock_(std::move(lock)), key_(std::move(key)), most_bytes_(most_bytes), threads_(threads) {}

Result<Writer> Writer::open(const std::string& path, crypto::SecretKey key, std::size_t most_bytes,
                            const LockWait& wait, const Reading& reading) {
  // FileLock::acquire() on a missing file fails without this hint.
  if (!exists(path))
    return Error{ErrorCode::kMissing, fmt::format("{}: no such ledger", path),
                 "make one with dgx-settle init"};
  DGX_TRY(FileLock lock, FileLock::acquire(path, wait));
  DGX_TRY(Scan scanned, scan(path, reading));
  if (scanned.log.operator_key() != key.public_key()) {
    return unauthorised(
        fmt::format("{}: the key is not the operator's, {}", path, scanned.log.operator_id().brief()));
  }
  Writer out(std::move(lock), std::move(key), most_bytes, reading.threads);
  out.log_ = std::move(scanned.log);
  out.ids_ = std::move(scanned.ids);
  if (!out.log_.torn.empty()) DGX_CHECK(out.cut_back());
  out.index_was_wrong_ = make_index(out.log_) == IndexFound::kWrong;
  return out;
}

/// Entries on their way into the ledger, and the lines that they add to both files.
struct Writer::Addition {
  std::vector<Entry> entries;
  std::vector<Signed<Receipt>> receipts;
  std::set<Digest> ids;
  std::string lines;
  std::string receipt_lines;
};

/// Makes the receipts of new entries, whose leaves it adds to the tree. On an error some of them are there.
Status Writer::prepare(const std::vector<Signed<Body>>& statements, std::int64_t milliseconds,
                       Addition& out) {
  const std::int64_t now = std::max(milliseconds, log_.now());
  std::vector<Receipt> receipts;
  for (const Signed<Body>& statement : statements) {
    if (contains(statement.id) || !out.ids.insert(statement.id).second)
      return not_allowed(
          fmt::format("{}: statement {} is already in the ledger", log_.path, statement.id.brief()));
    DGX_CHECK(check_tree_head(log_, statement));
    const Entry entry{statement.id,
                      now,
                      log_.ledger_bytes + out.lines.size(),
                      0,
                      kind_of(statement.body),
                      manifest::task_of(statement.body)};
    log_.tree.add_hash(leaf_of(entry));
    receipts.push_back(receipt_for(log_, entry));
    out.entries.push_back(entry);
    out.lines += statement.envelope + "\n";
  }
  std::vector<std::optional<Signed<Receipt>>> sealed(receipts.size());
  DGX_CHECK(for_each_index(receipts.size(), threads_, [&](std::size_t i) -> Status {
    DGX_TRY(sealed[i], manifest::seal(receipts[i], key_));
    return {};
  }));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    out.entries[i].receipt_offset = log_.receipt_bytes + out.receipt_lines.size();
    out.receipt_lines += sealed[i]->envelope + "\n";
    out.receipts.push_back(*std::move(sealed[i]));
  }
  return {};
}

/// Cuts receipts first: an entry without one does not count, but a receipt without an entry makes the ledger
/// malformed.
Status Writer::cut_back() const {
  DGX_CHECK(truncate_file(receipts_path(log_.path), log_.receipt_bytes));
  return truncate_file(log_.path, log_.ledger_bytes);
}

Status Writer::write(const Addition& addition) const {
  const std::string& path = log_.path;
  const std::size_t longer =
      std::max(log_.ledger_bytes + addition.lines.size(), log_.receipt_bytes + addition.receipt_lines.size());
  if (longer > most_bytes_) {
    return not_allowed(fmt::format("{}: would have {} bytes, at most {} allowed", path, longer, most_bytes_),
                       "start another ledger with dgx-settle init");
  }
  DGX_TRY(const std::size_t ledger_bytes, size_of(path));
  DGX_TRY(const std::size_t receipt_bytes, size_of(receipts_path(path)));
  if (ledger_bytes < log_.ledger_bytes || receipt_bytes < log_.receipt_bytes)
    return Error{ErrorCode::kIo, fmt::format("{}: has shrunk since it was read", path), {}};
  // A file that is longer has an append that failed and could not be cut back then.
  if (ledger_bytes != log_.ledger_bytes || receipt_bytes != log_.receipt_bytes) DGX_CHECK(cut_back());
  Status status = append_text(path, addition.lines);
  if (status.ok()) status = append_text(receipts_path(path), addition.receipt_lines);
  if (!status.ok()) static_cast<void>(cut_back());
  return status;
}

/// Takes what has been written into the log, whose tree has it already.
void Writer::take(Addition& addition) {
  const std::size_t before = log_.entries.size();
  log_.entries.insert(log_.entries.end(), addition.entries.begin(), addition.entries.end());
  ids_.merge(addition.ids);
  log_.ledger_bytes += addition.lines.size();
  log_.receipt_bytes += addition.receipt_lines.size();
  extend_index(log_, before);
}

Result<Signed<Receipt>> Writer::append(Signed<Body> statement, std::int64_t milliseconds) {
  std::vector<Signed<Body>> one;
  one.push_back(std::move(statement));
  DGX_TRY(auto receipts, append_all(std::move(one), milliseconds));
  return std::move(receipts.front());
}

Result<std::vector<Signed<Receipt>>> Writer::append_all(std::vector<Signed<Body>> statements,
                                                        std::int64_t milliseconds) {
  Addition addition;
  Status status = prepare(statements, milliseconds, addition);
  if (status.ok()) status = write(addition);
  if (!status.ok()) {
    log_.tree.shrink(log_.entries.size());
    return std::move(status).error();
  }
  take(addition);
  return std::move(addition.receipts);
}

TreeHead tree_head(const Log& log, std::int64_t milliseconds) { return {log.id(), log.head(), milliseconds}; }

std::int64_t clock_milliseconds() {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dgx::ledger
