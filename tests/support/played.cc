#include "played.h"

#include <memory>
#include <set>

#include "dgx/protocol/message.h"
#include "dgx/protocol/segments.h"

namespace dgx::test {
namespace {

struct Kept {
  Scene scene;
  std::unique_ptr<TinyParty> honest;
};

/// A game's traits: its kinds of moves and its end.
std::set<std::string> traits_of(const Played& played) {
  std::set<std::string> out;
  for (const auto& move : played.moves) {
    const auto message = protocol::parse_message(move.body.say);
    if (message.ok()) out.insert(std::string(protocol::name_of(*message)));
  }
  if (const auto& decision = played.game.decision()) {
    std::string end(manifest::name_of(decision->reason));
    if (decision->claim) end += manifest::name_of(*decision->claim);
    if (const auto* value = played.game.state().value())
      end +=
          std::string(kernels::name_of(value->line.kind)) + (value->line.source.name.empty() ? "" : "source");
    out.insert(end);
  }
  return out;
}

void add_games(const Kept& kept, std::set<std::string>& seen, std::vector<Example>& out, Dice& dice) {
  const Scene& scene = kept.scene;
  const auto segments = *protocol::Segments::of(scene.task.body.steps, scene.task.body.checkpoint_every);
  for (int i = 0; i < 150; ++i) {
    const protocol::Segment segment = segments[dice.below(segments.count())];
    kept.honest->look(segment.first, segment.end);
    TinyParty cheat(scene, {draw_fault(scene, segment.first, segment.end, dice)}, kept.honest.get());
    cheat.ignores_non_finite = true;
    const bool right = dice.one_in(3);
    TinyParty& defender = right ? *kept.honest : cheat;
    Setup setup;
    setup.segment = segment.index;
    const bool of_verdict = dice.one_in(2) || (right && (*kept.honest->non_finite_after()).has_value());
    setup.prover = of_verdict && right ? &cheat : of_verdict ? kept.honest.get() : &defender;
    setup.verifier = of_verdict ? &defender : nullptr;
    setup.policy_draw = dice.one_in(2);
    if (of_verdict && scene.name == "small" && dice.one_in(2)) setup.about = manifest::About::kWitness;
    setup.sealed = true;
    const protocol::Dispute dispute = dispute_of(scene, setup);
    const Played played =
        play(scene, dispute, defender, right ? static_cast<protocol::Party&>(cheat) : *kept.honest, true);
    bool has_new = false;
    for (const std::string& trait : traits_of(played)) has_new |= seen.insert(trait).second;
    if (has_new) out.push_back({scene.name, dispute, played.moves});
  }
}

}  // namespace

const std::vector<Example>& examples() {
  static const std::vector<Example> kExamples = [] {
    std::vector<Example> out;
    std::set<std::string> seen;
    Dice dice(9);
    for (const bool small : {true, false}) {
      Kept kept{small ? small_scene() : growing_scene(), nullptr};
      kept.honest = std::make_unique<TinyParty>(kept.scene);
      add_games(kept, seen, out, dice);
    }
    return out;
  }();
  return kExamples;
}

}  // namespace dgx::test
