#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "dgx/core/remote.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// A file, read at offsets, by several threads if need be: a regular file of the system, or one on a server
/// that the user has named (core/remote.h). It is never mapped: if somebody truncates it meanwhile, that must
/// cause an error, not a signal.
class InputFile {
 public:
  /// kMissing, kIo, kMalformed if it is a folder, device or pipe; for a URL errors of open_remote(). Messages
  /// lack the file's name.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        remote_(std::move(other.remote_)),
        size_bytes_(other.size_bytes_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  /// The descriptor; -1 of a file on a server.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_remote() const { return remote_ != nullptr; }
  /// The size when the file was opened.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  /// Fills `out` from byte `begin` on. kMalformed if the file ends before, kIo; errors of RemoteFile::read().
  [[nodiscard]] Status read(std::uint64_t begin, std::span<std::uint8_t> out) const;
  /// Begins to read a range of the file in the background.
  void expect(std::uint64_t begin, std::uint64_t size) const;

 private:
  InputFile(int descriptor, std::uint64_t size_bytes) : descriptor_(descriptor), size_bytes_(size_bytes) {}
  explicit InputFile(std::unique_ptr<RemoteFile> remote)
      : remote_(std::move(remote)), size_bytes_(remote_->size_bytes()) {}
  int descriptor_ = -1;
  std::unique_ptr<RemoteFile> remote_;  ///< null: a file of the system
  std::uint64_t size_bytes_;
};

/// An I/O error with the system's reason.
[[nodiscard]] Error system_error(std::string_view doing, int reason);

}  // namespace dgx::bundle
