#include "dgx/core/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"

namespace dgx {

Result<FileReader> FileReader::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    Error error = errno_error(path, "open");
    if (error.code == ErrorCode::kCannotCreate) error.code = ErrorCode::kIo;
    return error;
  }
  FileReader out(path, descriptor);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return malformed(path + ": is not a file");
  note_input(descriptor);
  return out;
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::uint64_t> FileReader::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) return errno_error(path_, "read");
  return static_cast<std::uint64_t>(info.st_size);
}

Status FileReader::append_to(std::string& out, std::uint64_t begin, std::size_t size) const {
  const std::size_t before = out.size();
  std::size_t used = 0;
  out.resize(before + size);
  while (used < size) {
    const ssize_t count =
        ::pread(descriptor_, out.data() + before + used, size - used, static_cast<off_t>(begin + used));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path_, "read");
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
  }
  out.resize(before + used);
  return {};
}

}  // namespace dgx
