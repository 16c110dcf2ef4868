#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/program.h"
#include "dgx/protocol/game.h"

namespace dgx::protocol {

/// A party's own replay of a disputed segment. An honest party's comes from an executor; a cheat's is
/// whatever they defend. Steps are counted from the task's beginning; a step's values are those of the step
/// that starts from state `step`.
class Party {
 public:
  virtual ~Party() = default;

  /// The row of the verifier's own verdict that the challenger asks for, opened. kUsage if it is not at hand.
  [[nodiscard]] virtual Result<manifest::OpenedRow> row(std::int64_t segment);

  /// The first step after which the party's state is not finite, if it is in the segment; there are no states
  /// from there on.
  [[nodiscard]] virtual Result<std::optional<std::int64_t>> non_finite_after() = 0;
  /// The digest of the state at `step`. The state after non_finite_after() is the last that has one, though
  /// it may not be committed.
  [[nodiscard]] virtual Result<Digest> state(std::int64_t step) = 0;
  /// The digests of that state's entries, in order of name.
  [[nodiscard]] virtual Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) = 0;
  /// The digest of every value of the step.
  [[nodiscard]] virtual Result<std::vector<Digest>> values(std::int64_t step) = 0;
  /// The numbers of one value. The player then asks for those of the values that its line reads.
  [[nodiscard]] virtual Result<Tensor> value(std::int64_t step, kernels::ValueIndex value) = 0;
  /// The leaf of a dataset's field (x or y) that holds element `element`.
  [[nodiscard]] virtual Result<DataOpening> data(std::string_view field, std::int64_t element) = 0;
  /// An entry's numbers at `step`, for a chunk, or to show that they are not finite.
  [[nodiscard]] virtual Result<Tensor> entry(std::int64_t step, std::string_view name) = 0;
};

/// Makes the moves of a party that has this replay: a defender's, who shows what it has, or a challenger's,
/// who rejects what it does not give. A function of the game and the replay: asked again, it says the same.
class Player {
 public:
  /// `program` is the task's, checked; both must outlive the player.
  Player(const program::Program& program, Party& party);
  ~Player();

  /// The next move of the side at turn; nullopt if its replay gives no reason to object, so the game is lost.
  /// kMalformed if the challenge asks a defender for what they do not have. Cost: the replay, and hashing the
  /// values asked for.
  [[nodiscard]] Result<std::optional<Message>> next(const Game& game);

 private:
  std::unique_ptr<class PartyView> view_;
};

}  // namespace dgx::protocol
