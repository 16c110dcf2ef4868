#include "dgx/core/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace dgx {
namespace {

FileSystem* g_chosen = nullptr;

}  // namespace

int FileSystem::open(const char* path, int flags, unsigned mode) { return ::open(path, flags, mode); }
int FileSystem::close(int file) { return ::close(file); }
ssize_t FileSystem::write(int file, const void* bytes, std::size_t size) {
  return ::write(file, bytes, size);
}
ssize_t FileSystem::pwrite(int file, const void* bytes, std::size_t size, off_t at) {
  return ::pwrite(file, bytes, size, at);
}
int FileSystem::ftruncate(int file, off_t size) { return ::ftruncate(file, size); }
int FileSystem::fsync(int file) { return ::fsync(file); }
int FileSystem::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileSystem::rename_no_replace(const char* from, const char* to) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}
int FileSystem::link(const char* from, const char* to) { return ::link(from, to); }
int FileSystem::unlink(const char* path) { return ::unlink(path); }
int FileSystem::mkdir(const char* path, unsigned mode) { return ::mkdir(path, mode); }

FileSystem& file_system() {
  static FileSystem real;
  return g_chosen == nullptr ? real : *g_chosen;
}

FileSystem* use_file_system(FileSystem* other) { return std::exchange(g_chosen, other); }

}  // namespace dgx
