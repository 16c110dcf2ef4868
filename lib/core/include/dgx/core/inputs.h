#pragma once

#include <string>

namespace dgx {

/// The files that this process has read. A program whose inputs are folders, or files that it finds beside
/// others, cannot tell from its command line alone which files those are; so every reader notes the file that
/// it opened, and an output with Clobber::kForce replaces none of them. A file is known by device, inode and
/// time of birth, whatever its name. All functions may be called from any thread.

/// Notes the regular file behind an open descriptor; nothing else is noted, nor anything while a Search
/// exists on this thread.
void note_input(int descriptor);
/// Notes the regular file at `path`, if there is one: an input that is known before it is read.
void note_input(const std::string& path);
/// True if `path` leads to a file that was noted.
[[nodiscard]] bool is_input(const std::string& path);

/// While it exists, files that this thread opens are not noted: a search of a folder opens each file there to
/// see what it is, and the old output that it passes over may be replaced.
class Search {
 public:
  Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search();
};

}  // namespace dgx
