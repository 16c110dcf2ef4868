#include "dgx/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "dgx/merkle/digests.h"

namespace dgx::ledger {
namespace {

using manifest::Body;
using manifest::Receipt;
using manifest::RootReference;
using manifest::Signed;
using manifest::TreeHead;

constexpr std::string_view kLedgerSuffix = ".jsonl";

RootReference head_of(const merkle::TreeBuilder& tree) {
  return {tree.root(), static_cast<std::int64_t>(tree.size())};
}

Digest leaf_of(const Entry& entry) {
  return merkle::ledger_leaf(entry.statement.id, static_cast<std::uint64_t>(entry.milliseconds));
}

/// A file's complete lines, borrowed; `torn` if a crash left an incomplete one after them.
struct Lines {
  std::vector<std::string_view> lines;
  bool torn = false;
};

Lines split(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      out.torn = true;
      break;
    }
    out.lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// A log, the ids and tree of its entries, and how many bytes of both files count.
struct Scan {
  Log log;
  std::set<Digest> ids;
  merkle::TreeBuilder tree;
  std::size_t ledger_bytes = 0;
  std::size_t receipt_bytes = 0;
};

Error at_line(const std::string& path, std::size_t index, Error error) {
  return within(fmt::format("{}: line {}", path, index + 1), std::move(error));
}

/// Checks an entry's receipt. The entry's leaf must be in scan.tree already, the entry not yet in scan.log.
Status check_receipt(const Receipt& receipt, const Scan& scan, const Entry& entry) {
  const Log& log = scan.log;
  const Digest& ledger = log.entries.empty() ? entry.statement.id : log.id();
  if (receipt.ledger != ledger) return malformed("receipt: ledger: names another ledger");
  if (receipt.statement != entry.statement.id)
    return malformed("receipt: statement: is not the entry of this line");
  if (receipt.index != static_cast<std::int64_t>(log.entries.size()))
    return malformed("receipt: index: is not this line's");
  if (!log.entries.empty() && receipt.milliseconds < log.now()) {
    return malformed("receipt: milliseconds: earlier than the receipt before");
  }
  if (receipt.head != head_of(scan.tree)) return malformed("receipt: head: is not the recomputed tree's");
  return {};
}

/// Checks that a tree head in the log is this ledger's head just before it.
Status check_tree_head(const Log& log, const merkle::TreeBuilder& tree, const Signed<Body>& statement) {
  const TreeHead* head = std::get_if<TreeHead>(&statement.body);
  if (head == nullptr) return {};
  if (log.entries.empty() || head->ledger != log.id())
    return malformed("tree head: ledger: names another ledger");
  if (head->head != head_of(tree)) return malformed("tree head: head: is not this ledger's");
  return {};
}

Status check_first(const Signed<Body>& statement) {
  if (std::holds_alternative<manifest::LedgerPolicy>(statement.body)) return {};
  return malformed(fmt::format("the first statement is a {}, expected the operator's policy",
                               manifest::name_of(manifest::kind_of(statement.body))));
}

/// Adds one entry to the scan, which after an error must not be used.
Status add_entry(Scan& scan, std::string_view entry_line, std::string_view receipt_line) {
  DGX_TRY(Signed<Body> statement, manifest::open_any(entry_line));
  if (scan.log.entries.empty()) DGX_CHECK(check_first(statement));
  DGX_CHECK(check_tree_head(scan.log, scan.tree, statement));
  auto receipt = manifest::open_statement<Receipt>(receipt_line);
  if (!receipt.ok()) return within("receipt", std::move(receipt).error());
  const Digest& operator_id = scan.log.entries.empty() ? statement.key_id : scan.log.operator_id();
  if (receipt->key_id != operator_id) return unauthorised("receipt: is not signed by the ledger's operator");
  if (!scan.ids.insert(statement.id).second) return malformed("repeats an earlier statement");
  Entry entry{std::move(statement), receipt->body.milliseconds};
  scan.tree.add_hash(leaf_of(entry));
  DGX_CHECK(check_receipt(receipt->body, scan, entry));
  scan.log.entries.push_back(std::move(entry));
  scan.ledger_bytes += entry_line.size() + 1;
  scan.receipt_bytes += receipt_line.size() + 1;
  return {};
}

std::string torn_words(const Lines& entries, const Lines& receipts) {
  const std::size_t first = receipts.lines.size() + 1;
  const std::size_t last = entries.lines.size() + (entries.torn ? 1 : 0);
  if (last < first) return {};
  if (last > first) return fmt::format("lines {} to {} have no receipt; they do not count", first, last);
  return entries.torn ? fmt::format("line {} was cut off while it was written; it does not count", last)
                      : fmt::format("line {} has no receipt; it does not count", last);
}

/// Checks the numbers of lines. A crash leaves no receipt without its entry: entries are written first and
/// cut last.
Status check_counts(const std::string& path, const Lines& entries, const Lines& receipts) {
  const std::size_t count = receipts.lines.size();
  if (entries.lines.size() < count) {
    return malformed(fmt::format("{}: {} entries, but {} receipts", path, entries.lines.size(), count));
  }
  if (receipts.torn && entries.lines.size() == count)
    return malformed(fmt::format("{}: has a cut-off line without an entry", receipts_path(path)));
  if (count == 0) return malformed(fmt::format("{}: has no entries", path));
  return {};
}

Result<Scan> scan_text(const std::string& path, std::string_view ledger, std::string_view receipts_text) {
  const Lines entries = split(ledger);
  const Lines receipts = split(receipts_text);
  DGX_CHECK(check_counts(path, entries, receipts));
  Scan scan;
  scan.log.entries.reserve(receipts.lines.size());
  for (std::size_t i = 0; i < receipts.lines.size(); ++i) {
    Status status = add_entry(scan, entries.lines[i], receipts.lines[i]);
    if (!status.ok()) return at_line(path, i, std::move(status).error());
  }
  scan.log.torn = torn_words(entries, receipts);
  return scan;
}

Result<std::size_t> size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t out = std::filesystem::file_size(path, error);
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", path, error.message()), {}};
  return static_cast<std::size_t>(out);
}

/// The first `count` lines of a text, or all of it if there are fewer.
std::string_view first_lines(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (; count > 0 && end < text.size(); --count) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  return text.substr(0, end);
}

/// Reads receipts before entries. If a writer adds some meanwhile, only the entries of the receipts read are
/// considered: the later ones are not torn, but newer than this reader.
Result<Scan> scan_files(const std::string& path) {
  if (!exists(path)) return Error{ErrorCode::kMissing, fmt::format("{}: no such ledger", path), {}};
  DGX_TRY(const std::string receipts, read_file(receipts_path(path), kMaxLedgerBytes));
  DGX_TRY(const std::string ledger, read_file(path, kMaxLedgerBytes));
  DGX_TRY(const std::size_t receipts_now, size_of(receipts_path(path)));
  if (receipts_now == receipts.size()) return scan_text(path, ledger, receipts);
  const std::size_t count = split(receipts).lines.size();
  return scan_text(path, first_lines(ledger, count), first_lines(receipts, count));
}

std::vector<Digest> leaf_hashes(const Log& log, std::size_t size) {
  std::vector<Digest> out;
  out.reserve(size);
  for (std::size_t i = 0; i < size; ++i) out.push_back(leaf_of(log.entries[i]));
  return out;
}

Status check_size(const Log& log, std::size_t size) {
  if (size >= 1 && size <= log.entries.size()) return {};
  return usage_error(fmt::format("tree size {}: the ledger has {} entries", size, log.entries.size()));
}

Result<Signed<Receipt>> make_receipt(const Digest& ledger, const Entry& entry, const RootReference& head,
                                     const crypto::SecretKey& key) {
  return manifest::seal(Receipt{ledger, entry.statement.id, head.count - 1, entry.milliseconds, head}, key);
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
  const Lines lines = split(*text);
  if (lines.lines.empty()) return {};
  const auto receipt = manifest::open_statement<Receipt>(lines.lines.front());
  if (receipt.ok() && receipt->body.index == 0 && lines.lines.size() == 1) return {};
  return exists_already(path);
}

}  // namespace

std::optional<std::size_t> Log::find(const Digest& statement) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.statement.id == statement; });
  if (found == entries.end()) return std::nullopt;
  return static_cast<std::size_t>(found - entries.begin());
}

std::string receipts_path(const std::string& path) {
  const bool suffixed = path.ends_with(kLedgerSuffix);
  return path.substr(0, path.size() - (suffixed ? kLedgerSuffix.size() : 0)) + ".receipts.jsonl";
}

RootReference head_of(std::span<const Entry> entries) {
  merkle::TreeBuilder tree;
  for (const Entry& entry : entries) tree.add_hash(leaf_of(entry));
  return head_of(tree);
}

/// A ledger exists as soon as its own file does, which is written last and atomically. Receipts without it
/// were left by a killed call. They are locked meanwhile, so that one of two concurrent calls is refused.
Result<Log> create(const std::string& path, Signed<Body> policy, const crypto::SecretKey& operator_key,
                   std::int64_t milliseconds, const LockWait& wait) {
  DGX_CHECK(check_first(policy));
  if (policy.signer != operator_key.public_key()) {
    return unauthorised(fmt::format("{}: the policy is not signed by the operator's key", path));
  }
  Log log;
  log.entries.push_back({std::move(policy), milliseconds});
  DGX_TRY(const auto receipt, make_receipt(log.id(), log.entries[0], head_of(log.entries), operator_key));
  const std::string receipts = receipts_path(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  DGX_CHECK(refuse_existing(path));
  DGX_TRY(const FileLock lock, FileLock::acquire_file(receipts, wait));
  DGX_CHECK(refuse_existing(path));
  DGX_CHECK(check_beginning(receipts));
  Status status = truncate_file(receipts, 0);
  if (status.ok()) status = append_text(receipts, receipt.envelope + "\n");
  if (status.ok()) status = sync_folder(folder.empty() ? "." : folder);
  if (status.ok()) status = write_file(path, log.entries[0].statement.envelope + "\n", Clobber::kRefuse);
  // If only syncing the folder failed, the ledger exists and needs its receipts.
  if (!status.ok() && !exists(path)) static_cast<void>(remove_file(receipts));
  if (!status.ok()) return std::move(status).error();
  return log;
}

Result<Log> read(const std::string& path) {
  DGX_TRY(Scan scan, scan_files(path));
  return std::move(scan.log);
}

Writer::Writer(std::string path, FileLock lock, crypto::SecretKey key, std::size_t most_bytes)
    : path_(std::move(path)), lock_(std::move(lock)), key_(std::move(key)), most_bytes_(most_bytes) {}

Result<Writer> Writer::open(const std::string& path, crypto::SecretKey key, std::size_t most_bytes,
                            const LockWait& wait) {
  // FileLock::acquire() on a missing file fails without this hint.
  if (!exists(path))
    return Error{ErrorCode::kMissing, fmt::format("{}: no such ledger", path),
                 "make one with dgx-settle init"};
  DGX_TRY(FileLock lock, FileLock::acquire(path, wait));
  DGX_TRY(Scan scan, scan_files(path));
  if (scan.log.operator_key() != key.public_key()) {
    return unauthorised(
        fmt::format("{}: the key is not the operator's, {}", path, scan.log.operator_id().brief()));
  }
  Writer out(path, std::move(lock), std::move(key), most_bytes);
  out.log_ = std::move(scan.log);
  out.ids_ = std::move(scan.ids);
  out.tree_ = std::move(scan.tree);
  out.bytes_ = {scan.ledger_bytes, scan.receipt_bytes};
  if (!out.log_.torn.empty()) DGX_CHECK(out.cut_back());
  return out;
}

/// Entries on their way into the ledger, and the lines that they add to both files.
struct Writer::Addition {
  std::vector<Entry> entries;
  std::vector<Signed<Receipt>> receipts;
  std::set<Digest> ids;
  merkle::TreeBuilder tree;
  std::string lines;
  std::string receipt_lines;
};

Result<Writer::Addition> Writer::prepare(std::vector<Signed<Body>> statements,
                                         std::int64_t milliseconds) const {
  Addition out;
  out.tree = tree_;
  const std::int64_t now = std::max(milliseconds, log_.now());
  for (Signed<Body>& statement : statements) {
    if (contains(statement.id) || !out.ids.insert(statement.id).second)
      return not_allowed(
          fmt::format("{}: statement {} is already in the ledger", path_, statement.id.brief()));
    DGX_CHECK(check_tree_head(log_, out.tree, statement));
    Entry entry{std::move(statement), now};
    out.tree.add_hash(leaf_of(entry));
    DGX_TRY(auto receipt, make_receipt(log_.id(), entry, head_of(out.tree), key_));
    out.lines += entry.statement.envelope + "\n";
    out.receipt_lines += receipt.envelope + "\n";
    out.entries.push_back(std::move(entry));
    out.receipts.push_back(std::move(receipt));
  }
  return out;
}

/// Cuts receipts first: an entry without one does not count, but a receipt without an entry makes the ledger
/// malformed.
Status Writer::cut_back() const {
  DGX_CHECK(truncate_file(receipts_path(path_), bytes_.receipts));
  return truncate_file(path_, bytes_.ledger);
}

Status Writer::write(const Addition& addition) const {
  const std::size_t longer =
      std::max(bytes_.ledger + addition.lines.size(), bytes_.receipts + addition.receipt_lines.size());
  if (longer > most_bytes_) {
    return not_allowed(fmt::format("{}: would have {} bytes, at most {} allowed", path_, longer, most_bytes_),
                       "start another ledger with dgx-settle init");
  }
  DGX_TRY(const std::size_t ledger_bytes, size_of(path_));
  DGX_TRY(const std::size_t receipt_bytes, size_of(receipts_path(path_)));
  if (ledger_bytes < bytes_.ledger || receipt_bytes < bytes_.receipts)
    return Error{ErrorCode::kIo, fmt::format("{}: has shrunk since it was read", path_), {}};
  // A file that is longer has an append that failed and could not be cut back then.
  if (ledger_bytes != bytes_.ledger || receipt_bytes != bytes_.receipts) DGX_CHECK(cut_back());
  Status status = append_text(path_, addition.lines);
  if (status.ok()) status = append_text(receipts_path(path_), addition.receipt_lines);
  if (!status.ok()) static_cast<void>(cut_back());
  return status;
}

Result<Signed<Receipt>> Writer::append(Signed<Body> statement, std::int64_t milliseconds) {
  std::vector<Signed<Body>> one;
  one.push_back(std::move(statement));
  DGX_TRY(auto receipts, append_all(std::move(one), milliseconds));
  return std::move(receipts.front());
}

Result<std::vector<Signed<Receipt>>> Writer::append_all(std::vector<Signed<Body>> statements,
                                                        std::int64_t milliseconds) {
  DGX_TRY(Addition addition, prepare(std::move(statements), milliseconds));
  DGX_CHECK(write(addition));
  std::move(addition.entries.begin(), addition.entries.end(), std::back_inserter(log_.entries));
  ids_.merge(addition.ids);
  tree_ = std::move(addition.tree);
  bytes_.ledger += addition.lines.size();
  bytes_.receipts += addition.receipt_lines.size();
  return std::move(addition.receipts);
}

TreeHead tree_head(const Log& log, std::int64_t milliseconds) {
  return {log.id(), head_of(log.entries), milliseconds};
}

Result<std::vector<Digest>> prove_inclusion(const Log& log, std::size_t index, std::size_t size) {
  DGX_CHECK(check_size(log, size));
  if (index >= size) return usage_error(fmt::format("entry {}: the tree has {}", index, size));
  return merkle::inclusion_path(leaf_hashes(log, size), index);
}

Result<std::vector<Digest>> prove_consistency(const Log& log, std::size_t old_size, std::size_t new_size) {
  DGX_CHECK(check_size(log, new_size));
  DGX_CHECK(check_size(log, old_size));
  if (old_size > new_size) return usage_error(fmt::format("tree size {}: is above {}", old_size, new_size));
  return merkle::consistency_path(leaf_hashes(log, new_size), old_size);
}

std::int64_t clock_milliseconds() {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dgx::ledger
