#pragma once

#include <string>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

namespace dgx::jobs {

/// A tensor to be written, borrowed.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

/// The bytes of a safetensors file (https://github.com/huggingface/safetensors, "Format"): u64 little-endian
/// header length, JSON header padded with spaces to 8 bytes, numbers. Tensors of 8-byte numbers come first,
/// then 4, then 1, each in the given order, so that all are aligned. `metadata` holds strings.
[[nodiscard]] std::string safetensors_bytes(std::vector<NamedTensor> tensors, const json::Object& metadata);

/// The bytes of an NPY 1.0 file.
[[nodiscard]] std::string npy_bytes(const TensorView& tensor);

/// The bytes of an .npz file: an uncompressed zip of NPY 1.0 files NAME.npy. The same tensors give the same
/// bytes. kUsage if the 64-bit forms of zip would be needed (4 GiB, 65,535 tensors).
[[nodiscard]] Result<std::string> npz_bytes(const std::vector<NamedTensor>& tensors);

}  // namespace dgx::jobs
