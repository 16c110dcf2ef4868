#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/lowering/exported.h"

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace dgx::torch_bridge {

/// The element type with a name of dtype_name(); nullopt for a name of none.
[[nodiscard]] std::optional<at::ScalarType> scalar_type_named(std::string_view name);

/// An archive of torch.export (.pt2): a zip of the program as JSON and of the weights as raw bytes, read by
/// libtorch's own zip reader.
///
/// Its members must lie beside each other, stored and not compressed, with names of their own: then none is
/// larger than the file. Opened are `archive_format`, `archive_version`, `byteorder`, one `models/NAME.json`,
/// the lists of weights and constants, and the raw files that these name. Never opened is anything else in
/// the archive: sample inputs (a pickle), compiled libraries, extra files.
class Archive {
 public:
  /// True if the zip at `path` is of torch.export, false if it is something else. Throws libtorch's
  /// exceptions if it is no zip.
  /// Before libtorch opens it, kMalformed, with the path, if members are unpacked to more than 256 MiB.
  [[nodiscard]] static Result<bool> is_exported(const std::string& path);

  /// Opens an archive. kMalformed or kUsage, without the path, for an archive of another version or byte
  /// order, without a program, with several, or of compiled code.
  [[nodiscard]] static Result<Archive> open(const std::string& path);

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

    /// True if both are the same numbers in the same form.
    [[nodiscard]] bool is_tied_to(const Stored& other) const;
    /// True if both have a byte in common.
    [[nodiscard]] bool overlaps(const Stored& other) const;
  };
  /// The most bytes of tensors that repeat their numbers (a stride of 0), one and all: they may be larger
  /// than the archive.
  static constexpr std::int64_t kMaxRepeatedBytes = std::int64_t{64} << 20;

  /// The place of a parameter, buffer or constant that the program names. Tied weights have the same.
  /// kMalformed, kUsage.
  [[nodiscard]] Result<Stored> find(const lowering::ExportedInput& input) const;
  /// The numbers there: a tensor of its own, dense.
  [[nodiscard]] Result<at::Tensor> read(const Stored& place) const;

 private:
  explicit Archive(std::shared_ptr<caffe2::serialize::PyTorchStreamReader> zip) : zip_(std::move(zip)) {}
  using List = std::map<std::string, lowering::ExportedTensor, std::less<>>;

  [[nodiscard]] Result<std::string> text(const std::string& name, std::size_t limit) const;
  [[nodiscard]] Status check_members(const std::string& path) const;
  [[nodiscard]] Status read_program();
  [[nodiscard]] Status read_lists();

  std::shared_ptr<caffe2::serialize::PyTorchStreamReader> zip_;
  std::string name_;
  lowering::ExportedProgram program_;
  List weights_, constants_;
};

}  // namespace dgx::torch_bridge
