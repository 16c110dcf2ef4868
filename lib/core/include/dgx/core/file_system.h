#pragma once

#include <sys/types.h>

#include <cstddef>

namespace dgx {

/// The system calls by which everything that lasts is written: by core/files, and by the driver under HDF5.
///
/// Each does what the call of its name does, errno included. They are virtual so that a test can fail, shorten or
/// end the writing at any one of them (tests/support/faulty_file_system.h); whoever opens, writes or removes a file
/// that is to last does it through file_system(), or durability is claimed and not tested.
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

/// The one in use: the system's.
[[nodiscard]] FileSystem& file_system();
/// For tests: puts `other` in use (nullptr: the system's) and returns the one before. Not while others write.
FileSystem* use_file_system(FileSystem* other);

}  // namespace dgx
