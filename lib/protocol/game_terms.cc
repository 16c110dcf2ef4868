#include "game_terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/fields.h"

namespace dgx::protocol {
namespace {

using Ends = std::vector<std::optional<GameEnd>>;

/// True if somebody has said in an audit that the proof, or the verdict, is false, and has to win a game
/// about it. The statement is of neither if it is an audit.
bool has_objected(const TaskRecord& record, const Digest& statement, const Digest& who) {
  const Recheck* const own = recheck_of(record, who);
  if (own == nullptr || !own->audit) return false;
  const bool refutes = own->audit->body.outcome == manifest::Outcome::kRefuted;
  if (statement == record.proof->id) return refutes;
  return statement == record.verdict->id && (refutes || !own->audit->body.denied.empty());
}

/// True for those whom a false statement would hurt: the submitter; the verifier, unless it is their own; the
/// solver, unless it is the proof; and the drawn auditor who has objected to it, or confirmed a witness that
/// had to be false.
bool is_hurt(const TaskRecord& record, const Digest& statement, const Digest& who, std::int64_t now) {
  if (who == record.task.key_id) return true;
  if (statement != record.proof->id && who == record.solver) return true;
  const bool of_verdict = record.verdict && statement == record.verdict->id;
  if (!of_verdict && who == verifier_at(record, now)) return true;
  if (!is_auditor(record, who)) return false;
  if (has_objected(record, statement, who)) return true;
  // An honest auditor has to win a game if the verifier did not misstate what had to be false.
  const Recheck* const own = recheck_of(record, who);
  return of_verdict && own != nullptr && confirms_forced(record, *own);
}

/// True if a new game raises the bonds of later ones. Those whom a false statement would hurt may each have
/// one open game that does not, and the volunteers who have objected to it one in all: there may be many of
/// them, and volunteering costs a cheat nothing.
bool is_counted(const TaskRecord& record, const Ends& ends, const Digest& statement, const Digest& challenger,
                std::int64_t now) {
  const bool hurt = is_hurt(record, statement, challenger, now);
  if (!hurt && !has_objected(record, statement, challenger)) return true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const GameRecord& game = record.games[i];
    if (ends[i] || game.counted || game.statement() != statement) continue;
    const Digest& other = game.game.dispute().challenger();
    if (hurt ? other == challenger : !is_hurt(record, statement, other, now)) return true;
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
      return not_allowed(fmt::format("the {} has already fallen, in game {}", word_of(game.challenged()),
                                     game.id().brief()));
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

std::string_view word_of(Challenged statement) {
  if (statement == Challenged::kProof) return "proof";
  return statement == Challenged::kVerdict ? "verdict" : "audit";
}

Result<GameTerms> terms_of(const TaskRecord& record, const manifest::Challenge& challenge,
                           const Digest& challenger, std::int64_t now) {
  const Ends ends = ends_of(record, now);
  DGX_CHECK(check_new(record, ends, challenge, challenger));
  const bool counted = is_counted(record, ends, challenge.statement(), challenger, now);
  return GameTerms{bond_of(record, ends, challenge.statement(), counted), counted};
}

}  // namespace dgx::protocol
