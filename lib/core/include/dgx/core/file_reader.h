#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dgx/core/result.h"

namespace dgx {

/// A regular file that is read piece by piece, from any place in it. It may grow meanwhile.
class FileReader {
 public:
  /// kMissing if it is not there; kMalformed for anything but a regular file; kIo.
  [[nodiscard]] static Result<FileReader> open(const std::string& path);
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;
  ~FileReader();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The file's present length in bytes. kIo.
  [[nodiscard]] Result<std::uint64_t> size() const;
  /// Appends bytes [begin, begin + size) to `out`, or fewer where the file ends. kIo.
  [[nodiscard]] Status append_to(std::string& out, std::uint64_t begin, std::size_t size) const;

 private:
  FileReader(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

}  // namespace dgx
