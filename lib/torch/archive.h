#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/lowering/exported.h"
#include "zip_file.h"

namespace dgx::torch_bridge {

/// The element type with a name of dtype_name(); nullopt for a name of none.
[[nodiscard]] std::optional<at::ScalarType> scalar_type_named(std::string_view name);

/// An archive of torch.export (.pt2): a zip of the program as JSON and of the weights as raw bytes.
///
/// Its members must be stored, not compressed, each with a name of its own, and all in one folder: then none
/// is larger than the file (zip_file.h). Opened are `archive_format`, `archive_version`, `byteorder`, one
/// `models/NAME.json`, the lists of weights and constants, and the raw files that these name. Never opened is
/// anything else in the archive: sample inputs (a pickle), compiled libraries, extra files.
class Archive {
 public:
  /// True if the zip at `path` is of torch.export, false if it is something else. Errors of ZipFile::open(),
  /// with the path. kMalformed also if members are unpacked to more than 256 MiB, which libtorch does with
  /// some as it opens a TorchScript file.
  [[nodiscard]] static Result<bool> is_exported(const std::string& path);

  /// Opens an archive for the program of that name, or for its only one if the name is empty. kMalformed or
  /// kUsage, without the path, for an archive of another version or byte order, without this program, with
  /// several, or of compiled code.
  [[nodiscard]] static Result<Archive> open(const std::string& path, const std::string& program);

  [[nodiscard]] const lowering::ExportedProgram& program() const { return program_; }
  /// The name of the program: that of `models/NAME.json`.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// A tensor's place in the archive: a member of the zip, and how the tensor lies in it, in elements.
  struct Stored {
    std::string member;
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    std::int64_t end = 0;  ///< of the elements that it spans; 0 if it has none
    bool requires_grad = false;
    std::int64_t member_bytes = 0;  ///< of the whole member

    /// The number of its elements.
    [[nodiscard]] std::int64_t count() const;
    /// True if its numbers lie row by row and without gaps.
    [[nodiscard]] bool is_dense() const;
    /// True if both are the same numbers in the same form.
    [[nodiscard]] bool is_tied_to(const Stored& other) const;
    /// True if both have a byte in common.
    [[nodiscard]] bool overlaps(const Stored& other) const;
  };
  /// The most bytes that tensors have beside those of their members, one tensor and all together: a tensor
  /// may repeat its numbers (a stride of 0), and several may lie on the same numbers, so that they are larger
  /// than the archive.
  static constexpr std::int64_t kMaxRepeatedBytes = std::int64_t{64} << 20;

  /// The place of a parameter, buffer or constant that the program names. Tied weights have the same.
  /// kMalformed, kUsage.
  [[nodiscard]] Result<Stored> find(const lowering::ExportedInput& input) const;
  /// The numbers there: a tensor of its own, dense. Those of one member are best read one after the other.
  [[nodiscard]] Result<at::Tensor> read(const Stored& place) const;
  /// The same in the type that a program has for them (numbers_of()), which must have one; with one copy of
  /// them in memory if the tensor is the whole member.
  [[nodiscard]] Result<Tensor> read_numbers(const Stored& place) const;

 private:
  explicit Archive(ZipFile zip) : zip_(std::move(zip)) {}
  using List = std::map<std::string, lowering::ExportedTensor, std::less<>>;

  /// The member of that name, without the folder; nullptr if there is none.
  [[nodiscard]] const ZipFile::Member* find_member(std::string_view name) const;
  [[nodiscard]] Result<std::string> text(const std::string& name, std::size_t limit) const;
  [[nodiscard]] Status check_members() const;
  [[nodiscard]] Result<std::string> choose_program(const std::string& wanted) const;
  [[nodiscard]] Status read_program();
  [[nodiscard]] Status read_lists();

  /// A member that holds more than the tensor that was read last, which the next one may be in, too.
  struct Last {
    std::string member;
    at::Tensor bytes;
  };

  ZipFile zip_;
  std::string name_;
  lowering::ExportedProgram program_;
  List weights_, constants_;
  mutable Last last_;
};

}  // namespace dgx::torch_bridge
