#include "input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dgx/core/inputs.h"

namespace dgx::bundle {

Error system_error(std::string_view doing, int reason) {
  std::string text = std::strerror(reason);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return {ErrorCode::kIo, fmt::format("cannot {}: {}", doing, text), {}};
}

Result<InputFile> InputFile::open(const std::string& path) {
  if (is_url(path)) {
    DGX_TRY(std::unique_ptr<RemoteFile> remote, open_remote(path));
    return InputFile(std::move(remote));
  }
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    return Error{ErrorCode::kMissing, "does not exist", {}};
  if (descriptor < 0) return system_error("open", errno);
  note_input(descriptor);
  struct stat info {};
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode))
    return InputFile(descriptor, static_cast<std::uint64_t>(info.st_size));
  ::close(descriptor);
  return malformed("is not a regular file");
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status InputFile::read(std::uint64_t begin, std::span<std::uint8_t> out) const {
  if (remote_ && (begin > size_bytes_ || out.size() > size_bytes_ - begin))
    return malformed("is shorter than its header says");
  if (remote_) return out.empty() ? Status() : remote_->read(begin, out);
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", errno);
    if (got == 0) return malformed("was cut off while it was read");
    begin += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

void InputFile::expect(std::uint64_t begin, std::uint64_t size) const {
  if (remote_) return remote_->expect(begin, size);
  static_cast<void>(
      ::posix_fadvise(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(size), POSIX_FADV_WILLNEED));
}

}  // namespace dgx::bundle
