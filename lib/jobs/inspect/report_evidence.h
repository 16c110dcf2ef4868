#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/jobs/report.h"
#include "dgx/jobs/settle.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// A stage of a task's life, which a kind of statement brings.
struct LifeStage {
  manifest::Kind kind;
  std::string_view role;  ///< the signer's: "solver"; empty: none
  std::string_view deed;  ///< the signer's: "took the work"; empty: told by others
};
/// The stage of a kind, which compares less than those after it; null for kinds that are not about a task.
[[nodiscard]] const LifeStage* stage_of(manifest::Kind kind);

/// A run whose folder was given.
struct GivenRun {
  std::string path;
  bundle::RunIndex index;
};

/// Everything that the files of a report say about its task, each statement once.
struct Evidence {
  manifest::Signed<manifest::Task> task;
  /// About the task: the ledger's in its order, then those of the files in that of stage_of().
  std::vector<manifest::Signed<manifest::Body>> statements = {};
  std::size_t unlogged = 0;                                       ///< statements that the ledger lacks
  std::map<Digest, std::int64_t> logged_ms = {};                  ///< Unix milliseconds, by receipts
  std::optional<LedgerView> view = {};                            ///< with the task's record
  std::map<Digest, std::vector<manifest::VerdictRow>> rows = {};  ///< by verdict
  std::vector<GivenRun> runs = {};
  std::shared_ptr<const program::Program> program = {};
  std::map<Digest, std::string> names = {};  ///< given by --trust
  std::optional<std::string> ledger_path = {};
  std::map<Digest, std::string> paths = {};  ///< the file of each statement that stands alone in one
  std::vector<std::string> statement_files = {};

  [[nodiscard]] const protocol::TaskRecord* record() const {
    return view ? &view->market.tasks().at(task.id) : nullptr;
  }
  /// All statements of a kind, and the first.
  template <class T>
  [[nodiscard]] std::vector<manifest::Signed<T>> all() const {
    std::vector<manifest::Signed<T>> out;
    for (const auto& statement : statements) {
      if (const T* body = std::get_if<T>(&statement.body))
        out.push_back({*body, statement.id, statement.signer, statement.key_id, statement.envelope});
    }
    return out;
  }
  template <class T>
  [[nodiscard]] std::optional<manifest::Signed<T>> first() const {
    auto found = all<T>();
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
  }
  /// " on 2026-11-22 14:03:07 UTC", or nothing.
  [[nodiscard]] std::string on_date(const Digest& statement) const;
};

/// Reads the files of a report and chooses its task. Errors of report().
[[nodiscard]] Result<Evidence> gather(const ReportOptions& options, const JobContext& context);

}  // namespace dgx::jobs
