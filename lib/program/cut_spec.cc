#include "dgx/program/cut_spec.h"

#include <fmt/format.h>

#include <variant>

#include "spec_text.h"

namespace dgx::program {
namespace {

/// Blocks of a model that can be cut; nullopt: it cannot.
std::optional<std::int64_t> blocks_of(const ModelSpec& model) {
  if (const auto* const mlp = std::get_if<MlpSpec>(&model))
    return static_cast<std::int64_t>(mlp->sizes.size()) - 1;
  if (const GptSpec* const decoder = decoder_of(model)) return decoder->layers;
  return std::nullopt;
}

}  // namespace

Result<CutText> parse_cut_spec(std::string_view text) {
  SpecReader in(text);
  CutText out;
  const auto block = parse_number<std::int64_t>(in.kind());
  if (!block || *block < 1 || *block > kMostBlocks) {
    return usage_error(fmt::format("'{}' is no number of a block", printable(in.kind())),
                       "3:forward=2,backward=8 cuts behind the third");
  }
  out.spec.block = *block;
  in.number("forward", out.spec.forward, kLeastCutBits, kMostCutBits);
  in.number("backward", out.spec.backward, kLeastCutBits, kMostCutBits);
  std::int64_t first = -1;
  in.number<std::int64_t>("first", first, 0, kMostTaskSteps);
  DGX_CHECK(in.finish());
  out.has_first = first >= 0;
  if (out.has_first) out.spec.first = first;
  return out;
}

Status check_cut(const CutSpec& cut, const ModelSpec& model) {
  const auto blocks = blocks_of(model);
  if (!blocks) {
    return usage_error("this model cannot be cut", "mlp, gpt and switch can, between their blocks");
  }
  if (cut.block < *blocks) return {};
  return usage_error(
      fmt::format("block {}: the model has {}, and the cut must be before the last", cut.block, *blocks),
      *blocks > 1 ? fmt::format("1 to {}", *blocks - 1) : "");
}

json::Object to_json(const CutSpec& spec) {
  return {
      {"backward", spec.backward}, {"block", spec.block}, {"first", spec.first}, {"forward", spec.forward}};
}

CutSpec read_cut(json::Fields& in) {
  CutSpec out;
  out.backward = in.integer("backward", kLeastCutBits, kMostCutBits);
  out.block = in.integer("block", 1, kMostBlocks);
  out.first = in.integer("first", 0, kMostTaskSteps);
  out.forward = in.integer("forward", kLeastCutBits, kMostCutBits);
  return out;
}

std::string message_entry(const CutSpec& cut) { return fmt::format("optimizer/message/{}", cut.block); }

}  // namespace dgx::program
