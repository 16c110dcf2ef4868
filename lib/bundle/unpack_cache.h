#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/stop.h"
#include "input_file.h"

namespace dgx::bundle {

/// The folder of unpacked tensors that all processes of a user share on a machine: dgx-bundle(5), "OPENED
/// DATASETS". A file there is called by its tensor's digest and holds its bytes.
///
/// Nothing is believed for lying there: whoever reads such a file compares it with the tensor's nodes. So no
/// file is synced or checked when it is made, a crash may leave anything, and two users who share nothing but
/// the file system cannot harm each other. The folder's lock is held while a file is made, by one process at
/// a time. It covers all files of the folder, since packing a second one at the same time would gain little,
/// and so a file that ends in .part and that nobody makes is known to be left over.
class UnpackCache {
 public:
  /// A file of the cache, or one that only this process has: its name is gone already.
  struct Entry {
    InputFile file;
    bool shared = true;
  };
  /// Writes a tensor's bytes to a file that has their size. Returns false if some could not be had, so that
  /// others should not find the file.
  using Fill = std::function<Result<bool>(int descriptor)>;

  /// Opens or makes the folder that DGX_CACHE names, by default dgx-cache-UID in TMPDIR or /var/tmp; nullopt
  /// if DGX_CACHE is empty. kCannotCreate, also for a folder that another user owns or may write.
  [[nodiscard]] static Result<std::optional<UnpackCache>> open();

  /// The file of a tensor of `size` bytes, at least 1; if it is not there, it is made by `fill`. kIo if there
  /// is no room, and errors of `fill`; kInterrupted if `stop`, which may be null, ended the wait for the
  /// lock.
  [[nodiscard]] Result<Entry> take(const Digest& tensor, std::uint64_t size, const StopFlag* stop,
                                   const Fill& fill) const;
  /// Removes the file of a tensor that is not what it should be. Others who have it open keep it.
  void drop(const Digest& tensor) const;

 private:
  explicit UnpackCache(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::string path(const Digest& tensor) const { return folder_ + "/" + tensor.hex(); }
  [[nodiscard]] std::optional<InputFile> find(const Digest& tensor, std::uint64_t size) const;
  [[nodiscard]] Status make_room(std::uint64_t size) const;
  [[nodiscard]] Result<Entry> make(const Digest& tensor, std::uint64_t size, const Fill& fill) const;

  std::string folder_;
};

}  // namespace dgx::bundle
