#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/core/bulk.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"
#include "h5.h"
#include "input_file.h"
#include "structure.h"

/// The common layer of all bundles: named tensors and attributes in an HDF5 file, written atomically, read
/// with suspicion.
namespace dgx::bundle {

/// Checks that `name` is a path of link names that every HDF5 tool shows unchanged: at most 8 parts of
/// printable ASCII with '/' between them, none empty, "." or "..", and at most kMaxNameBytes bytes.
/// kMalformed with the reason.
[[nodiscard]] Status check_name(std::string_view name);

/// A tensor to be written into a bundle.
struct NamedView {
  std::string path;  ///< from the root, without a leading '/'
  BulkView view;
  std::optional<Digest> digest;  ///< becomes the dataset's attribute `digest`
};

/// Digests as the tensor u8[n,32] that bundles store; a view of them.
[[nodiscard]] TensorView digests_view(std::span<const Digest> digests);

/// Writes one bundle. Errors name the target; nothing is at the target before commit().
class Writer {
 public:
  [[nodiscard]] static Result<Writer> create(AtomicFile target, Kind kind, Effort effort,
                                             Storage storage = Storage::kCompressed);
  Writer(Writer&&) noexcept = default;

  /// Creates a group and its parents; existing ones are fine.
  [[nodiscard]] Status group(const std::string& path);
  /// Attributes of a group ("" is the root).
  [[nodiscard]] Status text(const std::string& group, const char* name, std::string_view value);
  [[nodiscard]] Status integer(const std::string& group, const char* name, std::int64_t value);
  [[nodiscard]] Status digest(const std::string& group, const char* name, const Digest& value);
  /// Writes datasets, creating their parent groups. Numbers are compressed in threads; the order in the file
  /// is the span's.
  [[nodiscard]] Status tensors(std::span<const NamedView> tensors);
  [[nodiscard]] Status tensor(const std::string& path, const TensorView& view);
  /// Writes digests as u8[n,32].
  [[nodiscard]] Status digests(const std::string& path, std::span<const Digest> digests);
  /// Closes the file and moves it to the target.
  [[nodiscard]] Status commit();

 private:
  Writer(AtomicFile target, int threads, Storage storage)
      : target_(std::move(target)),
        name_(target_.target()),
        outcome_(std::make_unique<h5::WriteOutcome>()),
        threads_(threads),
        storage_(storage) {}
  [[nodiscard]] Result<h5::Handle> open_group(const std::string& path) const;
  /// The first error of a write that HDF5 was not told of (write_driver.h).
  [[nodiscard]] Status landed() const;
  [[nodiscard]] Status put_tensors(std::span<const NamedView> tensors);

  AtomicFile target_;  // before file_: the file is closed first, then removed if it was not committed
  std::string name_;   // for messages
  std::unique_ptr<h5::WriteOutcome> outcome_;
  h5::Handle file_;
  int threads_;
  Storage storage_;
  std::set<std::string, std::less<>> groups_;
};

/// Unpacks chunk `index` of a chunked dataset: all its numbers but the zeros that fill it up, in row-major
/// order. `numbers` has their size (place_of_chunk). kMalformed, kIo; without the file's name.
[[nodiscard]] Status unpack_chunk(const InputFile& file, const Stored& from, std::uint64_t index,
                                  std::span<std::uint8_t> numbers);

/// A dataset's metadata, read before anything of its size is allocated.
struct TensorInfo {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t size_bytes = 0;
  std::optional<Digest> digest;
};

/// The kind that a root group's attributes state. kMalformed: another version, or not a bundle.
[[nodiscard]] Result<Kind> kind_in(const Object& root);

/// Reads one bundle: its structure when it is opened, numbers when they are asked for. Errors name the file.
class Reader {
 public:
  /// kMissing, kIo, kMalformed: not a bundle, or of another kind or version.
  [[nodiscard]] static Result<Reader> open(const std::string& path, Kind kind);
  Reader(Reader&&) noexcept = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Result<std::string> text(const std::string& group, const char* name) const;
  [[nodiscard]] Result<std::int64_t> integer(const std::string& group, const char* name, std::int64_t low,
                                             std::int64_t high) const;
  [[nodiscard]] Result<Digest> digest(const std::string& group, const char* name) const;
  /// True if the group is there and has that attribute.
  [[nodiscard]] bool has_attribute(const std::string& group, std::string_view name) const;
  /// True if the root has a group or dataset of that name.
  [[nodiscard]] bool has_child(const std::string& name) const { return root_.children.contains(name); }
  /// Names in a group, ascending. kMalformed if there are more than `most`.
  [[nodiscard]] Result<std::vector<std::string>> children(const std::string& group,
                                                          std::size_t most = kMaxObjects) const;
  /// kMalformed unless the group's children, or the root's attributes other than `dgx` and `version`, are
  /// exactly these (ascending).
  [[nodiscard]] Status expect_children(const std::string& group, const std::vector<std::string>& names) const;
  [[nodiscard]] Status expect_attributes(const std::string& group, std::vector<std::string> names) const;
  /// Paths of all datasets below `group`, relative to it, ascending by bytes.
  [[nodiscard]] Result<std::vector<std::string>> datasets_below(const std::string& group) const;

  [[nodiscard]] Result<TensorInfo> info(const std::string& path) const;
  /// The place of a dataset's numbers in file(), for those who read parts of them; valid as long as the
  /// reader.
  [[nodiscard]] Result<const Stored*> stored(const std::string& path) const;
  [[nodiscard]] const InputFile& file() const { return file_; }
  /// Reads the numbers of several datasets, decompressing in threads. kMalformed if together they exceed
  /// effort.max_bytes. Those of effort.bulk_bytes or more are kept in files.
  [[nodiscard]] Result<std::vector<BulkTensor>> bulk_tensors(std::span<const std::string> paths,
                                                             const Effort& effort) const;
  /// Like bulk_tensors(), but in memory.
  [[nodiscard]] Result<std::vector<Tensor>> tensors(std::span<const std::string> paths,
                                                    const Effort& effort) const;
  [[nodiscard]] Result<Tensor> tensor(const std::string& path, const Effort& effort) const;
  /// Reads u8[n,32], n at most `most`.
  [[nodiscard]] Result<std::vector<Digest>> digests(const std::string& path, std::size_t most) const;

  /// `error` with the file's name before its message.
  [[nodiscard]] Error in_file(Error error) const { return within(name_, std::move(error)); }

 private:
  Reader(std::string name, InputFile file, Object root)
      : name_(std::move(name)), file_(std::move(file)), root_(std::move(root)) {}
  [[nodiscard]] Result<const Object*> group_at(const std::string& path) const;
  [[nodiscard]] Status walk(const std::string& group, const std::string& prefix,
                            std::vector<std::string>& out) const;

  std::string name_;
  InputFile file_;
  Object root_;
};

}  // namespace dgx::bundle
