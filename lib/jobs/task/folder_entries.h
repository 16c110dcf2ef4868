#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::jobs {

/// The names in a folder in which programs look for files by their content.
///
/// Strangers may have put files there. So links are left out, no name means anything but by its ending, the
/// names are capped, and each reader has the limits of its format: dgx(7), A FOLDER FOR A TASK.
struct FolderEntries {
  std::string folder;
  std::vector<std::string> files;    ///< regular files, sorted, without the folder
  std::vector<std::string> folders;  ///< sorted, without the folder

  static constexpr std::size_t kMostEntries = 1024;

  /// The entries of a folder; "" is the current one. kMissing, kIo; kUsage if it has more than kMostEntries.
  [[nodiscard]] static Result<FolderEntries> read(const std::string& folder);
  /// The paths of the files with that ending.
  [[nodiscard]] std::vector<std::string> ending_in(std::string_view ending) const;
  /// The path of one entry.
  [[nodiscard]] std::string path_of(const std::string& name) const;
};

/// "a.json, b.json": the names of these paths.
[[nodiscard]] std::string listed_names(const std::vector<std::string>& paths);

}  // namespace dgx::jobs
