#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"

namespace dgx::merkle {

/// One KiB of a tensor with its path to the tensor's digest: the proof of a single element for a referee.
struct TensorOpening {
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t leaf = 0;
  Bytes data;  ///< the leaf's bytes: 1024, or fewer in the last leaf
  Path path;

  bool operator==(const TensorOpening&) const = default;
};

/// The leaf that holds element `element` (row-major index), and its offset there.
struct ElementPlace {
  std::uint64_t leaf = 0;
  std::size_t offset_bytes = 0;
};
[[nodiscard]] ElementPlace place_of(DType dtype, std::uint64_t element);

/// Opens leaf `leaf`; kUsage if the tensor has no such leaf. Cost: hashes the tensor.
[[nodiscard]] Result<TensorOpening> open_tensor(const TensorView& tensor, std::uint64_t leaf);
/// The digest of the tensor that `opening` is of, for comparison. kMalformed if shape, leaf index, data
/// length and path length do not fit each other.
[[nodiscard]] Result<Digest> tensor_digest_of(const TensorOpening& opening);
/// kMalformed if the opening is of another tensor, or of none.
[[nodiscard]] Status check_opening(const TensorOpening& opening, const Digest& tensor);

/// One entry of a state, with its path to the state's digest.
struct EntryOpening {
  std::string name;
  Digest tensor;
  std::uint64_t index = 0;
  std::uint64_t count = 0;
  Path path;

  bool operator==(const EntryOpening&) const = default;
};

/// Opens the entry called `name`; kUsage if there is none, kMalformed as check_names.
[[nodiscard]] Result<EntryOpening> open_entry(std::span<const NamedDigest> entries, std::string_view name);
/// The digest of the state that `opening` is of; kMalformed if its parts do not fit each other.
[[nodiscard]] Result<Digest> state_digest_of(const EntryOpening& opening);
/// kMalformed if the opening is of another state, or of none.
[[nodiscard]] Status check_opening(const EntryOpening& opening, const Digest& state);

/// The digest of the dataset one of whose tensors `opening` is of; `scales` is the SHA-256 of its scales.
[[nodiscard]] Result<Digest> dataset_digest_of(const EntryOpening& opening, const Digest& scales);

}  // namespace dgx::merkle
