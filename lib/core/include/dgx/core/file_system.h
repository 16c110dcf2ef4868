#pragma once

#include <sys/types.h>

#include <cstddef>

namespace dgx {

/// The system calls that write durable files, used by core/files and by the driver under HDF5.
///
/// Each does what the call of its name does, errno included. They are virtual so that a test can fail,
/// shorten or cut off the writing at any one of them (tests/support/faulty_file_system.h). Code that opens,
/// writes or removes a durable file must go through file_system(), or its durability is not tested.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  virtual int open(const char* path, int flags, unsigned mode);
  virtual int close(int file);
  virtual ssize_t write(int file, const void* bytes, std::size_t size);
  virtual ssize_t pwrite(int file, const void* bytes, std::size_t size, off_t at);
  virtual int ftruncate(int file, off_t size);
  virtual int fsync(int file);
  virtual int rename(const char* from, const char* to);
  /// renameat2 with RENAME_NOREPLACE.
  virtual int rename_no_replace(const char* from, const char* to);
  virtual int link(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, unsigned mode);
};

/// The file system in use: by default the system's.
[[nodiscard]] FileSystem& file_system();
/// For tests: uses `other` from now on (nullptr: the system's) and returns the previous one. Not while other
/// threads write.
FileSystem* use_file_system(FileSystem* other);

}  // namespace dgx
