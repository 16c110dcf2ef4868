#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// A statement's path with its extension replaced by `extension`: where the files that belong to it are
/// looked for.
[[nodiscard]] std::string beside(const std::string& path, std::string_view extension);

/// Reads a line file that a task binds, and checks its lines and the task's root. `what` names it in
/// messages.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_program(
    const std::string& path, const manifest::ProgramReference& reference, const std::string& what);

/// Reads the step program in `path`, which the task binds, and checks it, alone and with the task
/// (protocol/admission.h). kMalformed, naming the file.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_step_program(const std::string& path,
                                                                                const manifest::Task& task);

/// Checks the task in `path` before somebody signs that they work on it: what the task itself shows, and its
/// program if TASK.program.jsonl lies next to it. kMalformed.
[[nodiscard]] Status check_admission_of(const std::string& path, const manifest::Task& task);

}  // namespace dgx::jobs
