#include "dgx/ledger/log.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/file_reader.h"
#include "scan.h"

namespace dgx::ledger {
namespace {

using manifest::Body;
using manifest::Signed;

constexpr std::string_view kLedgerSuffix = ".jsonl";

/// The line of a file between two of its bytes, without its newline.
Result<std::string> line_between(const std::string& path, std::uint64_t begin, std::uint64_t end) {
  DGX_TRY(const FileReader file, FileReader::open(path));
  std::string out;
  DGX_CHECK(file.append_to(out, begin, end - begin));
  if (out.size() != end - begin || !out.ends_with('\n'))
    return malformed(fmt::format("{}: has changed since it was read", path));
  out.pop_back();
  return out;
}

Status check_size(const Log& log, std::size_t size) {
  if (size >= 1 && size <= log.entries.size()) return {};
  return usage_error(fmt::format("tree size {}: the ledger has {} entries", size, log.entries.size()));
}

}  // namespace

manifest::RootReference Log::head(std::size_t count) const {
  return {tree.root(count), static_cast<std::int64_t>(count)};
}

std::optional<std::size_t> Log::find(const Digest& statement) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.id == statement; });
  if (found == entries.end()) return std::nullopt;
  return static_cast<std::size_t>(found - entries.begin());
}

Result<Signed<Body>> Log::statement(std::size_t index) const {
  const std::uint64_t end = index + 1 < entries.size() ? entries[index + 1].offset : ledger_bytes;
  DGX_TRY(const std::string line, line_between(path, entries[index].offset, end));
  auto out = manifest::open_any(line);
  if (out.ok() && out->id == entries[index].id) return out;
  return malformed(fmt::format("{}: line {}: has changed since it was read", path, index + 1));
}

Result<std::string> Log::receipt(std::size_t index) const {
  const std::uint64_t end = index + 1 < entries.size() ? entries[index + 1].receipt_offset : receipt_bytes;
  return line_between(receipts_path(path), entries[index].receipt_offset, end);
}

std::string receipts_path(const std::string& path) {
  const bool suffixed = path.ends_with(kLedgerSuffix);
  return path.substr(0, path.size() - (suffixed ? kLedgerSuffix.size() : 0)) + ".receipts.jsonl";
}

Result<Log> read(const std::string& path, const Reading& reading) {
  DGX_TRY(Scan out, scan(path, reading));
  return std::move(out.log);
}

Result<std::vector<Digest>> prove_inclusion(const Log& log, std::size_t index, std::size_t size) {
  DGX_CHECK(check_size(log, size));
  if (index >= size) return usage_error(fmt::format("entry {}: the tree has {}", index, size));
  return log.tree.inclusion_path(index, size);
}

Result<std::vector<Digest>> prove_consistency(const Log& log, std::size_t old_size, std::size_t new_size) {
  DGX_CHECK(check_size(log, new_size));
  DGX_CHECK(check_size(log, old_size));
  if (old_size > new_size) return usage_error(fmt::format("tree size {}: is above {}", old_size, new_size));
  return log.tree.consistency_path(old_size, new_size);
}

}  // namespace dgx::ledger
