#include "dgx/merkle/digests.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/core/parallel.h"
#include "dgx/crypto/sha256.h"

namespace dgx::merkle {
namespace {

constexpr std::size_t kMaxNameBytes = 65535;

std::uint8_t byte_of(Kind kind) { return static_cast<std::uint8_t>(kind); }

Digest digest_leaf(Kind kind, const Digest& digest) {
  const std::array<std::uint8_t, 1> prefix = {byte_of(kind)};
  return leaf_hash(prefix, digest.view());
}

Digest tensor_root(ByteView bytes) {
  std::vector<Digest> parts(tensor_part_count(bytes.size()));
  for (std::size_t part = 0; part < parts.size(); ++part) parts[part] = tensor_part_root(bytes, part);
  return root_of(parts);
}

Result<Digest> entries_root(std::span<const NamedDigest> entries) {
  DGX_CHECK(check_names(entries));
  TreeBuilder builder;
  for (const NamedDigest& entry : entries) builder.add_hash(entry_leaf(entry.name, entry.digest));
  return builder.root();
}

}  // namespace

std::uint64_t tensor_leaf_count(std::uint64_t size_bytes) { return ceil_div(size_bytes, kTensorLeafBytes); }

std::uint64_t tensor_part_count(std::uint64_t size_bytes) { return ceil_div(size_bytes, kTensorPartBytes); }

std::vector<Digest> tensor_leaves(ByteView bytes) {
  std::vector<Digest> leaves(tensor_leaf_count(bytes.size()));
  const std::size_t whole = bytes.size() / kTensorLeafBytes;
  hash_leaves(bytes.first(whole * kTensorLeafBytes), std::span(leaves).first(whole));
  if (whole < leaves.size()) leaves.back() = leaf_hash(bytes.subspan(whole * kTensorLeafBytes));
  return leaves;
}

Digest tensor_part_root(ByteView bytes, std::uint64_t part) {
  assert(part < tensor_part_count(bytes.size()));
  const std::size_t at = part * kTensorPartBytes;
  return root_of(tensor_leaves(bytes.subspan(at, std::min(kTensorPartBytes, bytes.size() - at))));
}

Digest tensor_digest(DType dtype, const Shape& shape, const Digest& root) {
  ByteWriter writer;
  writer.u8(byte_of(Kind::kTensor))
      .u8(static_cast<std::uint8_t>(dtype))
      .u8(static_cast<std::uint8_t>(shape.size()));
  for (const std::int64_t dimension : shape) writer.u64(static_cast<std::uint64_t>(dimension));
  return crypto::sha256(writer.digest(root).bytes());
}

Digest tensor_digest(const TensorView& tensor) {
  return tensor_digest(tensor.dtype, tensor.shape, tensor_root(tensor.bytes));
}

Status check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return {};
  return malformed(fmt::format("entry name of {} bytes, must be 1 to {}", name.size(), kMaxNameBytes));
}

Status check_names(std::span<const NamedDigest> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = entries[i].name;
    if (auto status = check_name(name); !status.ok()) {
      return within(fmt::format("entry {}", i), std::move(status).error());
    }
    if (i > 0 && entries[i - 1].name.compare(name) >= 0) {
      return malformed(
          fmt::format("entry {} \"{}\": not after \"{}\" in byte order", i, name, entries[i - 1].name));
    }
  }
  return {};
}

bool is_field_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  if (name.empty() || name.size() > kMaxFieldNameBytes || name == "classes" || name == "channels")
    return false;
  return kLetters.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

Digest entry_leaf(std::string_view name, const Digest& tensor) {
  assert(check_name(name).ok());
  ByteWriter writer;
  writer.u8(byte_of(Kind::kState)).u16(static_cast<std::uint16_t>(name.size())).text(name).digest(tensor);
  return leaf_hash(writer.bytes());
}

Result<Digest> state_digest(std::span<const NamedDigest> entries) {
  DGX_TRY(const Digest root, entries_root(entries));
  return state_digest(entries.size(), root);
}

Digest state_digest(std::uint64_t count, const Digest& root) {
  return crypto::sha256(ByteWriter().u8(byte_of(Kind::kState)).u64(count).digest(root).bytes());
}

Result<StateDigests> state_digests(std::span<const EntryView> state, int threads) {
  struct Part {
    std::size_t entry = 0;
    std::uint64_t part = 0;
  };
  std::vector<Part> parts;
  std::vector<std::vector<Digest>> roots(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    roots[i].resize(tensor_part_count(state[i].tensor.bytes.size()));
    for (std::uint64_t part = 0; part < roots[i].size(); ++part) parts.push_back({i, part});
  }
  // The work never fails.
  static_cast<void>(for_each_index(parts.size(), thread_count(threads), [&](std::size_t job) -> Status {
    const auto [entry, part] = parts[job];
    roots[entry][part] = tensor_part_root(state[entry].tensor.bytes, part);
    return {};
  }));
  StateDigests out;
  std::vector<NamedDigest> entries;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const TensorView& tensor = state[i].tensor;
    out.tensors.push_back(tensor_digest(tensor.dtype, tensor.shape, root_of(roots[i])));
    entries.push_back({std::string(state[i].name), out.tensors.back()});
  }
  DGX_TRY(out.state, state_digest(entries));
  return out;
}

Result<StateDigests> state_digests(const State& state, int threads) {
  std::vector<EntryView> views;
  views.reserve(state.size());
  for (const Entry& entry : state) views.push_back({entry.name, entry.tensor.view()});
  return state_digests(views, threads);
}

Digest committed_state_leaf(const Digest& state) { return digest_leaf(Kind::kCommittedState, state); }

Digest value_leaf(const Digest& value) { return digest_leaf(Kind::kValue, value); }

Digest ledger_leaf(const Digest& statement, std::uint64_t receipt_ms) {
  ByteWriter writer;
  return leaf_hash(writer.u8(byte_of(Kind::kLedgerEntry)).digest(statement).u64(receipt_ms).bytes());
}

Result<Digest> dataset_digest(std::span<const NamedDigest> tensors, std::string_view scales) {
  DGX_TRY(const Digest root, entries_root(tensors));
  return dataset_digest(root, crypto::sha256(as_bytes(scales)));
}

Digest dataset_digest(const Digest& root, const Digest& scales) {
  return crypto::sha256(ByteWriter().u8(byte_of(Kind::kDataset)).digest(root).digest(scales).bytes());
}

Result<std::vector<Digest>> program_leaves(std::string_view text) {
  if (!text.empty() && text.back() != '\n') return malformed("program: the last line has no newline");
  std::vector<Digest> leaves;
  while (!text.empty()) {
    const std::size_t length = text.find('\n');
    leaves.push_back(leaf_hash(as_bytes(text.substr(0, length))));
    text.remove_prefix(length + 1);
  }
  return leaves;
}

}  // namespace dgx::merkle
