#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "container.h"
#include "dgx/bundle/opened.h"
#include "unpack_cache.h"

namespace dgx::bundle {

/// The field of an opened dataset: its nodes, which are known to be the digest's, and the place of its bytes.
///
/// The bytes are in the bundle itself if the field is contiguous there; else in a file of the cache, or in a
/// tensor of this process. Wherever they are, anybody may have changed them, so a group of 16 KiB is read
/// into a buffer, compared with its node, and only then used. A small field keeps such groups in memory: what
/// has been believed is never read again, and cannot change any more.
class OpenedField final : public RowSource {
 public:
  /// A field that has rows after place(). `nodes` are the digest's.
  OpenedField(std::shared_ptr<const Reader> reader, std::string name, FieldInfo info,
              std::vector<Digest> nodes);

  [[nodiscard]] DType dtype() const override { return info_.dtype; }
  [[nodiscard]] const Shape& shape() const override { return info_.shape; }
  [[nodiscard]] Status copy(std::int64_t row, std::span<std::uint8_t> out) const override;
  void expect(std::int64_t row) const override;

  /// The tensor's digest, by its nodes.
  [[nodiscard]] Digest digest() const;
  /// Finds the bytes. Those of a compressed field are unpacked, by `cache` if there is one and they are worth
  /// it; what kept that from being done is returned as a warning. kIo if there is no room at all.
  [[nodiscard]] Result<std::string> place(const UnpackCache* cache, const OpenEffort& effort);
  /// Opens a leaf, which exists.
  [[nodiscard]] Result<merkle::TensorOpening> open_leaf(std::uint64_t leaf) const;
  /// The number of groups that the cache had wrong, and what became of its file, in words; empty if none.
  [[nodiscard]] std::string wrong_in_cache() const;

 private:
  using Group = std::vector<std::uint8_t>;
  /// The groups that have been believed, in the memory of a whole field: of a tensor that was unpacked for
  /// this process, which they are in from the beginning, or of their own. If that, the memory of groups that
  /// no row needs is never touched, so never taken.
  struct Kept {
    std::unique_ptr<std::uint8_t, decltype(&std::free)> own{nullptr, &std::free};
    std::uint8_t* bytes = nullptr;  ///< null: nothing is kept
    std::unique_ptr<std::atomic<bool>[]> believed = nullptr;
    std::mutex writing = {};
  };

  void keep_groups(std::uint8_t* bytes);
  [[nodiscard]] Result<ByteView> group(std::uint64_t index, Group& buffer) const;
  [[nodiscard]] Status read_believed(std::uint64_t index, std::span<std::uint8_t> out) const;
  [[nodiscard]] Status read(std::uint64_t begin, std::span<std::uint8_t> out) const;
  [[nodiscard]] Status read_from_chunks(std::uint64_t begin, std::span<std::uint8_t> out) const;
  [[nodiscard]] Result<bool> unpack(const std::function<Status(std::uint64_t, ByteView)>& take,
                                    int threads) const;
  [[nodiscard]] bool are_believed(std::uint64_t begin, ByteView bytes) const;
  [[nodiscard]] Status place_unpacked(const OpenEffort& effort);
  [[nodiscard]] Status check_numbers(std::span<const std::uint8_t> row) const;
  [[nodiscard]] std::span<std::uint8_t> within_group(std::uint64_t index, std::uint8_t* bytes) const;
  [[nodiscard]] Error in_row(std::int64_t row, Error error) const;

  std::shared_ptr<const Reader> reader_;
  std::string name_;
  FieldInfo info_;
  std::vector<Digest> nodes_;
  const Stored* stored_ = nullptr;  ///< of the reader
  std::uint64_t row_bytes_ = 0;
  std::variant<std::monostate, BulkTensor, UnpackCache::Entry> unpacked_;
  std::optional<UnpackCache> cache_;  ///< from which it came
  mutable Kept kept_;
  mutable std::atomic<std::int64_t> wrong_in_cache_ = 0;
};

}  // namespace dgx::bundle
