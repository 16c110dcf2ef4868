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

/// The folders of unpacked tensors: dgx-bundle(5), "OPENED DATASETS". A file there is called by its tensor's
/// digest and holds its bytes. The own folder is shared by all processes of a user on a machine; a store is
/// one that somebody else fills, perhaps for many machines, and that is only read.
///
/// Nothing is believed for lying there: whoever reads such a file compares it with the tensor's nodes. So no
/// file is synced or checked when it is made, a crash may leave anything, and two users who share nothing but
/// the file system cannot harm each other. The own folder's lock is held while a file is made, by one process
/// at a time. It covers all files of the folder, since packing a second one at the same time would gain
/// little, and so a file that ends in .part and that nobody makes is known to be left over. Of a store no
/// lock is taken and nothing is changed: whoever fills it renames files that are whole into it.
class UnpackCache {
 public:
  /// The place of a file: the own folder, a store, or none, since only this process has it and its name is
  /// gone already.
  enum class Place { kOwn, kStore, kNameless };
  struct Entry {
    InputFile file;
    Place place = Place::kOwn;
  };
  /// Writes a tensor's bytes to a file that has their size. Returns false if some could not be had, so that
  /// others should not find the file.
  using Fill = std::function<Result<bool>(int descriptor)>;

  /// Opens the folder `named` or, without it, the one that DGX_CACHE names; it is made if it is not there. If
  /// it is not the user's alone to write, it is a store, and the own folder is the default one: dgx-cache-UID
  /// in TMPDIR or /var/tmp, which is also opened if neither names one. nullopt if the name is empty.
  /// kCannotCreate, also for a default folder that another user owns or may write.
  [[nodiscard]] static Result<std::optional<UnpackCache>> open(const std::optional<std::string>& named = {});

  /// The file of a tensor of `size` bytes, at least 1; if it is not there, it is made by `fill`. kIo if there
  /// is no room, and errors of `fill`; kCannotCreate if a store lacks it and there is no own folder;
  /// kInterrupted if `stop`, which may be null, ended the wait for the lock.
  [[nodiscard]] Result<Entry> take(const Digest& tensor, std::uint64_t size, const StopFlag* stop,
                                   const Fill& fill) const;
  /// Removes the own file of a tensor that is not what it should be. Others who have it open keep it.
  void drop(const Digest& tensor) const;

 private:
  /// A folder whose files are as readable as itself: `mode` is its own.
  struct Folder {
    std::string path;
    unsigned mode = 0;
  };
  UnpackCache(Result<Folder> own, std::optional<std::string> store)
      : own_(std::move(own)), store_(std::move(store)) {}
  [[nodiscard]] static Result<Folder> open_own(const std::string& path);
  [[nodiscard]] std::string path(const Digest& tensor) const { return own_->path + "/" + tensor.hex(); }
  [[nodiscard]] std::optional<InputFile> find_in_store(const Digest& tensor, std::uint64_t size) const;
  [[nodiscard]] std::optional<InputFile> find(const Digest& tensor, std::uint64_t size) const;
  [[nodiscard]] Status make_room(std::uint64_t size) const;
  [[nodiscard]] Result<Entry> make(const Digest& tensor, std::uint64_t size, const Fill& fill) const;

  Result<Folder> own_;  ///< or why there is none beside a store
  std::optional<std::string> store_;
};

}  // namespace dgx::bundle
