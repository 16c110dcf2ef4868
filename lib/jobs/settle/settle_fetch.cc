#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "settle/opening_store.h"

namespace dgx::jobs {
namespace {

/// Digits with which a prefix of an id may stand for it.
constexpr std::size_t kLeastDigits = 8;

/// A logged statement of which the operator has a copy: found by its own id or, for an opening, by its task.
Result<manifest::Signed<manifest::Body>> find_fetched(const LedgerView& view, const std::string& name) {
  std::optional<manifest::Signed<manifest::Body>> found;
  for (std::size_t i = 0; name.size() >= kLeastDigits && i < view.log.entries.size(); ++i) {
    if (!view.log.entries[i].id.hex().starts_with(name)) continue;
    DGX_TRY(auto statement, view.log.statement(i));
    if (!needs_fetch(statement.body)) continue;
    if (found) return usage_error(fmt::format("{}: more than one statement id begins with it", name));
    found = std::move(statement);
  }
  if (found) return *std::move(found);
  DGX_TRY(const protocol::TaskRecord* const record, find_task(view.market, name));
  if (!record->opening)
    return Error{ErrorCode::kMissing, fmt::format("task {} has no opening", record->task.id.brief()), {}};
  return view.log.statement(*view.log.find(record->opening->id));
}

Status write_statement(const std::string& folder, std::string_view name, const std::string& envelope,
                       Clobber clobber, FetchedCopy& out) {
  DGX_CHECK(write_file(fmt::format("{}/{}", folder, name), envelope + "\n", clobber));
  out.files.emplace_back(name);
  return {};
}

/// Writes the statements needed to read an opening next to it, as the ledger has them.
Status write_proof(const LedgerView& view, const protocol::TaskRecord& record, const std::string& folder,
                   Clobber clobber, FetchedCopy& out) {
  DGX_CHECK(write_statement(folder, "proof.json", record.proof->envelope, clobber, out));
  const auto source = protocol::source_of(record);
  if (!source) return {};
  DGX_TRY(const auto statement, view.log.statement(*view.log.find(source->id)));
  return write_statement(folder, source->is_round ? "round.json" : "beacon.json", statement.envelope, clobber,
                         out);
}

}  // namespace

Result<FetchedCopy> fetch_copy(const LedgerFile& file, const std::string& name, const std::string& output,
                               Clobber clobber) {
  DGX_TRY(const LedgerView view, view_ledger(file));
  DGX_TRY(const auto statement, find_fetched(view, name));
  FetchedCopy out{statement.id, *manifest::task_of(statement.body), kind_of(statement.body), {}};
  const std::string from = OpeningStore(file.path).folder_of(out.task, out.statement);
  if (!exists(from))
    return Error{ErrorCode::kMissing, from + ": does not exist",
                 "copies are kept until their task is settled"};
  DGX_CHECK(make_folder(output));
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(from, failed)) {
    const std::string name_there = entry.path().filename().string();
    const std::string target = fmt::format("{}/{}", output, name_there);
    DGX_CHECK(copy_file(entry.path().string(), target, clobber));
    out.files.push_back(name_there);
  }
  if (failed) return Error{ErrorCode::kIo, from + ": cannot be read", {}};
  if (out.kind == manifest::Kind::kOpening)
    DGX_CHECK(write_proof(view, view.market.tasks().at(out.task), output, clobber, out));
  std::sort(out.files.begin(), out.files.end());
  return out;
}

}  // namespace dgx::jobs
