#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// A statement's path with its extension replaced by `extension`: where the files that belong to it are
/// looked for.
[[nodiscard]] std::string beside(const std::string& path, std::string_view extension);

/// The task that `path` stands for: the path itself or, of a folder, that of the only task in it, among the
/// files *.json that are statements; several copies of one task count as one. kMissing, kUsage with the
/// candidates if there are several.
[[nodiscard]] Result<std::string> find_task_file(const std::string& path);

/// The line file that the task in `task_path` binds: the file of its name with `extension` or, if that is not
/// there, as when the task was renamed, the file *.jsonl of the same folder with the task's root. `what`
/// names it in messages. kMissing, with `hint`.
[[nodiscard]] Result<std::string> find_program(const std::string& task_path, std::string_view extension,
                                               const manifest::ProgramReference& reference,
                                               const std::string& what, const std::string& hint);

/// Reads a line file that a task binds, and checks its lines and the task's root. `what` names it in
/// messages.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_program(
    const std::string& path, const manifest::ProgramReference& reference, const std::string& what);

/// Reads the step program in `path`, which the task binds, and checks it, alone and with the task
/// (protocol/admission.h). kMalformed, naming the file; kUsage: its market's policy does not admit it.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_step_program(const std::string& path,
                                                                                const manifest::Task& task);

/// Step programs that were opened and checked, for who opens many tasks: the tasks of one model bind one
/// program, and parsing it takes longer than everything else about a task. May be shared by threads.
class ProgramShelf {
 public:
  /// The program that the task binds, checked with this task; nullptr if it is not on the shelf. kMalformed,
  /// without a file's name, as open_step_program().
  [[nodiscard]] Result<std::shared_ptr<const program::Program>> find(const manifest::Task& task) const;
  /// Puts the program of a task, opened by open_step_program(), on the shelf.
  void add(const manifest::Task& task, std::shared_ptr<const program::Program> program);

 private:
  mutable std::mutex using_;
  std::map<Digest, std::shared_ptr<const program::Program>> programs_;  ///< by root
};

/// Checks the task in `path` before somebody signs that they work on it: what the task itself shows, and its
/// program if TASK.program.jsonl lies next to it. kMalformed, kUsage, as above.
[[nodiscard]] Status check_admission_of(const std::string& path, const manifest::Task& task);

}  // namespace dgx::jobs
