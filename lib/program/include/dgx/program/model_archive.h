#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::program {

/// The content of an archive of torch.export in plain data, as dgx-inspect shows it (dgx-inspect(1), MODELS).
/// Texts come from the file, printable.
struct ModelArchive {
  /// The sizes of a tensor as the file has them: numbers, symbols and expressions of these.
  struct Tensor {
    std::string name;
    std::string dtype;  ///< libtorch's name, "float32"; empty: no tensor
    std::vector<std::string> sizes;
  };
  /// A size that is known when the program runs.
  struct Size {
    std::string name;
    std::int64_t least = 0;
    std::optional<std::int64_t> most;  ///< nullopt: no bound
  };
  struct Parameter {
    Tensor tensor;
    bool is_trained = false;
    std::string tied_to;  ///< the name of an earlier one that is the same tensor; empty: none
  };
  enum class Treatment {
    kLowered,     ///< has a row in dgx-lowerings(7)
    kDecomposed,  ///< is made of other operators
    kFolded,      ///< is computed when the task is made: sizes, literals, assertions
    kMissing,     ///< can be neither lowered nor computed
  };
  struct Operation {
    std::string name;  ///< "aten.conv2d.default"
    std::int64_t count = 0;
    Treatment treatment = Treatment::kMissing;
    std::string place;  ///< the user's line of the first one, "net.py:9"; empty if the file does not say
  };

  std::string program;         ///< its name in the archive
  std::string torch_version;   ///< "2.11.0"
  std::string schema_version;  ///< "8.17"
  /// The mode in which it was exported, so far as a call tells: "training", "evaluation", or "either".
  std::string mode;
  std::vector<Tensor> inputs, outputs;
  std::vector<Size> sizes;
  std::vector<Parameter> parameters;
  std::vector<Tensor> buffers;
  std::vector<Operation> operations;  ///< by name
};

/// A model's file as an option names it: NET.pt2, or NET.pt2:NAME for one of several programs in an archive.
struct ModelFile {
  std::string path;
  std::string program;  ///< empty: the only one
};
/// The file that `text` names: the whole text if there is such a file, or if none is there without a last
/// part
/// ":NAME".
[[nodiscard]] ModelFile model_file(const std::string& text);

/// The part of libdgx_torch.so that looks at model files without running anything.
class ModelReader {
 public:
  virtual ~ModelReader() = default;
  /// kMalformed: no archive of torch.export, or a damaged one. kUsage: an archive that cannot be captured
  /// whatever its calls are, of another version or with pickled weights, and one without the program that is
  /// named, or with several if none is.
  [[nodiscard]] virtual Result<ModelArchive> describe(const ModelFile& file) = 0;
};

/// The one symbol that libdgx_torch.so exports: `extern "C" dgx::program::ModelReader*
/// dgx_torch_module_2()`. The module owns the object, which is a lowering::CaptureBackend.
using TorchModuleFunction = ModelReader* (*)();
inline constexpr const char* kTorchModuleSymbol = "dgx_torch_module_2";

}  // namespace dgx::program
