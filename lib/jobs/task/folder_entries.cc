#include "task/folder_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace dgx::jobs {

Result<FolderEntries> FolderEntries::read(const std::string& folder) {
  FolderEntries out{folder, {}, {}};
  const std::string place = folder.empty() ? "." : folder;
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (++count > kMostEntries)
      return usage_error(fmt::format("{}: has more than {} entries", place, kMostEntries),
                         "name the files, or move them to a folder of their own");
    std::error_code gone;  // an entry may vanish meanwhile
    const auto status = at->symlink_status(gone);
    const std::string name = at->path().filename().string();
    if (std::filesystem::is_regular_file(status)) out.files.push_back(name);
    if (std::filesystem::is_directory(status)) out.folders.push_back(name);
  }
  if (error) {
    const bool missing = error == std::errc::no_such_file_or_directory;
    return Error{missing ? ErrorCode::kMissing : ErrorCode::kIo,
                 fmt::format("{}: cannot list: {}", place, error.message()),
                 {}};
  }
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.folders.begin(), out.folders.end());
  return out;
}

std::vector<std::string> FolderEntries::ending_in(std::string_view ending) const {
  std::vector<std::string> out;
  for (const std::string& name : files) {
    if (name.ends_with(ending) && !name.starts_with('.')) out.push_back(path_of(name));
  }
  return out;
}

std::string FolderEntries::path_of(const std::string& name) const {
  return folder.empty() || folder.ends_with('/') ? folder + name : fmt::format("{}/{}", folder, name);
}

std::string listed_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(std::filesystem::path(path).filename().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace dgx::jobs
