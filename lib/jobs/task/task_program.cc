#include "dgx/jobs/task_program.h"

#include <filesystem>
#include <set>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"
#include "dgx/manifest/file_kind.h"
#include "dgx/program/check.h"
#include "dgx/protocol/admission.h"
#include "task/folder_entries.h"

namespace dgx::jobs {

std::string beside(const std::string& path, std::string_view extension) {
  constexpr std::string_view kJson = ".json";
  const bool ends = path.ends_with(kJson);
  return path.substr(0, path.size() - (ends ? kJson.size() : 0)) + std::string(extension);
}

Result<std::string> find_task_file(const std::string& path) {
  std::error_code ignored;
  if (path == "-" || !std::filesystem::is_directory(path, ignored)) return path;
  const Search search;
  DGX_TRY(const FolderEntries entries, FolderEntries::read(path));
  std::vector<std::string> found;
  std::set<std::string> texts;
  for (const std::string& file : entries.ending_in(".json")) {
    const auto text = read_file(file, manifest::kMaxEnvelopeBytes + 1);
    if (!text.ok() || manifest::recognise(*text).statement != manifest::Kind::kTask) continue;
    if (texts.insert(*text).second) found.push_back(file);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Error{ErrorCode::kMissing, path + ": has no task",
                 "name the task's file, or the folder that has it"};
  return usage_error(path + ": has several tasks: " + listed_names(found), "name one of them");
}

Result<std::string> find_program(const std::string& task_path, std::string_view extension,
                                 const manifest::ProgramReference& reference, const std::string& what,
                                 const std::string& hint) {
  constexpr std::uintmax_t kMostBytes = 4 * program::kMaxProgramBytes;  // that are hashed in vain
  const std::string own = beside(task_path, extension);
  if (exists(own)) return own;
  const Search search;
  const auto entries = FolderEntries::read(std::filesystem::path(task_path).parent_path().string());
  std::uintmax_t bytes = 0;
  for (const std::string& file : entries.ok() ? entries->ending_in(".jsonl") : std::vector<std::string>()) {
    const auto start = read_start(file, 4096);
    if (!start.ok() || manifest::recognise(*start).kind != manifest::FileKind::kProgram) continue;
    std::error_code ignored;
    if (bytes += std::filesystem::file_size(file, ignored); bytes > kMostBytes) break;
    const auto text = read_file(file, program::kMaxProgramBytes);
    if (text.ok() && program::program_root(*text) == reference.root) return file;
  }
  return Error{ErrorCode::kMissing,
               own + ": is not there, nor is the " + what + " under another name beside the task", hint};
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

Result<std::shared_ptr<const program::Program>> ProgramShelf::find(const manifest::Task& task) const {
  std::shared_ptr<const program::Program> found;
  {
    const std::lock_guard lock(using_);
    const auto at = programs_.find(task.program.root);
    if (at != programs_.end()) found = at->second;
  }
  // Lines that differ from the root's are for open_program() to refuse.
  if (found == nullptr || std::ssize(found->values) != task.program.lines)
    return std::shared_ptr<const program::Program>();
  if (auto admitted = protocol::check_admission(task, *found); !admitted)
    return within("task", std::move(admitted).error());
  return found;
}

void ProgramShelf::add(const manifest::Task& task, std::shared_ptr<const program::Program> program) {
  const std::lock_guard lock(using_);
  programs_.emplace(task.program.root, std::move(program));
}

Status check_admission_of(const std::string& path, const manifest::Task& task) {
  const auto program = path == "-" ? Result<std::string>(usage_error("no file"))
                                   : find_program(path, ".program.jsonl", task.program, "step program", "");
  if (program.ok()) {
    DGX_TRY([[maybe_unused]] const auto opened, open_step_program(*program, task));
    return {};
  }
  if (auto admitted = protocol::check_admission(task); !admitted)
    return within(path, std::move(admitted).error());
  return {};
}

}  // namespace dgx::jobs
