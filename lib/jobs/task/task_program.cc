#include "dgx/jobs/task_program.h"

#include "dgx/core/files.h"
#include "dgx/program/check.h"
#include "dgx/protocol/admission.h"

namespace dgx::jobs {

std::string beside(const std::string& path, std::string_view extension) {
  constexpr std::string_view kJson = ".json";
  const bool ends = path.ends_with(kJson);
  return path.substr(0, path.size() - (ends ? kJson.size() : 0)) + std::string(extension);
}

Result<std::shared_ptr<const program::Program>> open_program(const std::string& path,
                                                             const manifest::ProgramReference& reference,
                                                             const std::string& what) {
  DGX_TRY(const std::string text, read_file(path, program::kMaxProgramBytes));
  if (program::program_root(text) != reference.root) {
    return malformed(path + ": is not the " + what + " that the task binds");
  }
  auto program = program::parse_program(text);
  if (!program) return within(path, std::move(program).error());
  if (static_cast<std::int64_t>(program->values.size()) != reference.lines) {
    return malformed(path + ": " + std::to_string(program->values.size()) + " lines, the task says " +
                     std::to_string(reference.lines));
  }
  return std::make_shared<const program::Program>(std::move(program).value());
}

Result<std::shared_ptr<const program::Program>> open_step_program(const std::string& path,
                                                                  const manifest::Task& task) {
  DGX_TRY(auto program, open_program(path, task.program, "step program"));
  if (auto checked = program::check_program(*program, program::ProgramRole::kTraining); !checked) {
    return within(path, std::move(checked).error());
  }
  if (auto admitted = protocol::check_admission(task, *program); !admitted) {
    return within(path + ": task", std::move(admitted).error());
  }
  return program;
}

Status check_admission_of(const std::string& path, const manifest::Task& task) {
  const std::string program = beside(path, ".program.jsonl");
  if (path != "-" && exists(program)) {
    DGX_TRY([[maybe_unused]] const auto opened, open_step_program(program, task));
    return {};
  }
  if (auto admitted = protocol::check_admission(task); !admitted)
    return within(path, std::move(admitted).error());
  return {};
}

}  // namespace dgx::jobs
