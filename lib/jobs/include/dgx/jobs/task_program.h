#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// A statement's path without its extension, with `extension` instead: where the files that belong to it are looked for.
[[nodiscard]] std::string beside(const std::string& path, std::string_view extension);

/// A line file that a task binds: parsed, checked, with the task's root. `what` names it in messages.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_program(
    const std::string& path, const manifest::ProgramReference& reference, const std::string& what);

/// The step program in `path`, which the task binds: it passes every check, and so does the task with it
/// (protocol/admission.h). kMalformed, naming the file.
[[nodiscard]] Result<std::shared_ptr<const program::Program>> open_step_program(const std::string& path,
                                                                                const manifest::Task& task);

/// Before somebody signs that they work on the task in `path`: what the task shows, and its program if
/// TASK.program.jsonl lies beside it. kMalformed.
[[nodiscard]] Status check_admission_of(const std::string& path, const manifest::Task& task);

}  // namespace dgx::jobs
