#include "dgx/merkle/openings.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgx::merkle {
namespace {

/// The number of bytes in leaf `leaf` of a tensor of `size_bytes`, which has such a leaf.
std::uint64_t leaf_size(std::uint64_t size_bytes, std::uint64_t leaf) {
  return std::min<std::uint64_t>(kTensorLeafBytes, size_bytes - leaf * kTensorLeafBytes);
}

}  // namespace

ElementPlace place_of(DType dtype, std::uint64_t element) {
  // Sizes divide 1024, so no element lies in two leaves, and nothing here overflows below 2^53 elements.
  const std::uint64_t at = element * size_of(dtype);
  return {at / kTensorLeafBytes, static_cast<std::size_t>(at % kTensorLeafBytes)};
}

Result<TensorOpening> open_tensor(const TensorView& tensor, std::uint64_t leaf) {
  const std::vector<Digest> leaves = tensor_leaves(tensor.bytes);
  DGX_TRY(Path path, inclusion_path(leaves, leaf));
  const ByteView data = tensor.bytes.subspan(leaf * kTensorLeafBytes, leaf_size(tensor.bytes.size(), leaf));
  return TensorOpening{tensor.dtype, tensor.shape, leaf, Bytes(data.begin(), data.end()), std::move(path)};
}

Result<Digest> tensor_digest_of(const TensorOpening& opening) {
  DGX_TRY(const std::int64_t elements, element_count(opening.shape));
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(elements) * size_of(opening.dtype);
  const std::uint64_t leaves = tensor_leaf_count(size_bytes);
  if (opening.leaf >= leaves) {
    return malformed(fmt::format("leaf {} of a tensor of {}", opening.leaf, leaves));
  }
  const std::uint64_t expected = leaf_size(size_bytes, opening.leaf);
  if (opening.data.size() != expected) {
    return malformed(
        fmt::format("leaf {} has {} bytes, expected {}", opening.leaf, opening.data.size(), expected));
  }
  DGX_TRY(const Digest root, root_from_path(leaf_hash(opening.data), opening.leaf, leaves, opening.path));
  return tensor_digest(opening.dtype, opening.shape, root);
}

Status check_opening(const TensorOpening& opening, const Digest& tensor) {
  DGX_TRY(const Digest digest, tensor_digest_of(opening));
  if (digest == tensor) return {};
  return malformed(
      fmt::format("leaf {} opens tensor {}, not {}", opening.leaf, digest.brief(), tensor.brief()));
}

Result<EntryOpening> open_entry(std::span<const NamedDigest> entries, std::string_view name) {
  DGX_CHECK(check_names(entries));
  std::vector<Digest> leaves;
  leaves.reserve(entries.size());
  for (const NamedDigest& entry : entries) leaves.push_back(entry_leaf(entry.name, entry.digest));
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const NamedDigest& e) { return e.name == name; });
  if (found == entries.end()) return usage_error(fmt::format("no entry \"{}\"", name));
  const auto index = static_cast<std::uint64_t>(found - entries.begin());
  DGX_TRY(Path path, inclusion_path(leaves, index));
  return EntryOpening{found->name, found->digest, index, entries.size(), std::move(path)};
}

Result<Digest> state_digest_of(const EntryOpening& opening) {
  DGX_CHECK(check_name(opening.name));
  const Digest leaf = entry_leaf(opening.name, opening.tensor);
  DGX_TRY(const Digest root, root_from_path(leaf, opening.index, opening.count, opening.path));
  return state_digest(opening.count, root);
}

Status check_opening(const EntryOpening& opening, const Digest& state) {
  DGX_TRY(const Digest digest, state_digest_of(opening));
  if (digest == state) return {};
  return malformed(
      fmt::format("entry \"{}\" opens state {}, not {}", opening.name, digest.brief(), state.brief()));
}

Result<Digest> dataset_digest_of(const EntryOpening& opening, const Digest& scales) {
  DGX_CHECK(check_name(opening.name));
  const Digest leaf = entry_leaf(opening.name, opening.tensor);
  DGX_TRY(const Digest root, root_from_path(leaf, opening.index, opening.count, opening.path));
  return dataset_digest(root, scales);
}

}  // namespace dgx::merkle
