#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/program/specs.h"

namespace dgx::program {

/// A cut of a model behind one of its blocks, at which activations and their gradients are messages of few
/// bits (dgx-lowerings(7), "AQ-SGD"): `3:forward=2,backward=8,first=469`.
struct CutSpec {
  std::int64_t block = 1;  ///< counted from 1; not the model's last one
  std::int64_t forward =
      2;  ///< bits of an activation's difference to what was sent before: 2 to kMostCutBits
  std::int64_t backward = 8;  ///< bits of a gradient
  std::int64_t first = 0;     ///< steps, from the first one on, whose activations pass as they are
  bool operator==(const CutSpec&) const = default;
};
/// Bits of a number in a message: it is a u8. One bit would have no positive number.
inline constexpr std::int64_t kLeastCutBits = 2, kMostCutBits = 8;
/// Most blocks of a built-in model.
inline constexpr std::int64_t kMostBlocks = 1024;

/// A cut as typed. Without `first` there are as many such steps as the data has batches.
struct CutText {
  CutSpec spec;
  bool has_first = false;
};
[[nodiscard]] Result<CutText> parse_cut_spec(std::string_view text);

/// kUsage unless the model has a block behind the cut: a layer of an mlp with its activation, a block of a
/// decoder.
[[nodiscard]] Status check_cut(const CutSpec& cut, const ModelSpec& model);

[[nodiscard]] json::Object to_json(const CutSpec& spec);
/// Reads a task's `cut`; errors stay in `in`.
[[nodiscard]] CutSpec read_cut(json::Fields& in);

/// The entry that keeps, for each sample, the activation that was last sent: `optimizer/message/3`.
[[nodiscard]] std::string message_entry(const CutSpec& cut);

/// The name of the input that holds the numbers of a batch's samples, `batch i`, unless the data has a field
/// of that name (dgx-program(5), "Inputs").
inline constexpr std::string_view kSampleNumbers = "i";

}  // namespace dgx::program
