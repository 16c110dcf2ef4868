#include "dgx/ledger/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "dgx/core/file_reader.h"
#include "dgx/core/files.h"
#include "line_reader.h"
#include "scan.h"

namespace dgx::ledger {
namespace {

using manifest::Body;
using manifest::Receipt;
using manifest::Signed;

/// Every line is longer than eight records, so no index of a ledger is longer than this.
constexpr std::size_t kMaxIndexBytes = kMaxLedgerBytes / 8;

std::string records_of(std::span<const Entry> entries) {
  ByteWriter out;
  for (const Entry& entry : entries) out.digest(entry.id).u64(entry.offset);
  return std::string(as_text(out.bytes()));
}

/// An entry's place, as an index has it.
struct Place {
  std::size_t index = 0;
  std::uint64_t offset = 0;
};

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char byte : bytes) out = out << 8U | static_cast<unsigned char>(byte);
  return out;
}

/// The place that an index's bytes give for a statement.
std::optional<Place> place_in(std::string_view records, const Digest& statement) {
  const std::string_view id = as_text(statement.view());
  for (std::size_t i = 0; (i + 1) * kIndexRecordBytes <= records.size(); ++i) {
    const std::string_view record = records.substr(i * kIndexRecordBytes, kIndexRecordBytes);
    if (record.starts_with(id)) return Place{i, big_endian(record.substr(id.size()))};
  }
  return std::nullopt;
}

/// The line that begins at `offset`, of at most `most` bytes; nullopt if none does.
Result<std::optional<std::string>> line_at(const FileReader& file, std::uint64_t offset, std::size_t most) {
  std::string text;
  const std::uint64_t begin = offset - std::min<std::uint64_t>(offset, 1);
  DGX_CHECK(file.append_to(text, begin, most + 2));
  if (begin != offset && !text.starts_with('\n')) return std::optional<std::string>();
  text.erase(0, offset - begin);
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return std::optional<std::string>();
  return std::optional(text.substr(0, end));
}

/// Looks for one statement in the files of a ledger.
class Search {
 public:
  [[nodiscard]] static Result<Search> open(const std::string& path, const Digest& statement) {
    if (!exists(path)) return Error{ErrorCode::kMissing, fmt::format("{}: no such ledger", path), {}};
    DGX_TRY(FileReader ledger, FileReader::open(path));
    DGX_TRY(FileReader receipts, FileReader::open(receipts_path(path)));
    DGX_TRY(const auto line, line_at(ledger, 0, manifest::kMaxEnvelopeBytes));
    if (!line) return malformed(fmt::format("{}: has no entries", path));
    auto policy = manifest::open_any(*line);
    Status status = policy.ok() ? check_first(*policy) : Status(std::move(policy).error());
    if (!status.ok()) return within(fmt::format("{}: line 1", path), std::move(status).error());
    return Search(path, statement, std::move(ledger), std::move(receipts), *std::move(policy));
  }

  /// The entry at the place that an index gives; nullopt if it is not there.
  [[nodiscard]] Result<std::optional<FoundEntry>> at(const Place& place) const {
    DGX_TRY(const std::uint64_t size, ledger_.size());
    if (place.offset >= size) return std::optional<FoundEntry>();
    DGX_TRY(const auto line, line_at(ledger_, place.offset, manifest::kMaxEnvelopeBytes));
    if (!line) return std::optional<FoundEntry>();
    DGX_TRY(const auto receipt, receipt_line(static_cast<std::int64_t>(place.index)));
    if (!receipt) return std::optional<FoundEntry>();
    auto out = entry_of(*line, *receipt);
    return out.ok() ? std::optional(*std::move(out)) : std::nullopt;
  }

  /// Looks at the id of every line.
  [[nodiscard]] Result<std::optional<FoundEntry>> everywhere() const {
    DGX_TRY(LineReader receipts, LineReader::open(receipts_.path()));
    DGX_TRY(LineReader ledger, LineReader::open(path_));
    for (std::size_t done = 0;;) {
      DGX_TRY(const auto* const receipt_lines, receipts.peek(4096));
      const std::size_t most = receipt_lines->size();
      if (most == 0) return std::optional<FoundEntry>();
      DGX_TRY(const auto* const lines, ledger.peek(most));
      if (lines->empty()) return std::optional<FoundEntry>();
      for (std::size_t i = 0; i < lines->size(); ++i) {
        const auto id = manifest::id_in(lines->at(i));
        if (!id.ok()) return within(place_words(done + i), id.error());
        if (*id != statement_) continue;
        auto out = entry_of(lines->at(i), receipt_lines->at(i));
        if (!out.ok()) return within(place_words(done + i), std::move(out).error());
        return std::optional(*std::move(out));
      }
      const std::size_t count = lines->size();
      done += count;
      ledger.drop(count);
      receipts.drop(count);
    }
  }

 private:
  Search(std::string path, const Digest& statement, FileReader ledger, FileReader receipts,
         Signed<Body> policy)
      : path_(std::move(path)),
        statement_(statement),
        ledger_(std::move(ledger)),
        receipts_(std::move(receipts)),
        policy_(std::move(policy)) {}

  [[nodiscard]] std::string place_words(std::size_t index) const {
    return fmt::format("{}: line {}", path_, index + 1);
  }

  /// The statement looked for and its receipt; an error if these lines are not.
  [[nodiscard]] Result<FoundEntry> entry_of(std::string_view line, std::string_view receipt_line) const {
    DGX_TRY(auto statement, manifest::open_any(line));
    if (statement.id != statement_) return malformed("is another statement");
    auto receipt = manifest::open_statement<Receipt>(receipt_line);
    if (!receipt.ok()) return within("receipt", std::move(receipt).error());
    if (receipt->key_id != policy_.key_id)
      return unauthorised("receipt: is not signed by the ledger's operator");
    if (receipt->body.ledger != policy_.id) return malformed("receipt: ledger: names another ledger");
    if (receipt->body.statement != statement_)
      return malformed("receipt: statement: is not the entry of this line");
    return FoundEntry{std::move(statement), *std::move(receipt)};
  }

  /// The line of the receipt with this index, by halving: receipts are in order. nullopt if it is not there.
  [[nodiscard]] Result<std::optional<std::string>> receipt_line(std::int64_t index) const {
    DGX_TRY(std::uint64_t end, receipts_.size());
    std::uint64_t begin = 0;  // the line looked for begins in [begin, end)
    while (begin < end) {
      const std::uint64_t middle = begin + (end - begin) / 2;
      DGX_TRY(std::uint64_t at, line_after(middle));
      if (at >= end) at = begin;  // no line begins after the middle: the first may be it
      DGX_TRY(auto line, line_at(receipts_, at, kMaxReceiptBytes));
      if (!line) return std::optional<std::string>();
      const auto receipt = manifest::open_again(*line);
      const auto* const body = receipt.ok() ? std::get_if<Receipt>(&receipt->body) : nullptr;
      if (body == nullptr) return std::optional<std::string>();
      if (body->index == index) return line;
      if (body->index > index) {
        if (at == begin) return std::optional<std::string>();
        end = at;
      } else {
        begin = at + line->size() + 1;
      }
    }
    return std::optional<std::string>();
  }

  /// The place of the first line that begins at or after `offset`; the end of what was read if none does.
  [[nodiscard]] Result<std::uint64_t> line_after(std::uint64_t offset) const {
    if (offset == 0) return offset;
    std::string text;
    DGX_CHECK(receipts_.append_to(text, offset - 1, kMaxReceiptBytes + 1));
    return offset - 1 + std::min(text.find('\n'), text.size()) + 1;
  }

  std::string path_;
  Digest statement_;
  FileReader ledger_;
  FileReader receipts_;
  Signed<Body> policy_;
};

}  // namespace

std::string index_path(const std::string& path) {
  constexpr std::string_view kReceipts = ".receipts.jsonl";
  const std::string receipts = receipts_path(path);
  return receipts.substr(0, receipts.size() - kReceipts.size()) + ".index";
}

IndexFound make_index(const Log& log) {
  const std::string path = index_path(log.path);
  const std::string records = records_of(log.entries);
  const auto there = read_file(path, kMaxIndexBytes);
  if (there.ok() && *there == records) return IndexFound::kRight;
  const std::string_view parts[] = {records};
  static_cast<void>(write_scratch(path, parts));
  const bool none = !there.ok() && there.error().code == ErrorCode::kMissing;
  return none ? IndexFound::kNone : IndexFound::kWrong;
}

void extend_index(const Log& log, std::size_t first) {
  const std::string path = index_path(log.path);
  std::error_code error;
  if (std::filesystem::file_size(path, error) != first * kIndexRecordBytes) {
    static_cast<void>(make_index(log));
    return;
  }
  auto file = GrowingFile::open(path, first * kIndexRecordBytes);
  if (file.ok()) static_cast<void>(file->append(records_of(std::span(log.entries).subspan(first))));
}

Result<LookUp> find_entry(const std::string& path, const Digest& statement) {
  DGX_TRY(const Search search, Search::open(path, statement));
  LookUp out;
  if (const auto records = read_file(index_path(path), kMaxIndexBytes); records.ok()) {
    out.index = IndexFound::kRight;
    if (const auto place = place_in(*records, statement)) {
      DGX_TRY(out.entry, search.at(*place));
      if (out.entry) return out;
      out.index = IndexFound::kWrong;
    }
  } else if (records.error().code != ErrorCode::kMissing) {
    out.index = IndexFound::kWrong;
  }
  DGX_TRY(out.entry, search.everywhere());
  if (out.entry && out.index == IndexFound::kRight) out.index = IndexFound::kWrong;
  return out;
}

}  // namespace dgx::ledger
