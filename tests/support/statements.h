#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/manifest/statement.h"

namespace dgx::test {

/// The key whose seed is this byte 32 times.
[[nodiscard]] crypto::SecretKey key(std::uint8_t seed);
[[nodiscard]] Digest key_id(std::uint8_t seed);
/// SHA-256 of a word: an arbitrary digest.
[[nodiscard]] Digest digest(std::string_view word);

/// The standard policy, and a task of 100 steps in 10 segments of 10 with it and small amounts of money.
[[nodiscard]] manifest::Policy policy();
/// The first entry of a market with that policy, and its id when signed by key(1): the ledger that task()
/// names.
[[nodiscard]] manifest::LedgerPolicy ledger_policy();
[[nodiscard]] Digest ledger_id();
[[nodiscard]] manifest::Task task();
/// A challenge of a verdict's row, and a ruling with every field that one may have.
[[nodiscard]] manifest::Challenge challenge();
[[nodiscard]] manifest::Ruling ruling();
/// An invented last state with a loss: a proof needs a loss that its final state opens.
struct Ending {
  Digest state;
  manifest::OpenedLoss loss;
};
[[nodiscard]] Ending ending(std::string_view word, float loss = 0.3125F);
/// Gives a proof an invented end unless its final state is known to have that loss: it could not be signed.
void say_an_end(manifest::Proof& proof);
/// The loss of a state with these entries, among them `loss`.
[[nodiscard]] manifest::OpenedLoss loss_in(const State& state);
/// A round by a delay with two checkpoints, and one by drand; neither is anybody's true one.
[[nodiscard]] manifest::Round round();
[[nodiscard]] manifest::Round pulse();
/// One body of every kind, all of them valid.
[[nodiscard]] std::vector<manifest::Body> bodies();

}  // namespace dgx::test
