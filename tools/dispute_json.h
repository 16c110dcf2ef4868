#pragma once

#include "dgx/core/json_output.h"
#include "dgx/protocol/game.h"

namespace dgx::tools {

/// JSON forms of a dispute as dgx-bisect and dgx-referee print it.

/// A ruling's scalar operation, each number with its value. The names are the ruling's, but an operand's
/// `bits` are its `value` here.
[[nodiscard]] inline json::Output::Object scalar_json(const manifest::JudgedScalar& scalar) {
  json::Output::Array operands;
  for (const manifest::ScalarOperand& operand : scalar.operands) {
    operands.emplace_back(
        json::Output::Object{{"value", json::Output::of_hex(operand.bits)}, {"from", operand.from}});
  }
  json::Output::Object out{{"claimed", json::Output::of_hex(scalar.claimed)},
                           {"operands", std::move(operands)},
                           {"operation", scalar.operation},
                           {"result", json::Output::of_hex(scalar.result)}};
  if (scalar.index) out.emplace("index", *scalar.index);
  if (!scalar.place.empty()) out.emplace("place", scalar.place);
  return out;
}

[[nodiscard]] inline json::Output::Object decision_json(const protocol::Decision& decision) {
  json::Output::Object out{
      {"falls", decision.falls}, {"reason", manifest::name_of(decision.reason)}, {"words", decision.words}};
  if (decision.claim) out.emplace("claim", manifest::name_of(*decision.claim));
  if (decision.scalar) out.emplace("scalar", scalar_json(*decision.scalar));
  return out;
}

/// The state of the game so far, from the steps down to a fold's position.
[[nodiscard]] inline json::Object known_json(const protocol::Game& game) {
  const protocol::GameState& state = game.state();
  const manifest::DisputePlace place = game.place();
  json::Object out{{"steps", json::Array{state.first_step, state.end_step}},
                   {"accepted", state.accepted.hex()},
                   {"rejected", state.rejected.hex()}};
  const auto put_table = [&](const Digest& root) { out.emplace("value_table", root.hex()); };
  std::visit(
      [&](const auto& stage) {
        if constexpr (requires { stage.table; }) put_table(stage.table.root);
        if constexpr (requires { stage.shown; }) out.emplace("entry", stage.shown.name);
        if constexpr (requires { stage.fold; }) {
          const protocol::FoldList& list = stage.fold.list();
          if (!stage.fold.shown().empty()) out.emplace("positions", json::Array{list.begin, list.end});
        }
      },
      state.stage);
  if (place.value) out.emplace("value", *place.value);
  if (const protocol::NamedValue* value = state.value()) {
    put_table(value->table.root);
    out.emplace("value_digest", value->digest.hex());
    out.emplace("kind", kernels::name_of(value->line.kind));
    if (!value->line.provenance.empty()) out.emplace("from", value->line.provenance);
  }
  if (place.element) out.emplace("element", *place.element);
  if (place.position) out.emplace("position", *place.position);
  return out;
}

}  // namespace dgx::tools
