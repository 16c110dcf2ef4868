#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/merkle/digests.h"

namespace dgx::jobs {

/// A folder that participants write and an operator reads: each writes below a folder named by their key id
/// (dgx-protocol(7), "OPENING"). A location in it is a manifest::is_place().
struct Store {
  std::string path;

  /// The path of a location, for its writer.
  [[nodiscard]] std::string at(const Digest& key_id, std::string_view location) const;
  /// Makes the writer's folder and the location's parent folders. kMissing if the store is not there;
  /// kCannotCreate if one of them is a link: someone else may have made it, to send the writes elsewhere.
  [[nodiscard]] Status make_folders(const Digest& key_id, std::string_view location) const;

  /// The length of a stranger's file that copy() might take, without reading it; nullopt for any other.
  [[nodiscard]] std::optional<std::int64_t> size(const Digest& key_id, std::string_view location) const;

  /// Copies a stranger's file durably, its holes as holes; `target` must not exist. Follows no link, reads
  /// only a regular file, and never waits for a writer. kMissing if there is no such file; kMalformed for a
  /// link, another kind of file, one of more than `max_bytes`, or one that grows meanwhile.
  [[nodiscard]] Status copy(const Digest& key_id, std::string_view location, const std::string& target,
                            std::int64_t max_bytes) const;
};

/// Copies one's own file. Errors of AtomicFile.
[[nodiscard]] Status copy_file(const std::string& from, const std::string& target, Clobber clobber);

}  // namespace dgx::jobs
