#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/lowering/ends.h"

namespace dgx::lowering {

/// A program of torch.export in plain data: the JSON inside a .pt2 archive (schema 8 of PyTorch's
/// torch/_export/serde/schema.py, versions 8.14 and later), as read from the text alone. Nothing is looked up
/// and nothing runs here: targets are names, weights are descriptions. lib/torch/exported.h runs it.
///
/// Keys that this reader does not know are ignored; a *kind* of argument, input or output that it does not
/// know is refused by name, since leaving it out would change the mathematics.

/// An integer: a number, or the name of one that the program has (a size that is known when it runs).
using ExportedInteger = std::variant<std::int64_t, std::string>;

/// A tensor's form. `dtype` is libtorch's name ("float32", "int64", "bool", …).
struct ExportedForm {
  std::string dtype;
  std::vector<ExportedInteger> sizes;  ///< a symbolic one by its expression: "s77", "2*s77"
  std::vector<ExportedInteger> strides;
  ExportedInteger offset = std::int64_t{0};
  bool requires_grad = false;
};

/// The name of a tensor of the program.
struct ExportedName {
  std::string name;
};
struct ExportedDtype {
  std::string name;  ///< "float32"
};
/// "strided", the only layout that is taken.
struct ExportedLayout {};
struct ExportedMemoryFormat {
  std::string name;  ///< "contiguous", "preserve", "channels_last" or "channels_last_3d"
};
struct ExportedDevice {};  ///< any device: everything is read as the CPU
struct ExportedGraph;

/// An argument of a call, or what a call defines. monostate: None.
using ExportedArgument =
    std::variant<std::monostate, bool, double, std::string, ExportedInteger, ExportedName, ExportedDtype,
                 ExportedLayout, ExportedMemoryFormat, ExportedDevice, std::vector<bool>, std::vector<double>,
                 std::vector<ExportedInteger>, std::vector<ExportedName>,
                 std::vector<std::optional<ExportedName>>, std::shared_ptr<ExportedGraph>>;

struct ExportedNode {
  std::string target;                                            ///< "torch.ops.aten.conv2d.default"
  std::vector<std::pair<std::string, ExportedArgument>> inputs;  ///< by name; "" by position
  std::vector<ExportedArgument> outputs;
  std::string place;  ///< the user's line, "net.py:9"; empty if the file does not say
};

struct ExportedGraph {
  std::vector<ExportedArgument> inputs;
  std::vector<ExportedArgument> outputs;
  std::vector<ExportedNode> nodes;
};

/// One input of the whole program.
struct ExportedInput {
  enum class Kind { kParameter, kBuffer, kConstant, kUser, kFixed };
  Kind kind = Kind::kUser;
  std::string name;        ///< inside the program
  std::string title;       ///< the dotted path of a parameter, buffer or constant; forward()'s argument
  ExportedForm form;       ///< of a kUser input that is a tensor
  ExportedArgument fixed;  ///< the value of a kFixed one, which forward() was given at export
};

/// One output of the whole program: forward()'s result, or a buffer's new value.
struct ExportedOutput {
  ExportedArgument value;
  ExportedForm form;   ///< of a result that is a tensor, if the file says it
  std::string buffer;  ///< the buffer's dotted path; empty: a result
  ModelResult path;    ///< of a result: its place in the tree that forward() returns
};

struct ExportedRange {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

struct ExportedProgram {
  std::string torch_version;   ///< "2.11.0"
  std::string schema_version;  ///< "8.17"
  ExportedGraph graph;
  std::vector<ExportedInput> inputs;
  std::vector<ExportedOutput> outputs;
  std::map<std::string, ExportedRange, std::less<>> ranges;  ///< of symbolic sizes, by name
};

/// A stored tensor: its file below the folder of weights or constants, and its form, of integers alone.
struct ExportedTensor {
  std::string path;
  ExportedForm form;
};

/// Bounds on what is read: bytes of a program's text, and of a list of tensors, and values of either. A model
/// of a hundred layers has a tenth of each.
inline constexpr std::size_t kMaxExportedProgramBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxExportedListBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxExportedValues = std::size_t{4} << 20;

/// Reads a program. kMalformed, naming the place inside the text, for what is not of this schema; kUsage, by
/// name, for another major version, another dialect than TRAINING and ATEN, and kinds that cannot be
/// captured.
[[nodiscard]] Result<ExportedProgram> parse_exported_program(std::string_view text);

/// Reads a list of tensors, by dotted path. kUsage for tensors that are stored as pickles, with the hint how
/// to mend it.
[[nodiscard]] Result<std::map<std::string, ExportedTensor, std::less<>>> parse_exported_tensors(
    std::string_view text);

}  // namespace dgx::lowering
