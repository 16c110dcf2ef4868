#pragma once

#include "dgx/core/json.h"
#include "dgx/protocol/game.h"

namespace dgx::tools {

/// JSON forms of a dispute's results, shared by the programs that print them.

[[nodiscard]] inline json::Object decision_json(const protocol::Decision& decision) {
  json::Object out{
      {"falls", decision.falls}, {"reason", manifest::name_of(decision.reason)}, {"words", decision.words}};
  if (decision.claim) out.emplace("claim", manifest::name_of(*decision.claim));
  if (decision.scalar) out.emplace("scalar", manifest::scalar_json(*decision.scalar));
  return out;
}

/// The state of the game so far, from the steps down to a fold's position.
[[nodiscard]] inline json::Object known_json(const protocol::Game& game) {
  const protocol::GameState& state = game.state();
  const manifest::DisputePlace place = game.place();
  json::Object out{{"steps", json::Array{state.first_step, state.end_step}},
                   {"accepted", state.accepted.hex()},
                   {"rejected", state.rejected.hex()}};
  if (const auto* table = state.value_table()) out.emplace("value_table", table->root.hex());
  const protocol::NamedValue* const value = state.value();
  if (place.value) {
    out.emplace("value", *place.value);
    out.emplace("value_digest",
                (value == nullptr ? Digest{} : value->digest).hex());  // none: a claim names it
  }
  if (value != nullptr) {
    out.emplace("kind", kernels::name_of(value->line.kind));
    if (!value->line.provenance.empty()) out.emplace("from", value->line.provenance);
  }
  if (place.element) out.emplace("element", *place.element);
  if (place.position) out.emplace("position", *place.position);
  std::visit(
      [&](const auto& stage) {
        if constexpr (requires { stage.fold; }) {
          const protocol::FoldList& list = stage.fold.list();
          if (!stage.fold.shown().empty()) out.emplace("positions", json::Array{list.begin, list.end});
        }
        if constexpr (requires { stage.shown; }) out.emplace("entry", stage.shown.name);
      },
      state.stage);
  return out;
}

}  // namespace dgx::tools
