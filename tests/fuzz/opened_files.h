#pragma once

#include <string>
#include <vector>

namespace dgx::fuzz {

/// While one is alive, the files that this process opens by the C library's functions, libraries included.
class OpenedFiles {
 public:
  OpenedFiles();
  ~OpenedFiles();
  OpenedFiles(const OpenedFiles&) = delete;
  OpenedFiles& operator=(const OpenedFiles&) = delete;

  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  void add(const char* path) { paths_.emplace_back(path); }

 private:
  std::vector<std::string> paths_;
};

}  // namespace dgx::fuzz
