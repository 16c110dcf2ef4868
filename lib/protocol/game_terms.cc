#include "game_terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/fields.h"

namespace dgx::protocol {
namespace {

using Ends = std::vector<std::optional<GameEnd>>;

/// True for those whom a false statement would hurt: the submitter; the verifier, unless it is their own; the
/// solver, unless it is the proof; and whoever has shown an audit, which is for nothing if they cannot follow
/// it up.
bool is_hurt(const TaskRecord& record, const Digest& statement, const Digest& who, std::int64_t now) {
  if (who == record.task.key_id) return true;
  const Recheck* const recheck = recheck_of(record, who);
  if (recheck != nullptr && recheck->audit) return true;
  if (statement != record.proof->id && who == record.solver) return true;
  const bool of_verdict = record.verdict && statement == record.verdict->id;
  return !of_verdict && who == verifier_at(record, now);
}

/// True if a new game raises the bonds of later ones. Those whom a false statement would hurt may each have
/// one open game that does not.
bool is_counted(const TaskRecord& record, const Ends& ends, const Digest& statement, const Digest& challenger,
                std::int64_t now) {
  if (!is_hurt(record, statement, challenger, now)) return true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const GameRecord& game = record.games[i];
    const bool theirs = game.game.dispute().challenger() == challenger;
    if (!ends[i] && !game.counted && game.statement() == statement && theirs) return true;
  }
  return false;
}

/// The bond doubles with each open, counted game about the same statement, so that keeping others out costs
/// more than getting in.
std::int64_t bond_of(const TaskRecord& record, const Ends& ends, const Digest& statement, bool counted) {
  constexpr int kMostDoublings = 20;
  const std::int64_t bond = bonds_of(record.task.body).challenger;
  if (!counted) return bond;
  int doublings = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i] && record.games[i].counted && record.games[i].statement() == statement) ++doublings;
  }
  doublings = std::min(doublings, kMostDoublings);
  return bond > (manifest::kMaxInteger >> doublings) ? manifest::kMaxInteger : bond << doublings;
}

/// A key has one game at a time about the same thing, and none about a statement that has fallen.
Status check_new(const TaskRecord& record, const Ends& ends, const manifest::Challenge& challenge,
                 const Digest& challenger) {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const GameRecord& game = record.games[i];
    const manifest::Challenge& other = game.game.dispute().challenge.body;
    if (other.verdict != challenge.verdict) continue;
    if (ends[i] && ends[i]->result == GameResult::kFalls) {
      return not_allowed(fmt::format("the {} has already fallen, in game {}",
                                     challenge.verdict ? "verdict" : "proof", game.id().brief()));
    }
    const bool same = other.about == challenge.about && other.segment == challenge.segment &&
                      other.chunk == challenge.chunk;
    if (!ends[i] && same && game.game.dispute().challenger() == challenger)
      return not_allowed(
          fmt::format("its signer already has an open game about the same, {}", game.id().brief()));
  }
  return {};
}

}  // namespace

Result<GameTerms> terms_of(const TaskRecord& record, const manifest::Challenge& challenge,
                           const Digest& challenger, std::int64_t now) {
  const Ends ends = ends_of(record, now);
  DGX_CHECK(check_new(record, ends, challenge, challenger));
  const bool counted = is_counted(record, ends, challenge.statement(), challenger, now);
  return GameTerms{bond_of(record, ends, challenge.statement(), counted), counted};
}

}  // namespace dgx::protocol
