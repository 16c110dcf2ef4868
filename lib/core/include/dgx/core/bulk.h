#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

/// Tensors too large for memory, such as a large dataset's. They lie in mapped files, and code that walks
/// through them gives back the pages it has seen.
///
/// A dataset is read in the order of a keyed permutation. Its bundle's chunks are compressed, and even with a
/// cache of some of them, nearly every row of a KiB would unpack a chunk of a MiB. So the dataset is unpacked
/// once, while it is hashed anyway, into a nameless file, where a row costs one read.
namespace dgx {

/// Tensors of at least this many bytes go to files.
inline constexpr std::uint64_t kBulkBytes = std::uint64_t{1} << 30;

/// Numbers owned elsewhere: in memory, or in file `file`, which is mapped at `bytes`.
struct BulkView : TensorView {
  BulkView() = default;
  BulkView(TensorView view, int from = -1)
      : TensorView(std::move(view)), file(from) {}  // NOLINT: implicit by design
  int file = -1;                                    ///< descriptor; below 0: in memory
};

/// A tensor in memory or in a file. A copy shares nothing with the original, and is in memory.
class BulkTensor {
 public:
  BulkTensor() = default;
  BulkTensor(Tensor tensor)
      : memory_(std::move(tensor)), view_(memory_.view()) {}  // NOLINT: implicit by design
  BulkTensor(const BulkTensor& other) : BulkTensor(Tensor(other.view_)) {}
  BulkTensor(BulkTensor&& other) noexcept
      : memory_(std::move(other.memory_)), view_(std::exchange(other.view_, {})) {}
  BulkTensor& operator=(BulkTensor other) noexcept;
  ~BulkTensor();

  /// A zeroed tensor. From `least` bytes on it lies in a nameless file in $TMPDIR (/var/tmp if that is not
  /// set), whose space is allocated at once; kIo, with a hint, if there is not enough. The shape must be
  /// valid (element_count): asserted.
  [[nodiscard]] static Result<BulkTensor> create(DType dtype, Shape shape, std::uint64_t least = kBulkBytes);
  /// A file's bytes as u8[n], which must not be written; from `least` bytes on they stay in the file, mapped.
  /// A mapped file can be cut off by anybody who may write it, and a signal (SIGBUS) then ends the process
  /// that reads the mapping: read such bytes by copy_bytes(), whose error is kIo. Errors as read_file.
  [[nodiscard]] static Result<BulkTensor> open(const std::string& path, std::uint64_t max_bytes,
                                               std::uint64_t least = kBulkBytes);

  [[nodiscard]] DType dtype() const { return view_.dtype; }
  [[nodiscard]] const Shape& shape() const { return view_.shape; }
  [[nodiscard]] std::int64_t count() const { return view_.count(); }
  /// Gives the numbers another shape of as many elements (asserted).
  void reshape(Shape shape);
  [[nodiscard]] const BulkView& view() const { return view_; }
  [[nodiscard]] ByteView bytes() const { return view_.bytes; }
  [[nodiscard]] std::span<std::uint8_t> bytes() {
    return {const_cast<std::uint8_t*>(view_.bytes.data()), view_.bytes.size()};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return view_.as<T>();
  }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
  /// Moves the tensor out; it must be in memory: asserted.
  [[nodiscard]] Tensor take() &&;

 private:
  static Result<BulkTensor> map(int file, DType dtype, Shape shape, std::uint64_t size, bool writable,
                                const std::string& path);

  Tensor memory_;  ///< empty if it is in a file
  BulkView view_;
};

/// Copies bytes [begin, begin + out.size()). A tensor in a file is read by system calls, so that no page of
/// its mapping takes memory. kIo, also if the file has been cut off.
[[nodiscard]] Status copy_bytes(const BulkView& from, std::uint64_t begin, std::span<std::uint8_t> out);
/// The first `count` bytes as text, or all if there are fewer. Errors of copy_bytes().
[[nodiscard]] Result<std::string> copy_head(const BulkView& from, std::uint64_t count);

/// Gives back the memory of bytes [begin, begin + size) of a tensor in a file; they are read again when they
/// are used. Does nothing for a tensor in memory.
void release(const BulkView& tensor, std::uint64_t begin, std::uint64_t size);
// Not for a TensorView, which does not say whether its numbers lie in a file.
void release(const TensorView&, std::uint64_t, std::uint64_t) = delete;

/// release() for a tensor that is walked through from its beginning, row by row: a MiB at a time, since each
/// call to the system costs as much as many rows.
class PageReleaser {
 public:
  /// `tensor` must outlive this.
  explicit PageReleaser(const BulkView& tensor) : tensor_(tensor) {}
  /// Says that the bytes before `end` are done with. `end` never falls.
  void passed(std::uint64_t end) {
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
    if (end - done_ < kPiece) return;
    release(tensor_, done_, end - done_);
    done_ = end;
  }

 private:
  const BulkView& tensor_;
  std::uint64_t done_ = 0;
};

/// Prefetches bytes [begin, begin + size): from a file in the background, from memory into the caches.
void expect(const BulkView& tensor, std::uint64_t begin, std::uint64_t size);

/// Calls work(begin, count) for consecutive pieces of [0, size) that fit a cache. `work` returns a Status;
/// the first error ends the loop and is returned.
template <class Work>
[[nodiscard]] Status for_each_piece(std::uint64_t size, const Work& work) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
  for (std::uint64_t begin = 0; begin < size; begin += kPiece)
    DGX_CHECK(work(begin, std::min(kPiece, size - begin)));
  return {};
}

}  // namespace dgx
