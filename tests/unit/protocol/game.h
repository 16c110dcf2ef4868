#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dgx/program/executor.h"
#include "dgx/protocol/settlement.h"
#include "dgx/protocol/verify.h"
#include "statements.h"

namespace dgx::test {

/// A machine whose state is one integer and whose step is x → 6364136223846793005 x + step: an Executor with
/// nothing to compute. It can be told to lie.
class TinyExecutor : public program::Executor {
 public:
  enum class Lie { kNone, kWrongStep, kNonFinite, kRefuseLoad };
  explicit TinyExecutor(Lie lie = Lie::kNone, std::int64_t at = 0) : lie_(lie), at_(at) {}

  Status load(const State& state) override;
  Status step() override;
  [[nodiscard]] std::int64_t position() const override { return position_; }
  [[nodiscard]] Result<State> state() const override;
  [[nodiscard]] float loss() const override { return 0; }
  Status trace(const program::ValueVisitor&) override { return {}; }

 private:
  Lie lie_;
  std::int64_t at_;
  std::int64_t position_ = 0;
  std::uint64_t value_ = 0;
};

[[nodiscard]] State tiny_state(std::int64_t step, std::uint64_t value);
[[nodiscard]] Digest state_digest(const State& state);

/// The only line of the program that its tasks name.
[[nodiscard]] std::string tiny_line();

/// A committed run of a task over such a machine.
struct TinyRun {
  manifest::Signed<manifest::Task> task;
  std::vector<State> states;
  std::vector<Digest> digests;
  manifest::Signed<manifest::Proof> proof;
  manifest::Signed<manifest::Beacon> beacon;

  [[nodiscard]] protocol::Segments segments() const { return *protocol::segments_of(task.body, proof.body); }
};

inline constexpr std::uint8_t kOperator = 1;
inline constexpr std::uint8_t kSubmitter = 2;
inline constexpr std::uint8_t kSolver = 3;
inline constexpr std::uint8_t kVerifier = 4;
inline constexpr std::uint8_t kStranger = 5;

/// A run trained by `executor`, proved by kSolver, with kVerifier's beacon. `name` distinguishes tasks;
/// `change` (may be empty) is applied to the task before it is signed.
[[nodiscard]] TinyRun tiny_run(const std::string& name = "tiny", TinyExecutor executor = TinyExecutor(),
                               const std::function<void(manifest::Task&)>& change = {});
[[nodiscard]] manifest::Signed<manifest::BeaconCommitment> offer(const TinyRun& run);
[[nodiscard]] manifest::Signed<manifest::Assign> assignment(const TinyRun& run);
/// The solver's opening of the proof: after the beacon, or, with `without_beacon`, after the proof.
[[nodiscard]] manifest::Signed<manifest::Opening> opening(const TinyRun& run, bool without_beacon = false);
[[nodiscard]] manifest::Signed<manifest::Delivery> delivery(const TinyRun& run);
/// An honest verifier's verdict over the policy's draw, or over `chosen`.
[[nodiscard]] manifest::Signed<manifest::Verdict> verdict(const TinyRun& run,
                                                          std::span<const std::int64_t> chosen = {});

/// A true replay by `who` of the policy's draw after a round, whose every row is expected to agree: a verdict
/// or, of a verdict that states its witnesses, an audit.
[[nodiscard]] manifest::Verdict replayed(const TinyRun& run, const protocol::DrawSource& round,
                                         std::uint8_t who,
                                         const manifest::Signed<manifest::Verdict>* audited = nullptr);

/// A challenge saying that the proof's segment does not lead from its start to its end.
[[nodiscard]] manifest::Challenge challenge_of(const TinyRun& run, std::int64_t segment);
/// A challenge of the verdict's first disagreement.
[[nodiscard]] manifest::Challenge challenge_of(const TinyRun& run,
                                               const manifest::Signed<manifest::Verdict>& verdict);
/// A challenge demanding the whole of "model/x" in a committed state as a chunk.
[[nodiscard]] manifest::Challenge chunk_challenge(const TinyRun& run, std::int64_t state);
/// The answer to chunk_challenge().
[[nodiscard]] manifest::Signed<manifest::Move> chunk_move(
    const TinyRun& run, const manifest::Signed<manifest::Challenge>& challenge, std::uint8_t who);
/// Turn 1 of a game about a whole segment, with arbitrary states.
[[nodiscard]] manifest::Signed<manifest::Move> states_move(
    const manifest::Signed<manifest::Challenge>& challenge, std::uint8_t who);
/// A move that says nothing, and so loses the game for its signer.
[[nodiscard]] manifest::Signed<manifest::Move> empty_move(
    const manifest::Signed<manifest::Challenge>& challenge, std::int64_t turn, const Digest& previous,
    std::uint8_t who);

template <class T>
[[nodiscard]] manifest::Signed<manifest::Body> any(const manifest::Signed<T>& statement) {
  return {manifest::Body(statement.body), statement.id, statement.signer, statement.key_id,
          statement.envelope};
}

/// A statement signed by key `who`.
template <class T>
[[nodiscard]] manifest::Signed<manifest::Body> by(std::uint8_t who, const T& body) {
  return any(*manifest::seal(body, key(who)));
}

}  // namespace dgx::test
