#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "dgx/core/result.h"

namespace dgx::bundle {

/// A regular file, read at offsets, by several threads if need be. It is never mapped: if somebody truncates
/// it meanwhile, that must cause an error, not a signal.
class InputFile {
 public:
  /// kMissing, kIo, kMalformed if it is a folder, device or pipe; messages lack the file's name.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), size_bytes_(other.size_bytes_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The size when the file was opened.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  /// Fills `out` from byte `begin` on. kMalformed if the file ends before, kIo.
  [[nodiscard]] Status read(std::uint64_t begin, std::span<std::uint8_t> out) const;

 private:
  InputFile(int descriptor, std::uint64_t size_bytes) : descriptor_(descriptor), size_bytes_(size_bytes) {}
  int descriptor_;
  std::uint64_t size_bytes_;
};

/// An I/O error with the system's reason.
[[nodiscard]] Error system_error(std::string_view doing, int reason);

}  // namespace dgx::bundle
