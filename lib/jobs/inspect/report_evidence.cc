#include "inspect/report_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "dgx/core/files.h"
#include "dgx/core/time_text.h"
#include "dgx/jobs/task_program.h"
#include "dgx/manifest/trust.h"
#include "settle/read_ledger.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Kind;
using manifest::Signed;

constexpr std::size_t kMostRuns = 4;

enum class FileKind { kRun, kLedger, kProgram, kStatements };

/// The first bytes of a file, which tell what it is.
Result<std::string> first_bytes(const std::string& path) {
  std::string out(256, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kMissing, path + ": cannot be opened", {}};
  file.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(file.gcount()));
  return out;
}

Result<FileKind> kind_of_file(const std::string& path) {
  if (!exists(path)) return Error{ErrorCode::kMissing, path + ": does not exist", {}};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return FileKind::kRun;
  if (!std::filesystem::is_regular_file(path, error))
    return usage_error(path + ": is not a file", "it is read more than once: save it to a file");
  if (exists(ledger::receipts_path(path))) return FileKind::kLedger;
  DGX_TRY(const std::string start, first_bytes(path));
  if (start.starts_with("{\"payload\"")) return FileKind::kStatements;
  if (start.starts_with("{") && start.find("\"k\":") != std::string::npos) return FileKind::kProgram;
  return usage_error(path + ": does not belong in a report",
                     "a report takes a ledger, signed statements, runs and the step program");
}

/// Files sorted by kind; runs and programs are not read yet.
struct Files {
  std::optional<std::string> ledger;
  std::vector<std::string> runs;
  std::vector<std::string> programs;
  std::vector<Incoming> statements;
  std::vector<std::string> statement_files;
  std::map<Digest, std::string> paths;
};

/// Sorts one path into `out`; reads it if it holds statements.
Status take(const std::string& path, Files& out) {
  DGX_TRY(const FileKind kind, kind_of_file(path));
  switch (kind) {
    case FileKind::kRun: return out.runs.push_back(path), Status();
    case FileKind::kProgram: return out.programs.push_back(path), Status();
    case FileKind::kLedger:
      if (out.ledger) return usage_error(fmt::format("{} and {}: one ledger at a time", *out.ledger, path));
      return out.ledger = path, Status();
    case FileKind::kStatements: break;
  }
  DGX_TRY(std::vector<Incoming> statements, read_statements(path));
  if (statements.size() == 1) out.paths.emplace(statements.front().statement.id, path);
  out.statement_files.push_back(path);
  std::move(statements.begin(), statements.end(), std::back_inserter(out.statements));
  return {};
}

Result<Files> sort_files(const std::vector<std::string>& paths) {
  Files out;
  for (const std::string& path : paths) DGX_CHECK(take(path, out));
  if (out.runs.size() > kMostRuns)
    return usage_error(fmt::format("{} runs: at most {} fit a report", out.runs.size(), kMostRuns));
  return out;
}

/// The task's statement: the one that --task names in the ledger, else that of the files, else that of a
/// ledger with one task.
Result<Signed<manifest::Task>> choose_task(const ReportOptions& options, const Files& files,
                                           const std::optional<LedgerView>& view) {
  if (options.task && !view)
    return usage_error("--task chooses among the tasks of a ledger, and none is given");
  if (options.task) {
    DGX_TRY(const protocol::TaskRecord* record, find_task(view->market, *options.task));
    return record->task;
  }
  std::map<Digest, Signed<manifest::Task>> found;
  for (const Incoming& item : files.statements) {
    if (kind_of(item.statement.body) != Kind::kTask) continue;
    DGX_TRY(auto task, manifest::as<manifest::Task>(item.statement));
    found.emplace(task.id, std::move(task));
  }
  if (found.empty() && view) {
    for (const auto& [id, record] : view->market.tasks()) found.emplace(id, record.task);
  }
  if (found.size() == 1) return std::move(found.begin()->second);
  if (found.empty()) return usage_error("no task among the files", "give TASK.json, or a ledger");
  return usage_error(fmt::format("{} tasks: a report is about one", found.size()),
                     view ? "--task says which" : "give the files of one");
}

/// Takes the ledger's statements about the task, with their times.
Status take_ledger(Evidence& out) {
  const auto& tasks = out.view->market.tasks();
  if (!tasks.contains(out.task.id))
    return malformed(fmt::format("{}: does not contain task {}", *out.ledger_path, out.task.id.brief()));
  const ledger::Log& log = out.view->log;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    const ledger::Entry& entry = log.entries[i];
    if (entry.id != out.task.id && entry.task != out.task.id) continue;
    DGX_TRY(auto statement, log.statement(i));
    out.statements.push_back(std::move(statement));
    out.logged_ms.emplace(entry.id, entry.milliseconds);
  }
  return {};
}

/// Takes a receipt's time: of the task's ledger, by one operator.
void take_receipt(const Signed<Body>& statement, std::optional<Digest>& receipts_by, Evidence& out) {
  const auto& receipt = std::get<manifest::Receipt>(statement.body);
  if (receipt.ledger != out.task.body.ledger || receipts_by.value_or(statement.key_id) != statement.key_id)
    return;
  receipts_by = statement.key_id;
  out.logged_ms.emplace(receipt.statement, receipt.milliseconds);
}

/// Takes the statements of the files that the ledger does not have. One about another task is an error: it
/// would be told as if it belonged here.
Status take_statements(Files& files, Evidence& out) {
  std::set<Digest> seen;
  for (const auto& statement : out.statements) seen.insert(statement.id);
  std::optional<Digest> receipts_by;
  if (out.view) receipts_by = out.view->log.operator_id();
  std::vector<Signed<Body>> more;
  for (Incoming& item : files.statements) {
    const Kind kind = kind_of(item.statement.body);
    if (kind == Kind::kReceipt) take_receipt(item.statement, receipts_by, out);
    if (stage_of(kind) == nullptr) continue;
    const Digest about =
        kind == Kind::kTask ? item.statement.id : manifest::task_of(item.statement.body).value_or(Digest{});
    if (about != out.task.id)
      return malformed(fmt::format("{}: this {} belongs to another task", item.where, name_of(kind)));
    if (seen.insert(item.statement.id).second) more.push_back(std::move(item.statement));
  }
  std::stable_sort(more.begin(), more.end(), [](const auto& a, const auto& b) {
    return stage_of(kind_of(a.body)) < stage_of(kind_of(b.body));
  });
  out.unlogged = out.view ? more.size() : 0;
  std::move(more.begin(), more.end(), std::back_inserter(out.statements));
  return {};
}

/// Reads the rows next to the files of verdicts.
Status take_rows(Evidence& out) {
  for (const auto& verdict : out.all<manifest::Verdict>()) {
    const auto path = out.paths.find(verdict.id);
    if (path == out.paths.end()) continue;
    const std::string rows = beside(path->second, ".rows.jsonl");
    if (!exists(rows)) continue;
    DGX_TRY(const std::string text, read_file(rows, manifest::kMaxRowsBytes));
    auto read = manifest::decode_rows(text, verdict.body);
    if (!read.ok()) return within(rows, std::move(read).error());
    out.rows.emplace(verdict.id, *std::move(read));
  }
  return {};
}

/// Opens the step program: one that was given, or the one next to the task.
Status take_program(const Files& files, Evidence& out) {
  std::vector<std::string> paths = files.programs;
  const auto task = out.paths.find(out.task.id);
  if (paths.empty() && task != out.paths.end()) {
    const std::string path = beside(task->second, ".program.jsonl");
    if (exists(path)) paths.push_back(path);
  }
  for (const std::string& path : paths) {
    DGX_TRY(out.program, open_program(path, out.task.body.program, "step program"));
  }
  return {};
}

Status take_runs(const Files& files, Evidence& out) {
  for (const std::string& path : files.runs) {
    DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(path));
    if (run.index().header.task != out.task.id) return malformed(path + ": this run belongs to another task");
    out.runs.push_back({path, run.index()});
  }
  return {};
}

constexpr LifeStage kLife[] = {{Kind::kTask, "submitter", "asked for the work"},
                               {Kind::kProfile, {}, "measured what the work takes"},
                               {Kind::kBeaconCommitment, {}, "offered to verify"},
                               {Kind::kOfferEnd, {}, {}},
                               {Kind::kAssign, "solver", "took the work"},
                               {Kind::kProof, "solver", "trained, and signed the proof"},
                               {Kind::kBeacon, "verifier", {}},
                               {Kind::kRound, "operator", {}},
                               {Kind::kOpening, "solver", {}},
                               {Kind::kVerdictCommitment, "verifier", {}},
                               {Kind::kVerdict, "verifier", "verified the proof"},
                               {Kind::kDelivery, {}, {}},
                               {Kind::kChallenge, "challenger", "disputed a statement"},
                               {Kind::kMove, {}, "made moves in a dispute"},
                               {Kind::kRuling, "referee", "judged a dispute"},
                               {Kind::kSettlement, "operator", "keeps the ledger, and paid"}};

}  // namespace

const LifeStage* stage_of(Kind kind) {
  const LifeStage* const found = std::find_if(std::begin(kLife), std::end(kLife),
                                              [&](const LifeStage& stage) { return stage.kind == kind; });
  return found == std::end(kLife) ? nullptr : found;
}

std::string Evidence::on_date(const Digest& statement) const {
  const auto found = logged_ms.find(statement);
  return found == logged_ms.end() ? "" : " on " + utc_text(found->second);
}

Result<Evidence> gather(const ReportOptions& options, const JobContext& context) {
  DGX_TRY(Files files, sort_files(options.files));
  std::optional<LedgerView> view;
  if (files.ledger) {
    DGX_TRY(view, view_ledger(ledger_file(*files.ledger, context)));
  }
  DGX_TRY(auto task, choose_task(options, files, view));
  DGX_TRY(const manifest::Trust trust, load_trust(context.trust));
  DGX_TRY([[maybe_unused]] const auto word, trust.check(task.key_id, "the task's submitter"));
  Evidence out{.task = std::move(task)};
  out.view = std::move(view);
  out.ledger_path = files.ledger;
  out.paths = files.paths;
  out.statement_files = files.statement_files;
  out.names = trust.names();
  if (out.view) DGX_CHECK(take_ledger(out));
  DGX_CHECK(take_statements(files, out));
  DGX_CHECK(take_rows(out));
  DGX_CHECK(take_program(files, out));
  DGX_CHECK(take_runs(files, out));
  return out;
}

}  // namespace dgx::jobs
