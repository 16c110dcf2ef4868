#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/file_reader.h"
#include "dgx/core/result.h"
#include "dgx/crypto/sha256.h"
#include "dgx/ledger/ledger.h"

namespace dgx::ledger {

/// Reads the complete lines of a file that may grow, some at a time, and hashes those that are passed.
///
/// A batch is asked for with peek(), used, and passed with drop(): two files are read side by side, and one
/// of them may have fewer lines ready. Nothing is read beyond the length that the file had when it was
/// opened. A line longer than any envelope is an error before it is in memory.
class LineReader {
 public:
  /// kMissing if there is no such file; kMalformed if it is longer than a ledger may be.
  [[nodiscard]] static Result<LineReader> open(const std::string& path);

  /// Up to `most` of the lines after those passed, without their newlines; borrowed until drop(). At least
  /// one unless there is none, and no more than fit some MiB.
  [[nodiscard]] Result<const std::vector<std::string_view>*> peek(std::size_t most);
  /// Hashes the first `count` of the lines that peek() gave; may run while they are used.
  void hash(std::size_t count);
  /// Passes them.
  void drop(std::size_t count);

  /// Bytes of the lines passed, newlines included.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// The SHA-256 of the bytes hashed.
  [[nodiscard]] Digest sha256() const { return crypto::Sha256(sha256_).finish(); }
  /// The file's length when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// True if the file is as long as when it was opened.
  [[nodiscard]] Result<bool> is_still() const;

  /// The end of the file after the lines passed: complete lines, and whether an incomplete one comes last.
  struct Rest {
    std::size_t lines = 0;
    bool torn = false;
  };
  [[nodiscard]] Result<Rest> rest() const;

 private:
  LineReader(FileReader file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  [[nodiscard]] Status fill(std::size_t most);

  FileReader file_;
  std::uint64_t size_;
  std::uint64_t offset_ = 0;       ///< of buffer_ in the file
  std::string buffer_;             ///< the lines after those passed, as far as they are in memory
  std::vector<std::size_t> ends_;  ///< where lines of buffer_ end: after their newlines
  std::vector<std::string_view> lines_;
  crypto::Sha256 sha256_;
};

}  // namespace dgx::ledger
