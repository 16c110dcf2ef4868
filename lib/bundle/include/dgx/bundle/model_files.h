#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"

/// The files by which models go to other programs, and come back from strangers.
namespace dgx::bundle {

/// A tensor to be written, borrowed.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

/// A model file's tensors, sorted by their names' bytes, and what it says about itself: texts by name.
struct ModelFile {
  State tensors;
  json::Object metadata;
};

/// The bytes of a safetensors file (https://github.com/huggingface/safetensors, "Format"): u64 little-endian
/// header length, JSON header padded with spaces to 8 bytes, numbers. Tensors of 8-byte numbers come first,
/// then 4, then 1, each in the given order, so that all are aligned. `metadata` holds strings.
[[nodiscard]] std::string safetensors_bytes(std::vector<NamedTensor> tensors, const json::Object& metadata);

/// The floats that a file may hold: F32, or also F16 and BF16, every one of which is an f32.
enum class Floats { kF32, kWidened };
/// Reads a safetensors file: floats, I64 and U8; other element types are refused by name. Every byte must
/// belong to one tensor. kMissing, kIo, kMalformed with a position.
[[nodiscard]] Result<ModelFile> read_safetensors(const std::string& path, Floats floats = Floats::kF32);

/// The file that says in which others of its folder a model's tensors are.
inline constexpr std::string_view kShardIndex = "model.safetensors.index.json";
/// Reads all tensors of a model in several safetensors files, floats widened, and no metadata. kMalformed
/// also if the index names a file outside the folder, or disagrees with a file about what is in it.
[[nodiscard]] Result<ModelFile> read_sharded_safetensors(const std::string& folder);

/// The bytes of an NPY 1.0 file.
[[nodiscard]] std::string npy_bytes(const TensorView& tensor);

/// The most bytes of an archive's comment.
inline constexpr std::size_t kMaxCommentBytes = 65535;
/// The bytes of an .npz file: an uncompressed zip of NPY 1.0 files NAME.npy. The same tensors and metadata
/// give the same bytes. `metadata`, if it is not empty, becomes the archive's comment, in canonical JSON of
/// at most kMaxCommentBytes (asserted). kUsage if the 64-bit forms of zip would be needed (4 GiB, 65,535
/// tensors).
[[nodiscard]] Result<std::string> npz_bytes(const std::vector<NamedTensor>& tensors,
                                            const json::Object& metadata = {});

/// Reads an .npz file that npz_bytes() made of tensors in ascending order: an archive of which any byte
/// differs from what would be written for its content is kMalformed. So no reader of zip is needed, and none
/// can be tricked. kMissing, kIo.
[[nodiscard]] Result<ModelFile> read_own_npz(const std::string& path);

}  // namespace dgx::bundle
