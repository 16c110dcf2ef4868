#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "device/device_source.h"
#include "device/device_text.h"

namespace dgx::exec {

/// The C++ type of a value's elements in memory, such as "float".
[[nodiscard]] inline std::string memory_type(DType dtype) {
  return dtype == DType::kF32 ? "float" : dtype == DType::kI64 ? "std::int64_t" : "std::uint8_t";
}
/// "f32", as in as_f32().
[[nodiscard]] inline std::string type_name(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kI64 ? "i64" : "u8";
}

/// Collects a kernel's arguments as its text asks for them, and names them.
class KernelArguments {
 public:
  /// An argument's name in the kernel's text, such as "a3". Adds it at first use.
  std::string read(kernels::ValueIndex value, DType dtype) {
    return name({KernelArgument::What::kValue, value}, "const " + memory_type(dtype), "a");
  }
  std::string written(kernels::ValueIndex value, DType dtype) {
    return name({KernelArgument::What::kValue, value}, memory_type(dtype), "b");
  }
  std::string flag(kernels::ValueIndex value) {
    return name({KernelArgument::What::kFlag, value}, "std::int32_t", "f");
  }
  std::string scratch(const std::string& type) {
    return name({KernelArgument::What::kScratch, {}}, type, "s");
  }

  [[nodiscard]] const std::vector<KernelArgument>& all() const { return all_; }
  /// Declares the constants that hold the arguments' addresses.
  void declare(Lines& lines) const {
    for (const std::string& line : declared_) lines.add(line);
  }

 private:
  std::string name(const KernelArgument& argument, const std::string& type, const std::string& letter) {
    auto at = std::find(all_.begin(), all_.end(), argument);
    if (at == all_.end()) at = all_.insert(all_.end(), argument);
    const std::string number = std::to_string(at - all_.begin()), name = letter + number;
    const std::string line = type + "* const " + name + " = address<" + type + ">(at, " + number + ");";
    if (std::find(declared_.begin(), declared_.end(), line) == declared_.end()) declared_.push_back(line);
    return name;
  }

  std::vector<KernelArgument> all_;
  std::vector<std::string> declared_;
};

}  // namespace dgx::exec
