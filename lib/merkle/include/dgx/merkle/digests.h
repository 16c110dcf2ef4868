#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/tree.h"

namespace dgx::merkle {

/// The digests of dgx-bundle(5), "Digests". Hashed integers are big-endian, tensor bytes little-endian.

/// The first byte of a hashed message: of a digest's preimage, or of a leaf in a tree whose leaves are
/// digests.
enum class Kind : std::uint8_t {
  kTensor = 0x02,
  kState = 0x03,  ///< a state, and a state's entry
  kCommittedState = 0x04,
  kValue = 0x05,
  kLedgerEntry = 0x06,
  kDataset = 0x07,
};

/// A tensor's tree has one leaf per KiB of its row-major bytes; the last leaf may be shorter, an empty tensor
/// has none.
inline constexpr std::size_t kTensorLeafBytes = 1024;
/// Parts of this size can be hashed in parallel: a part's root is a node of the tensor's tree.
inline constexpr std::size_t kTensorPartBytes = std::size_t{1} << 20;

[[nodiscard]] std::uint64_t tensor_leaf_count(std::uint64_t size_bytes);
[[nodiscard]] std::uint64_t tensor_part_count(std::uint64_t size_bytes);
/// Leaf hashes of a tensor's bytes, or of a range of them that begins at a leaf.
[[nodiscard]] std::vector<Digest> tensor_leaves(ByteView bytes);
/// The root of part `part` of a tensor with these bytes; asserts that it exists.
[[nodiscard]] Digest tensor_part_root(ByteView bytes, std::uint64_t part);
/// H(0x02 ‖ dtype ‖ rank ‖ u64 dims ‖ root), where root is over the leaves, or over the parts' roots.
[[nodiscard]] Digest tensor_digest(DType dtype, const Shape& shape, const Digest& root);
/// The same, computed from the bytes. Cost: 1.4 GB/s on a core with SHA extensions.
[[nodiscard]] Digest tensor_digest(const TensorView& tensor);

/// A state entry's, or dataset tensor's, name and digest.
struct NamedDigest {
  std::string name;
  Digest digest;

  bool operator==(const NamedDigest&) const = default;
};

/// kMalformed unless the name has 1 to 65535 bytes.
[[nodiscard]] Status check_name(std::string_view name);
/// kMalformed, naming the entry, unless every name is valid and they ascend strictly by bytes. So a state has
/// only one order, and one digest.
[[nodiscard]] Status check_names(std::span<const NamedDigest> entries);

/// Leaf hash of 0x03 ‖ u16 length ‖ name ‖ tensor digest. The name must be valid: asserted.
[[nodiscard]] Digest entry_leaf(std::string_view name, const Digest& tensor);
/// H(0x03 ‖ u64 count ‖ root over the entries' leaves). kMalformed as check_names.
[[nodiscard]] Result<Digest> state_digest(std::span<const NamedDigest> entries);
[[nodiscard]] Digest state_digest(std::uint64_t count, const Digest& root);

/// A state's digest and those of its tensors, in the state's order.
struct StateDigests {
  std::vector<Digest> tensors;
  Digest state;
};
/// Hashes a state on `threads` threads (0: as many as the process may use), on which no digest depends.
/// kMalformed as check_names.
[[nodiscard]] Result<StateDigests> state_digests(std::span<const EntryView> state, int threads = 1);
[[nodiscard]] Result<StateDigests> state_digests(const State& state, int threads = 1);

/// Leaf hashes of the trees whose leaves are not bytes but digests: H(0x00 ‖ kind ‖ digest), and for a ledger
/// entry also the u64 time of its receipt, in Unix milliseconds.
[[nodiscard]] Digest committed_state_leaf(const Digest& state);
[[nodiscard]] Digest value_leaf(const Digest& value);
[[nodiscard]] Digest ledger_leaf(const Digest& statement, std::uint64_t receipt_ms);

/// Most fields of a dataset, and most bytes of a field's name.
inline constexpr std::size_t kMaxFields = 8;
inline constexpr std::size_t kMaxFieldNameBytes = 32;
/// True if a dataset's field may be called so: [a-z][a-z0-9_]{0,31}, neither "classes" nor "channels"
/// (dgx-bundle(5), "Kinds").
[[nodiscard]] bool is_field_name(std::string_view name);

/// H(0x07 ‖ root over the tensors as state entries ‖ SHA-256(scales)). `scales` is the canonical JSON of
/// scale, shift and integer ranges. kMalformed as check_names.
[[nodiscard]] Result<Digest> dataset_digest(std::span<const NamedDigest> tensors, std::string_view scales);
/// The same, from the root over the tensors and the SHA-256 of the scales.
[[nodiscard]] Digest dataset_digest(const Digest& root, const Digest& scales);

/// Leaf hashes of a program text, one per line without its newline. kMalformed if the last line has no
/// newline.
[[nodiscard]] Result<std::vector<Digest>> program_leaves(std::string_view text);

}  // namespace dgx::merkle
