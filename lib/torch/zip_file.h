#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dgx/core/result.h"

struct zip;

namespace dgx::torch_bridge {

/// A zip file as PyTorch writes it, read by libzip.
///
/// The directory is compared with the header before each member, and a member's CRC-32 with its bytes when
/// they are read. Whatever a directory states, stored members together are no larger than the file.
class ZipFile {
 public:
  struct Member {
    std::uint64_t index = 0;  ///< in the directory
    std::uint64_t bytes = 0;  ///< unpacked
    bool is_stored = true;    ///< not compressed
  };
  using Members = std::map<std::string, Member, std::less<>>;

  /// kMissing, kIo; kMalformed for what is no zip, a damaged directory, two members of one name, one that is
  /// encrypted or does not state its size, and members that overlap. Errors are without the path.
  [[nodiscard]] static Result<ZipFile> open(const std::string& path);

  [[nodiscard]] const Members& members() const { return members_; }
  /// The folder in which the first member lies, with its slash: all that PyTorch writes is in one. Empty if
  /// it is in none.
  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// Reads a member whole, its `bytes` into `out`. kMalformed if its CRC-32 is another.
  [[nodiscard]] Status read(const Member& member, void* out) const;

 private:
  explicit ZipFile(std::shared_ptr<zip> zip) : zip_(std::move(zip)) {}
  [[nodiscard]] Status list(std::uint64_t file_bytes);

  std::shared_ptr<zip> zip_;
  std::string folder_;
  Members members_;
};

}  // namespace dgx::torch_bridge
