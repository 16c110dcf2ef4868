#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/manifest/dispute.h"
#include "dgx/merkle/openings.h"

namespace dgx::protocol {

/// The messages in a dispute's moves (dgx-dispute(7), "Moves and claims", "Evidence"), as plain data. Whether
/// one may be sent, and whether it is true, the rules of the game's stage decide.

inline constexpr std::size_t kMaxListed = 256;    ///< digests in one move
inline constexpr std::size_t kMaxNumbers = 2048;  ///< running results in one list; half as many for an argmax
/// Most lists of one entry that precede another list in one move; a fold has fewer levels.
inline constexpr std::size_t kMaxSingles = 32;
/// Most bytes of a claim's evidence: of its texts and bytes, and 32 for each digest.
inline constexpr std::size_t kMaxEvidenceBytes = 16384;

// The defender's moves.

struct InteriorPost {
  static constexpr std::string_view kKind = "interior";
  Digest digest;
};
struct RowPost {
  static constexpr std::string_view kKind = "row";
  manifest::OpenedRow opened;
};
struct StatesPost {
  static constexpr std::string_view kKind = "states";
  std::vector<Digest> digests;
};
struct ValuesPost {
  static constexpr std::string_view kKind = "values";
  Digest root;
  std::vector<Digest> nodes;
};
struct NodesPost {
  static constexpr std::string_view kKind = "nodes";
  std::vector<Digest> nodes;
};
/// A tensor of more than one leaf is shown by root and nodes, one of a single leaf by its bytes.
struct TensorPost {
  static constexpr std::string_view kKind = "tensor";
  std::optional<Digest> root;
  std::vector<Digest> nodes;
  Bytes bytes;
};
struct LeafPost {
  static constexpr std::string_view kKind = "leaf";
  Bytes bytes;
};
struct NumbersPost {
  static constexpr std::string_view kKind = "numbers";
  Bytes numbers;
};
struct EntriesPost {
  static constexpr std::string_view kKind = "entries";
  std::int64_t count = 0;
  Digest root;
  std::vector<Digest> nodes;
};
using manifest::OpenedLine;
struct EntryPost {
  static constexpr std::string_view kKind = "entry";
  Digest digest;
  OpenedLine line;
  std::string name;
};
/// A fault of a start state or a step, shown by the defender whose row or proof says that there is one. The
/// members that are set tell which form it has.
struct FaultPost {
  static constexpr std::string_view kKind = "fault";
  std::optional<std::int64_t> step;  ///< a step after which the state `digest` is not finite
  std::optional<Digest> digest;
  std::optional<merkle::EntryOpening> entry;
  std::optional<merkle::TensorOpening> tensor;
  std::optional<OpenedLine> line;
  std::optional<Digest> root;  ///< root, dtype and shape are those of the entry's tensor
  DType dtype = DType::kF32;
  Shape shape;
  std::optional<merkle::EntryOpening> before, after;  ///< neighbours in the state
};
struct ChunkPost {
  static constexpr std::string_view kKind = "chunk";
  merkle::EntryOpening entry;
  std::string location;
  merkle::Path path;  ///< from the part to the root of the entry's parts
  Digest root;        ///< the part's root
};

// The challenger's moves.

struct Name {
  static constexpr std::string_view kKind = "name";
  std::int64_t index = 0;
  std::optional<OpenedLine> line;
};
struct Accept {
  static constexpr std::string_view kKind = "accept";
};

/// An operand of an evaluation: an earlier value, opened as one of its leaves; or as type and shape alone, if
/// an access to it gives its fill; or as type and shape without proof, if no access to it is evaluated.
struct Operand {
  std::int64_t value = 0;
  DType dtype = DType::kF32;
  Shape shape;
  std::optional<merkle::Path> table;  ///< the value's path in the value table; none: without proof
  std::optional<Digest> root;         ///< root of its leaves, which opens type and shape alone
  std::int64_t leaf = 0;              ///< without `root`: number of the leaf opened
  Bytes bytes;
  merkle::Path path;
};
/// One leaf of a field of the task's dataset.
struct DataOpening {
  merkle::EntryOpening entry;
  Digest scales;  ///< SHA-256 of the dataset's scales
  merkle::TensorOpening tensor;
};

struct StateInputClaim {
  static constexpr auto kClaim = manifest::Claim::kStateInput;
  std::int64_t index = 0;
  OpenedLine line;
  merkle::EntryOpening entry;
};
/// About an entry's digest, the entries' order, or a missing entry.
struct EntryClaim {
  static constexpr auto kClaim = manifest::Claim::kEntry;
  std::optional<merkle::Path> path;
  std::optional<Digest> digest;
  std::optional<merkle::EntryOpening> before;
  std::optional<OpenedLine> line;
};
struct InputClaim {
  static constexpr auto kClaim = manifest::Claim::kInput;
  std::int64_t index = 0;
  std::optional<DataOpening> data;
};
struct OperationClaim {
  static constexpr auto kClaim = manifest::Claim::kOperation;
  std::int64_t index = 0;
  std::vector<Operand> operands;
};
struct NonFiniteClaim {
  static constexpr auto kClaim = manifest::Claim::kNonFinite;
  merkle::EntryOpening entry;
  merkle::TensorOpening tensor;
};

using Message = std::variant<RowPost, InteriorPost, StatesPost, ValuesPost, NodesPost, TensorPost, LeafPost,
                             NumbersPost, EntriesPost, EntryPost, FaultPost, ChunkPost, Name, Accept,
                             StateInputClaim, EntryClaim, InputClaim, OperationClaim, NonFiniteClaim>;

/// The message's kind in words: "states", "name", "claim d", ….
[[nodiscard]] std::string name_of(const Message& message);

/// Reads the object of a move. kMalformed, with the field, if it is of no form or beyond the limits above.
[[nodiscard]] Result<Message> parse_message(const json::Object& object);
/// The inverse of parse_message().
[[nodiscard]] json::Object print_message(const Message& message);

}  // namespace dgx::protocol
