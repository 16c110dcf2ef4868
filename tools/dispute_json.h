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
  const protocol::Ground& ground = game.ground();
  json::Object out{{"steps", json::Array{ground.first_step, ground.end_step}},
                   {"accepted", ground.accepted.hex()},
                   {"rejected", ground.rejected.hex()}};
  if (ground.table != Digest{}) out.emplace("value_table", ground.table.hex());
  if (ground.value >= 0) {
    out.emplace("value", ground.value);
    out.emplace("value_digest", ground.value_digest.hex());
  }
  if (ground.line) {
    out.emplace("kind", kernels::name_of(ground.line->kind));
    if (!ground.line->provenance.empty()) out.emplace("from", ground.line->provenance);
  }
  if (ground.element >= 0) out.emplace("element", ground.element);
  if (ground.fold && !ground.fold->shown().empty()) {
    const protocol::FoldList& list = ground.fold->list();
    out.emplace("positions", json::Array{list.begin, list.end});
  }
  if (ground.position) out.emplace("position", *ground.position);
  if (ground.shown_entry) out.emplace("entry", ground.shown_entry->name);
  return out;
}

}  // namespace dgx::tools
