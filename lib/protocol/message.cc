#include "dgx/protocol/message.h"

#include <fmt/format.h>

#include "dgx/manifest/entry_opening.h"
#include "dgx/manifest/fields.h"
#include "dgx/program/line.h"

namespace dgx::protocol {
namespace {

using json::Fields;
using json::Object;
using json::Value;
using manifest::digests_json;
using manifest::entry_json;
using manifest::kMaxPath;
using manifest::opened_line_json;
using manifest::read_bytes;
using manifest::read_digest;
using manifest::read_digests;
using manifest::read_entry;
using manifest::read_opened_line;
using merkle::EntryOpening;
using merkle::Path;
using merkle::TensorOpening;

constexpr std::string_view kClaimKind = "claim";
constexpr std::size_t kMaxOperands = 96;
constexpr std::size_t kMaxNumberBytes = (kMaxNumbers + kMaxSingles) * 8;
constexpr std::int64_t kMaxInteger = manifest::kMaxInteger;

// Every message fits into a move: base64 takes 4 characters for 3 bytes, JSON at most 2 for a character of a
// text (a line of a program has no others), and names and numbers around them take less than is added here.
constexpr std::size_t in_base64(std::size_t bytes) { return (bytes + 2) / 3 * 4; }
constexpr std::size_t kAround = 2048;        // the statement around the message
constexpr std::size_t kAroundOperand = 256;  // an operand's keys, numbers and shape
constexpr std::size_t kPathBytes = in_base64(kMaxPath * sizeof(Digest));
constexpr std::size_t kLineBytes = 2 * program::kMaxLineBytes + kPathBytes;
constexpr std::size_t kEntryBytes = 2 * manifest::kMaxOpenedName + kPathBytes + kAroundOperand;
constexpr std::size_t kTensorBytes = in_base64(merkle::kTensorLeafBytes) + kPathBytes + kAroundOperand;
static_assert(kAround + in_base64(kMaxNumberBytes) <= manifest::kMaxMoveBytes);
static_assert(kAround + in_base64(kMaxListed * sizeof(Digest)) <= manifest::kMaxMoveBytes);
static_assert(kAround + in_base64(kMaxEvidenceBytes) + kLineBytes + kMaxOperands * kAroundOperand <=
              manifest::kMaxMoveBytes);
static_assert(kAround + 3 * kEntryBytes + kTensorBytes + kLineBytes <= manifest::kMaxMoveBytes);  // a fault

// Parts that several kinds share.

Path read_path(Fields& in, std::string_view key) { return read_digests(in, key, kMaxPath); }
std::vector<Digest> read_list(Fields& in, std::string_view key) { return read_digests(in, key, kMaxListed); }

DType read_dtype(Fields& in) {
  const auto dtype = dtype_from_name(in.string("t", 8));
  if (!dtype.ok()) in.fail("t", dtype.error().message);
  return dtype.ok() ? *dtype : DType::kF32;
}
Shape read_shape(Fields& in) {
  Shape shape;
  for (const Value& value : in.array("shape", kMaxRank)) {
    const std::int64_t* size = value.as_int();
    if (size == nullptr) in.fail("shape", "a dimension is not an integer");
    shape.push_back(size == nullptr ? 1 : *size);
  }
  const auto count = element_count(shape);
  if (!count.ok()) in.fail("shape", count.error().message);
  return shape;
}
/// The shape of a value whose elements can be opened: it has at least one.
Shape read_full_shape(Fields& in) {
  const Shape shape = read_shape(in);
  const auto count = element_count(shape);
  if (count.ok() && *count == 0) in.fail("shape", "has no elements");
  return shape;
}
Value shape_json(const Shape& shape) {
  json::Array out;
  for (const std::int64_t size : shape) out.emplace_back(size);
  return out;
}

TensorOpening read_tensor(Fields& in) {
  TensorOpening out;
  out.dtype = read_dtype(in);
  out.shape = read_full_shape(in);
  out.leaf = static_cast<std::uint64_t>(in.integer("leaf", 0, kMaxInteger));
  out.data = read_bytes(in, "bytes", merkle::kTensorLeafBytes);
  out.path = read_path(in, "path");
  return out;
}
Value tensor_json(const TensorOpening& tensor) {
  return Object{{"bytes", to_base64(tensor.data)},
                {"leaf", static_cast<std::int64_t>(tensor.leaf)},
                {"path", digests_json(tensor.path)},
                {"shape", shape_json(tensor.shape)},
                {"t", name_of(tensor.dtype)}};
}

Operand read_operand(Fields& in) {
  Operand out;
  out.value = in.integer("value", 0, kMaxInteger);
  out.dtype = read_dtype(in);
  out.shape = read_full_shape(in);
  if (!in.has("table")) return out;
  out.table = read_path(in, "table");
  if (in.has("root")) {
    out.root = read_digest(in, "root");
    return out;
  }
  out.leaf = in.integer("leaf", 0, kMaxInteger);
  out.bytes = read_bytes(in, "bytes", merkle::kTensorLeafBytes);
  out.path = read_path(in, "path");
  return out;
}
Value operand_json(const Operand& operand) {
  Object out{{"shape", shape_json(operand.shape)}, {"t", name_of(operand.dtype)}, {"value", operand.value}};
  if (!operand.table) return out;
  out.emplace("table", digests_json(*operand.table));
  if (operand.root) {
    out.emplace("root", operand.root->hex());
    return out;
  }
  out.emplace("bytes", to_base64(operand.bytes));
  out.emplace("leaf", operand.leaf);
  out.emplace("path", digests_json(operand.path));
  return out;
}

std::vector<Operand> read_operands(Fields& in) {
  std::vector<Operand> out;
  for (const Value& value : in.array("operands", kMaxOperands)) {
    Fields one(value, "operands");
    out.push_back(read_operand(one));
    if (const Status status = one.finish(); !status.ok())
      manifest::fail_nested(in, "operands", status.error());
  }
  return out;
}

DataOpening read_data(Fields& in) {
  DataOpening out;
  out.entry = manifest::read_object(in, "entry", read_entry);
  out.scales = read_digest(in, "scales");
  out.tensor = manifest::read_object(in, "tensor", read_tensor);
  return out;
}
Value data_json(const DataOpening& data) {
  return Object{
      {"entry", entry_json(data.entry)}, {"scales", data.scales.hex()}, {"tensor", tensor_json(data.tensor)}};
}

// The size of a claim's evidence, in bytes as they are hashed.

std::size_t size_of(const Path& path) { return path.size() * sizeof(Digest); }
std::size_t size_of(const EntryOpening& entry) {
  return entry.name.size() + sizeof(Digest) + size_of(entry.path);
}
std::size_t size_of(const TensorOpening& tensor) { return tensor.data.size() + size_of(tensor.path); }
std::size_t size_of(const OpenedLine& line) { return line.text.size() + size_of(line.path); }
std::size_t size_of(const Operand& operand) {
  if (!operand.table) return 0;
  return size_of(*operand.table) +
         (operand.root ? sizeof(Digest) : operand.bytes.size() + size_of(operand.path));
}

struct Evidence {
  std::size_t operator()(const StateInputClaim& claim) const {
    return size_of(claim.line) + size_of(claim.entry);
  }
  std::size_t operator()(const EntryClaim& claim) const {
    return (claim.path ? size_of(*claim.path) + sizeof(Digest) : 0) +
           (claim.before ? size_of(*claim.before) : 0) + (claim.line ? size_of(*claim.line) : 0);
  }
  std::size_t operator()(const InputClaim& claim) const {
    return claim.data ? size_of(claim.data->entry) + sizeof(Digest) + size_of(claim.data->tensor) : 0;
  }
  std::size_t operator()(const OperationClaim& claim) const {
    std::size_t out = 0;
    for (const Operand& operand : claim.operands) out += size_of(operand);
    return out;
  }
  std::size_t operator()(const NonFiniteClaim& claim) const {
    return size_of(claim.entry) + size_of(claim.tensor);
  }
  template <class Other>
  std::size_t operator()(const Other&) const {
    return 0;
  }
};

// Reading, by kind.

Message read_claim(Fields& in) {
  const std::string claim = in.string("claim", 1);
  if (claim == manifest::name_of(StateInputClaim::kClaim)) {
    return StateInputClaim{in.integer("index", 0, kMaxInteger),
                           manifest::read_object(in, "line", read_opened_line),
                           manifest::read_object(in, "entry", read_entry)};
  }
  if (claim == manifest::name_of(EntryClaim::kClaim)) {
    EntryClaim out;
    if (in.has("digest") || in.has("path")) {
      out.digest = read_digest(in, "digest");
      out.path = read_path(in, "path");
      return out;
    }
    if (in.has("before")) out.before = manifest::read_object(in, "before", read_entry);
    if (in.has("line")) out.line = manifest::read_object(in, "line", read_opened_line);
    if (!out.before && !out.line) in.fail("claim", "b comes with a digest, an entry before, or a line");
    return out;
  }
  if (claim == manifest::name_of(InputClaim::kClaim)) {
    InputClaim out;
    out.index = in.integer("index", 0, kMaxInteger);
    if (in.has("data")) out.data = manifest::read_object(in, "data", read_data);
    return out;
  }
  if (claim == manifest::name_of(OperationClaim::kClaim))
    return OperationClaim{in.integer("index", 0, kMaxInteger), read_operands(in)};
  if (claim == manifest::name_of(NonFiniteClaim::kClaim)) {
    return NonFiniteClaim{manifest::read_object(in, "entry", read_entry),
                          manifest::read_object(in, "tensor", read_tensor)};
  }
  in.fail("claim", fmt::format("\"{}\" is not a claim that a move can make", claim));
  return Accept{};
}

Message read_tensor_post(Fields& in) {
  TensorPost out;
  if (in.has("bytes")) {
    out.bytes = read_bytes(in, "bytes", merkle::kTensorLeafBytes);
    return out;
  }
  out.root = read_digest(in, "root");
  out.nodes = read_list(in, "nodes");
  return out;
}

Message read_chunk(Fields& in) {
  ChunkPost out;
  out.entry = manifest::read_object(in, "entry", read_entry);
  out.location = manifest::read_name(in, "location", 1024);
  out.path = read_path(in, "path");
  out.root = read_digest(in, "root");
  return out;
}

template <class T, class Read>
void read_optional(Fields& in, std::string_view key, std::optional<T>& out, Read read) {
  if (in.has(key)) out = manifest::read_object(in, key, read);
}

Message read_fault(Fields& in) {
  FaultPost out;
  if (in.has("step")) out.step = in.integer("step", 0, kMaxInteger);
  out.digest = manifest::read_optional_digest(in, "digest");
  read_optional(in, "entry", out.entry, read_entry);
  read_optional(in, "tensor", out.tensor, read_tensor);
  read_optional(in, "line", out.line, read_opened_line);
  read_optional(in, "before", out.before, read_entry);
  read_optional(in, "after", out.after, read_entry);
  out.root = manifest::read_optional_digest(in, "root");
  if (!out.root) return out;
  out.dtype = read_dtype(in);
  out.shape = read_shape(in);
  return out;
}

Message read_by_kind(Fields& in) {
  const std::string kind = in.string("kind", 16);
  if (kind == RowPost::kKind) return RowPost{manifest::read_opened_row(in)};
  if (kind == InteriorPost::kKind) return InteriorPost{read_digest(in, "digest")};
  if (kind == StatesPost::kKind) return StatesPost{read_list(in, "digests")};
  if (kind == ValuesPost::kKind) return ValuesPost{read_digest(in, "root"), read_list(in, "nodes")};
  if (kind == NodesPost::kKind) return NodesPost{read_list(in, "nodes")};
  if (kind == TensorPost::kKind) return read_tensor_post(in);
  if (kind == LeafPost::kKind) return LeafPost{read_bytes(in, "bytes", merkle::kTensorLeafBytes)};
  if (kind == NumbersPost::kKind) return NumbersPost{read_bytes(in, "numbers", kMaxNumberBytes)};
  if (kind == EntriesPost::kKind) {
    return EntriesPost{in.integer("count", 0, kMaxInteger), read_digest(in, "root"), read_list(in, "nodes")};
  }
  if (kind == EntryPost::kKind) {
    return EntryPost{read_digest(in, "digest"), manifest::read_object(in, "line", read_opened_line),
                     manifest::read_name(in, "name", 256)};
  }
  if (kind == FaultPost::kKind) return read_fault(in);
  if (kind == ChunkPost::kKind) return read_chunk(in);
  if (kind == Name::kKind) {
    Name out{in.integer("index", 0, kMaxInteger), std::nullopt};
    if (in.has("line")) out.line = manifest::read_object(in, "line", read_opened_line);
    return out;
  }
  if (kind == Accept::kKind) return Accept{};
  if (kind == kClaimKind) return read_claim(in);
  in.fail("kind", fmt::format("\"{}\" is not a message", kind));
  return Accept{};
}

// Writing: the fields of a form besides its kind and its claim's letter.

Object fields_of(const RowPost& post) { return manifest::opened_row_json(post.opened); }
Object fields_of(const InteriorPost& post) { return {{"digest", post.digest.hex()}}; }
Object fields_of(const StatesPost& post) { return {{"digests", digests_json(post.digests)}}; }
Object fields_of(const ValuesPost& post) {
  return {{"nodes", digests_json(post.nodes)}, {"root", post.root.hex()}};
}
Object fields_of(const NodesPost& post) { return {{"nodes", digests_json(post.nodes)}}; }
Object fields_of(const TensorPost& post) {
  if (!post.root) return {{"bytes", to_base64(post.bytes)}};
  return {{"nodes", digests_json(post.nodes)}, {"root", post.root->hex()}};
}
Object fields_of(const LeafPost& post) { return {{"bytes", to_base64(post.bytes)}}; }
Object fields_of(const NumbersPost& post) { return {{"numbers", to_base64(post.numbers)}}; }
Object fields_of(const EntriesPost& post) {
  return {{"count", post.count}, {"nodes", digests_json(post.nodes)}, {"root", post.root.hex()}};
}
Object fields_of(const EntryPost& post) {
  return {{"digest", post.digest.hex()}, {"line", opened_line_json(post.line)}, {"name", post.name}};
}
Object fields_of(const FaultPost& post) {
  Object out;
  if (post.step) out.emplace("step", *post.step);
  if (post.digest) out.emplace("digest", post.digest->hex());
  if (post.entry) out.emplace("entry", entry_json(*post.entry));
  if (post.tensor) out.emplace("tensor", tensor_json(*post.tensor));
  if (post.line) out.emplace("line", opened_line_json(*post.line));
  if (post.before) out.emplace("before", entry_json(*post.before));
  if (post.after) out.emplace("after", entry_json(*post.after));
  if (!post.root) return out;
  out.emplace("root", post.root->hex());
  out.emplace("shape", shape_json(post.shape));
  out.emplace("t", dgx::name_of(post.dtype));
  return out;
}
Object fields_of(const ChunkPost& post) {
  return {{"entry", entry_json(post.entry)},
          {"location", post.location},
          {"path", digests_json(post.path)},
          {"root", post.root.hex()}};
}
Object fields_of(const Name& name) {
  Object out{{"index", name.index}};
  if (name.line) out.emplace("line", opened_line_json(*name.line));
  return out;
}
Object fields_of(const Accept&) { return {}; }
Object fields_of(const StateInputClaim& claim) {
  return {{"index", claim.index}, {"line", opened_line_json(claim.line)}, {"entry", entry_json(claim.entry)}};
}
Object fields_of(const EntryClaim& claim) {
  Object out;
  if (claim.digest) out.emplace("digest", claim.digest->hex());
  if (claim.path) out.emplace("path", digests_json(*claim.path));
  if (claim.before) out.emplace("before", entry_json(*claim.before));
  if (claim.line) out.emplace("line", opened_line_json(*claim.line));
  return out;
}
Object fields_of(const InputClaim& claim) {
  Object out{{"index", claim.index}};
  if (claim.data) out.emplace("data", data_json(*claim.data));
  return out;
}
Object fields_of(const OperationClaim& claim) {
  json::Array operands;
  for (const Operand& operand : claim.operands) operands.push_back(operand_json(operand));
  return {{"index", claim.index}, {"operands", operands}};
}
Object fields_of(const NonFiniteClaim& claim) {
  return {{"entry", entry_json(claim.entry)}, {"tensor", tensor_json(claim.tensor)}};
}

}  // namespace

std::string name_of(const Message& message) {
  return std::visit(
      [](const auto& said) -> std::string {
        if constexpr (requires { said.kClaim; }) {
          return fmt::format("{} {}", kClaimKind, manifest::name_of(said.kClaim));
        } else {
          return std::string(said.kKind);
        }
      },
      message);
}

Result<Message> parse_message(const Object& object) {
  const Value value(object);
  Fields in(value, "say");
  Message message = read_by_kind(in);
  const std::size_t evidence = std::visit(Evidence{}, message);
  if (evidence > kMaxEvidenceBytes) {
    in.fail("claim",
            fmt::format("brings {} bytes of evidence, at most {} allowed", evidence, kMaxEvidenceBytes));
  }
  DGX_CHECK(in.finish());
  return message;
}

Object print_message(const Message& message) {
  return std::visit(
      [](const auto& said) {
        Object out = fields_of(said);
        if constexpr (requires { said.kClaim; }) {
          out.emplace("kind", kClaimKind);
          out.emplace("claim", manifest::name_of(said.kClaim));
        } else {
          out.emplace("kind", said.kKind);
        }
        return out;
      },
      message);
}

}  // namespace dgx::protocol
