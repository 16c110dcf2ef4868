#include "scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dgx/core/files.h"
#include "dgx/core/parallel.h"
#include "dgx/merkle/digests.h"
#include "line_reader.h"

namespace dgx::ledger {
namespace {

using manifest::Body;
using manifest::Receipt;
using manifest::Signed;

constexpr std::size_t kBatchLines = 4096;

/// A line of each file, opened; or what is wrong with it.
struct Opened {
  std::optional<Result<Signed<Body>>> statement;
  std::optional<Result<Signed<Receipt>>> receipt;
  std::uint64_t offset = 0;
  std::uint64_t receipt_offset = 0;
};

/// Reads both files of a ledger side by side, batch by batch.
///
/// While threads open the envelopes of a batch, which takes nearly all the time, one of them takes the batch
/// before it into the log: that needs the entries' order, since a receipt names the head after its entry.
/// Receipts are opened first: if a writer comes meanwhile, only the entries of the receipts there were count,
/// and the later ones are not torn, but newer than this reader.
class Scanner {
 public:
  Scanner(const std::string& path, const Reading& reading, const CheckedPrefix* checked)
      : path_(path), reading_(reading), checked_(checked) {}

  /// Everything, or the first error. kNotAllowed, and nothing else is, if the files do not begin as `checked`
  /// says.
  [[nodiscard]] Result<Scan> run() {
    DGX_TRY(LineReader receipts, LineReader::open(receipts_path(path_)));
    DGX_TRY(LineReader ledger, LineReader::open(path_));
    scan_.log.path = path_;
    bool more = true;
    while (more) {
      auto next = next_batch(ledger, receipts);
      // A line that is gone is called so, and not the first one after it that does not fit.
      if (!next.ok()) DGX_CHECK(check_counts(ledger, receipts));
      DGX_TRY(more, std::move(next));
    }
    DGX_CHECK(check_end(ledger, receipts));
    scan_.log.ledger_bytes = ledger.offset();
    scan_.log.receipt_bytes = receipts.offset();
    scan_.log.checked = passed(ledger, receipts);
    return std::move(scan_);
  }

 private:
  /// True while the entries are among those checked before.
  [[nodiscard]] bool in_checked() const { return checked_ != nullptr && count_ < checked_->count; }

  /// Opens the next lines of both files; false at the end of either.
  [[nodiscard]] Result<bool> next_batch(LineReader& ledger, LineReader& receipts) {
    const std::size_t most = in_checked() ? std::min(kBatchLines, checked_->count - count_) : kBatchLines;
    DGX_TRY(const auto* const receipt_lines, peek(receipts, receipts_path(path_), most));
    std::size_t count = receipt_lines->size();
    const std::vector<std::string_view>* lines = nullptr;
    if (count > 0) {
      DGX_TRY(lines, peek(ledger, path_, count));
      count = std::min(count, lines->size());
    }
    if (count == 0) {
      DGX_CHECK(take_in());
      return false;
    }
    std::vector<Opened> opened(count);
    const auto open = [&](std::size_t i) {
      open_line(lines->at(i), receipt_lines->at(i), opened[i]);
      opened[i].offset = ledger.offset() + place(*lines, i);
      opened[i].receipt_offset = receipts.offset() + place(*receipt_lines, i);
      return Status();
    };
    const auto work = [&](std::size_t i) {
      if (i == 0) return take_in();
      if (i == 1) return ledger.hash(count), Status();
      if (i == 2) return receipts.hash(count), Status();
      return open(i - 3);
    };
    DGX_CHECK(for_each_index(count + 3, reading_.threads, work));
    batch_ = std::move(opened);
    ledger.drop(count);
    receipts.drop(count);
    const bool checked = in_checked();
    count_ += count;
    if (checked && !in_checked()) DGX_CHECK(check_prefix(ledger, receipts));
    return true;
  }

  [[nodiscard]] Result<const std::vector<std::string_view>*> peek(LineReader& reader, const std::string& path,
                                                                  std::size_t most) const {
    auto lines = reader.peek(most);
    if (!lines.ok()) return within(fmt::format("{}: line {}", path, count_ + 1), std::move(lines).error());
    return lines;
  }

  /// The place of line `i`, in bytes from the first.
  static std::uint64_t place(const std::vector<std::string_view>& lines, std::size_t i) {
    return static_cast<std::uint64_t>(lines[i].data() - lines[0].data());
  }

  void open_line(std::string_view line, std::string_view receipt, Opened& out) const {
    if (in_checked()) {
      out.statement.emplace(manifest::open_again(line));
      out.receipt.emplace(as_receipt(manifest::open_again(receipt)));
    } else {
      out.statement.emplace(manifest::open_any(line));
      out.receipt.emplace(as_receipt(manifest::open_any(receipt)));
    }
  }

  static Result<Signed<Receipt>> as_receipt(Result<Signed<Body>> statement) {
    if (!statement.ok()) return std::move(statement).error();
    return manifest::as<Receipt>(std::move(statement).value());
  }

  /// Takes the opened batch into the log, in order.
  [[nodiscard]] Status take_in() {
    for (Opened& one : batch_) {
      Status status = add_entry(one);
      if (!status.ok())
        return within(fmt::format("{}: line {}", path_, scan_.log.entries.size() + 1),
                      std::move(status).error());
    }
    batch_.clear();
    return {};
  }

  /// After an error the scan must not be used.
  [[nodiscard]] Status add_entry(Opened& one) {
    Log& log = scan_.log;
    DGX_TRY(Signed<Body> statement, *std::move(one.statement));
    const bool first = log.entries.empty();
    if (first) {
      DGX_CHECK(check_first(statement));
      log.policy = statement;
    }
    DGX_CHECK(check_tree_head(log, statement));
    if (!one.receipt->ok()) return within("receipt", std::move(*one.receipt).error());
    const Signed<Receipt>& receipt = one.receipt->value();
    if (receipt.key_id != log.operator_id())
      return unauthorised("receipt: is not signed by the ledger's operator");
    if (!scan_.ids.insert(statement.id).second) return malformed("repeats an earlier statement");
    const Entry entry{statement.id,       receipt.body.milliseconds, one.offset,
                      one.receipt_offset, kind_of(statement.body),   manifest::task_of(statement.body)};
    log.tree.add_hash(leaf_of(entry));
    DGX_CHECK(check_receipt(receipt.body, entry));
    log.entries.push_back(entry);
    if (reading_.visit) reading_.visit(log.entries.size() - 1, statement, entry.milliseconds);
    return {};
  }

  /// Checks an entry's receipt. The entry's leaf is in the tree already, the entry not yet in the log.
  [[nodiscard]] Status check_receipt(const Receipt& receipt, const Entry& entry) const {
    const Log& log = scan_.log;
    const std::size_t index = log.entries.size();
    if (receipt.ledger != log.id()) return malformed("receipt: ledger: names another ledger");
    if (receipt.statement != entry.id) return malformed("receipt: statement: is not the entry of this line");
    if (receipt.index != static_cast<std::int64_t>(index))
      return malformed("receipt: index: is not this line's");
    if (index > 0 && receipt.milliseconds < log.now())
      return malformed("receipt: milliseconds: earlier than the receipt before");
    if (receipt.head != log.head(index + 1)) return malformed("receipt: head: is not the recomputed tree's");
    return {};
  }

  /// Checks that the bytes passed are those that were checked before.
  [[nodiscard]] Status check_prefix(const LineReader& ledger, const LineReader& receipts) {
    DGX_CHECK(take_in());
    if (passed(ledger, receipts) == *checked_) return {};
    return not_allowed("is not what was checked before");
  }

  /// All entries passed, which must be in the log.
  [[nodiscard]] CheckedPrefix passed(const LineReader& ledger, const LineReader& receipts) const {
    return {count_,          ledger.offset(),   receipts.offset(),
            ledger.sha256(), receipts.sha256(), scan_.log.tree.root()};
  }

  /// A crash leaves no receipt without its entry: entries are written first and cut last.
  [[nodiscard]] Status check_counts(const LineReader& ledger, const LineReader& receipts) const {
    DGX_TRY(const LineReader::Rest lines, ledger.rest());
    DGX_TRY(const LineReader::Rest receipt_lines, receipts.rest());
    if (lines.lines >= receipt_lines.lines) return {};
    return malformed(fmt::format("{}: {} entries, but {} receipts", path_, count_ + lines.lines,
                                 count_ + receipt_lines.lines));
  }

  /// Says what follows the entries that count.
  [[nodiscard]] Status check_end(const LineReader& ledger, const LineReader& receipts) {
    DGX_CHECK(check_counts(ledger, receipts));
    DGX_TRY(const LineReader::Rest lines, ledger.rest());
    DGX_TRY(const LineReader::Rest receipt_lines, receipts.rest());
    DGX_TRY(const bool still, receipts.is_still());
    if (still && receipt_lines.torn && lines.lines == 0)
      return malformed(fmt::format("{}: has a cut-off line without an entry", receipts_path(path_)));
    if (count_ == 0) return malformed(fmt::format("{}: has no entries", path_));
    if (in_checked()) return not_allowed("is shorter than what was checked before");
    if (still) scan_.log.torn = torn_words(lines);
    return {};
  }

  [[nodiscard]] std::string torn_words(const LineReader::Rest& lines) const {
    const std::size_t first = count_ + 1;
    const std::size_t last = count_ + lines.lines + (lines.torn ? 1 : 0);
    if (last < first) return {};
    if (last > first) return fmt::format("lines {} to {} have no receipt; they do not count", first, last);
    return lines.torn ? fmt::format("line {} was cut off while it was written; it does not count", last)
                      : fmt::format("line {} has no receipt; it does not count", last);
  }

  const std::string& path_;
  const Reading& reading_;
  const CheckedPrefix* checked_;
  Scan scan_;
  std::vector<Opened> batch_;  ///< opened, and not in the log yet
  std::size_t count_ = 0;      ///< entries passed, those of batch_ included
};

}  // namespace

Digest leaf_of(const Entry& entry) {
  return merkle::ledger_leaf(entry.id, static_cast<std::uint64_t>(entry.milliseconds));
}

Status check_first(const Signed<Body>& statement) {
  if (std::holds_alternative<manifest::LedgerPolicy>(statement.body)) return {};
  return malformed(fmt::format("the first statement is a {}, expected the operator's policy",
                               manifest::name_of(manifest::kind_of(statement.body))));
}

Status check_tree_head(const Log& log, const Signed<Body>& statement) {
  const auto* head = std::get_if<manifest::TreeHead>(&statement.body);
  if (head == nullptr) return {};
  if (head->ledger != log.id()) return malformed("tree head: ledger: names another ledger");
  if (head->head != log.head()) return malformed("tree head: head: is not this ledger's");
  return {};
}

Result<Scan> scan(const std::string& path, const Reading& reading) {
  if (!exists(path)) return Error{ErrorCode::kMissing, fmt::format("{}: no such ledger", path), {}};
  if (!exists(receipts_path(path)))
    return Error{ErrorCode::kMissing, fmt::format("{}: does not exist", receipts_path(path)),
                 "a ledger is two files, which belong together"};
  if (reading.checked) {
    auto out = Scanner(path, reading, &*reading.checked).run();
    if (out.ok()) return out;
  }
  // Whatever is wrong, here it is found by one who believes nothing.
  auto out = Scanner(path, reading, nullptr).run();
  if (out.ok()) out->log.unlike_before = reading.checked.has_value();
  return out;
}

}  // namespace dgx::ledger
