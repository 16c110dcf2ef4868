#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "disputes.h"

namespace dgx::protocol {
class PartyView;
}

namespace dgx::test {

/// A side that says whatever may help it, or anything at all.
class Liar {
 public:
  enum class Style : std::uint8_t {
    kStory,    ///< keeps to what its replay gives
    kNumbers,  ///< likewise, but searches for false running results that pass the check
    kOnce,     ///< departs from its story once
    kWild,     ///< says anything
  };
  /// `story` and `truth` must outlive it; the dice are shared.
  Liar(const Scene& scene, protocol::Party& story, protocol::Party& truth, Style style, Dice& dice);
  ~Liar();

  /// The liar's next message in its turn; nullopt: nothing more.
  [[nodiscard]] std::optional<json::Object> say(const protocol::Game& game);
  /// A drawn move that the stage allows, at a drawn place, with evidence that checks out.
  [[nodiscard]] std::optional<protocol::Message> invent(const protocol::Game& game);
  /// The object with one change in it.
  [[nodiscard]] json::Object changed(json::Object object);

 private:
  [[nodiscard]] std::optional<json::Object> by_story(const protocol::Game& game, bool truly);
  [[nodiscard]] std::optional<json::Object> depart(const protocol::Game& game);
  [[nodiscard]] std::optional<protocol::Message> choose(const protocol::Game& game);
  [[nodiscard]] protocol::Message fault_post(const protocol::Game& game);
  [[nodiscard]] std::optional<protocol::Message> at_value(const protocol::Game& game,
                                                          const protocol::ChooseValue& stage);
  [[nodiscard]] std::optional<protocol::Message> at_element(const protocol::Game& game,
                                                            const protocol::ChooseElement& stage);
  [[nodiscard]] std::optional<protocol::Message> at_number(const protocol::Game& game,
                                                           const protocol::ChooseNumber& stage);
  [[nodiscard]] protocol::Message name_child(const protocol::OpenedTree& tree);
  [[nodiscard]] protocol::Message entry_claim(const protocol::Game& game);
  [[nodiscard]] protocol::Message non_finite(std::int64_t step);
  [[nodiscard]] std::optional<Bytes> numbers_that_fit(const protocol::Game& game, Bytes bytes);
  [[nodiscard]] std::int64_t index_below(std::size_t count);
  [[nodiscard]] merkle::EntryOpening entry_opening(std::int64_t step);
  [[nodiscard]] protocol::OpenedLine any_line();
  void change(json::Value& value);

  const Scene& scene_;
  protocol::Party& story_;
  Style style_;
  Dice& dice_;
  std::int64_t departs_in_;
  protocol::Player player_, true_player_;
  std::unique_ptr<protocol::PartyView> view_;
  std::vector<json::Object> said_;
};

/// The course of one game between an honest side and a liar.
struct DrawnGame {
  std::string problem;  ///< empty: every rule held and the honest side did not lose
  std::optional<protocol::Decision> decision;
  std::int64_t moves = 0;
  std::size_t longest = 0;       ///< bytes of the longest payload
  const Scene* scene = nullptr;  ///< of DrawnGames::play(), whose it is
};
/// Plays it. The liar also signs moves out of turn, twice, with wrong turns and predecessors; strangers
/// interfere. `most` bounds the moves. If the statement is right, an honest challenger must have nothing to
/// object to; else they must object.
[[nodiscard]] DrawnGame play_drawn(protocol::Dispute dispute, protocol::Side honest, protocol::Player& player,
                                   Liar& liar, std::int64_t most, bool statement_is_wrong, Dice& dice);

/// An endless series of games: number n of a seed is identical on every machine.
class DrawnGames {
 public:
  /// Games on the scenes of scenes.h.
  explicit DrawnGames(std::uint64_t seed);
  ~DrawnGames();
  /// Plays also on this scene: `weight` games for 60 on the small one.
  void add(Scene scene, std::int64_t weight);
  /// Plays one and returns what went wrong, if anything; `about` describes the game, for messages.
  [[nodiscard]] DrawnGame play(std::string& about);

 private:
  struct Setting {
    Scene scene;
    std::unique_ptr<TinyParty> honest;
    std::unique_ptr<protocol::Player> player;
    std::int64_t weight = 1;
  };
  Setting& draw();

  Dice dice_;
  std::vector<std::unique_ptr<Setting>> settings_;
  std::int64_t weights_ = 0;
};

}  // namespace dgx::test
