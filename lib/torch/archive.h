#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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
/// Opened are `archive_format`, `archive_version`, `byteorder`, one `models/NAME.json`, the lists of weights
/// and constants, and the raw files that these name. Never opened is anything else in the archive: sample
/// inputs (a pickle), compiled libraries, extra files.
class Archive {
 public:
  /// True if the zip at `path` is of torch.export, false if it is something else. Throws libtorch's
  /// exceptions if it is no zip.
  [[nodiscard]] static bool is_exported(const std::string& path);

  /// Opens an archive. kMalformed or kUsage, without the path, for an archive of another version or byte
  /// order, without a program, or with several.
  [[nodiscard]] static Result<Archive> open(const std::string& path);

  [[nodiscard]] const lowering::ExportedProgram& program() const { return program_; }
  /// The numbers of a parameter, buffer or constant, as the program names it: a tensor of its own, strided as
  /// the file says. Two names with one file and form have one `key`: tied weights.
  struct Stored {
    at::Tensor tensor;
    std::string key;
    bool requires_grad = false;
  };
  [[nodiscard]] Result<Stored> stored(const lowering::ExportedInput& input) const;

 private:
  explicit Archive(std::shared_ptr<caffe2::serialize::PyTorchStreamReader> zip) : zip_(std::move(zip)) {}
  using List = std::map<std::string, lowering::ExportedTensor, std::less<>>;

  [[nodiscard]] Result<std::string> text(const std::string& name, std::size_t limit) const;
  [[nodiscard]] Status read_lists(const std::string& model);
  [[nodiscard]] Result<at::Tensor> read_tensor(const std::string& name,
                                               const lowering::ExportedForm& form) const;

  std::shared_ptr<caffe2::serialize::PyTorchStreamReader> zip_;
  lowering::ExportedProgram program_;
  List weights_, constants_;
};

}  // namespace dgx::torch_bridge
