#include "dgx/jobs/dispute_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "bisect/dispute_turns.h"
#include "dgx/core/text.h"
#include "dgx/core/time_text.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {
namespace {

using manifest::About;
using manifest::RulingReason;
using protocol::Decision;
using protocol::Dispute;
using protocol::Game;
using protocol::Segment;
using protocol::Side;

/// One telling: the facts, and what several parts of the story need of them.
struct Telling {
  const GameFacts& facts;
  const Cast& cast;
  const Game& game = facts.game;
  const Dispute& dispute = game.dispute();
  std::string defender = cast.of(dispute.defender());
  std::string challenger = cast.of(dispute.challenger());
  StepLines lines = lines_of(game.state(), facts.program);

  [[nodiscard]] const manifest::Challenge& challenge() const { return dispute.challenge.body; }
  [[nodiscard]] std::string statement() const { return dispute.verdict ? "verdict" : "proof"; }
  /// " on 2026-11-22 14:03:07 UTC", or nothing.
  [[nodiscard]] std::string on_date(const Digest& statement) const {
    const auto found = facts.logged_ms.find(statement);
    return found == facts.logged_ms.end() ? "" : " on " + utc_text(found->second);
  }
};

/// True if a game is played on steps: it then has a segment to go down into.
bool is_about_steps(About about) {
  return about == About::kSegment || about == About::kWitness || about == About::kRow;
}

// The claims.

std::string claimed_by_proof(const Telling& told) {
  const manifest::Challenge& challenge = told.challenge();
  const std::string signed_on = told.on_date(told.dispute.proof.id);
  switch (challenge.about) {
    case About::kInitial:
      return fmt::format("{} signed a proof{}: that training began at the state which the task gives.",
                         told.defender, signed_on);
    case About::kFinal:
      return fmt::format(
          "{} signed a proof{}: that training ended in the state which it names as its result.",
          told.defender, signed_on);
    case About::kChunk:
      return fmt::format("{} signed a proof{}, and so promised to show any part of its states.",
                         told.defender, signed_on);
    default: break;
  }
  const Segment segment = told.game.segment();
  if (!challenge.end)
    return fmt::format("{} signed a proof{}: that step {} gives a state with a number that is not finite.",
                       told.defender, signed_on, grouped(segment.first));
  return fmt::format("{} signed a proof{}: that {} lead from committed state {} to committed state {}.",
                     told.defender, signed_on, words_of_steps(segment.first, segment.end),
                     grouped(segment.index), grouped(segment.index + 1));
}

std::string claimed_by_verdict(const Telling& told) {
  const manifest::Verdict& verdict = told.dispute.verdict->body;
  const std::string outcome = verdict.outcome == manifest::Outcome::kAccepted ? "accepts" : "refutes";
  std::string out = fmt::format("{} signed a verdict{} that {} {} proof.", told.defender,
                                told.on_date(told.dispute.verdict->id), outcome,
                                told.cast.possessive(told.dispute.proof.key_id));
  if (!told.challenge().row) return out;
  const manifest::VerdictRow& row = told.challenge().row->row;
  return out + fmt::format(" Its row of segment {} {} with the proof ({}).", grouped(row.index),
                           row.agrees ? "agrees" : "disagrees", manifest::name_of(row.reason));
}

std::string disputed(const Telling& told) {
  const std::string when = told.on_date(told.dispute.challenge.id);
  const std::string segment = grouped(told.challenge().segment);
  switch (told.challenge().about) {
    case About::kSegment:
      return fmt::format("{} challenged the {}{}: segment {} leads to another state.", told.challenger,
                         told.statement(), when, segment);
    case About::kWitness:
      return fmt::format(
          "{} challenged the verdict{}: segment {} was not replayed, since its witness is wrong.",
          told.challenger, when, segment);
    case About::kRow:
      return fmt::format("{} demanded the verdict's row of segment {}{}.", told.challenger, segment, when);
    case About::kInitial:
      return fmt::format("{} challenged the proof{}: its first state is another one.", told.challenger, when);
    case About::kFinal:
      return fmt::format("{} challenged the proof{}: its last state is not the result that it names.",
                         told.challenger, when);
    case About::kChunk:
      return fmt::format("{} demanded a part of committed state {}{}.", told.challenger, segment, when);
  }
  return {};
}

// The way down, one function a level. `agreed` says what binds both sides to the level: nobody is believed,
// since each side has signed, or let stand, what the next level starts from.

Level segment_level(const Telling& told) {
  const Segment segment = told.game.segment();
  const auto all = protocol::segments_of(told.dispute.task.body, told.dispute.proof.body);
  const std::int64_t count = all.ok() ? all->count() : segment.index + 1;
  return {count, grouped(count) + (count == 1 ? " segment" : " segments"),
          fmt::format("segment {}, {}", grouped(segment.index), words_of_steps(segment.first, segment.end)),
          fmt::format("The state before it is the one that {} committed to: both take it as given.",
                      told.cast.of(told.dispute.proof.key_id))};
}

Level step_level(const Telling& told, std::int64_t step) {
  const std::int64_t count = told.game.segment().length();
  return {count, grouped(count) + (count == 1 ? " step" : " steps"), "step " + grouped(step),
          fmt::format("{} showed the states in between. Both accept the one before this step; {} rejects the "
                      "one after it, the first that a replay of their own does not give.",
                      sentence_case(told.defender), told.challenger)};
}

Level value_level(const Telling& told, std::int64_t value) {
  const std::int64_t count = told.dispute.task.body.program.lines;
  const std::string role = role_of_value(told.lines, value);
  const std::string name = "value " + grouped(value);
  return {count, grouped(count) + " values that the step computes",
          role == name ? name : fmt::format("{}: {}", name, role),
          fmt::format("{} showed the digests of all values. {} rejects this one first, and so accepts every "
                      "value before it.",
                      sentence_case(told.defender), sentence_case(told.challenger))};
}

Level element_level(const Telling& told, std::int64_t value, std::int64_t element) {
  const kernels::Primitive* line = told.lines.find(value);
  const auto count = line == nullptr ? Result<std::int64_t>(element + 1) : element_count(line->shape);
  const std::int64_t among = count.ok() ? *count : element + 1;
  return {among, grouped(among) + (among == 1 ? " number in it" : " numbers in it"),
          "number " + grouped(element),
          fmt::format("{} showed the numbers; {} rejects this one.", sentence_case(told.defender),
                      told.challenger)};
}

Level position_level(const Telling& told, std::int64_t value, std::int64_t position) {
  const kernels::Primitive* line = told.lines.find(value);
  const auto count = line == nullptr ? Result<std::int64_t>(position + 1) : element_count(line->fold);
  const std::int64_t among = count.ok() ? *count : position + 1;
  return {among, grouped(among) + " terms that it adds up or compares", "term " + grouped(position),
          fmt::format("{} showed running results. Both accept those before this term.",
                      sentence_case(told.defender))};
}

/// The levels that the game has reached, from the task's segments down.
std::vector<Level> funnel_of(const Telling& told) {
  if (!is_about_steps(told.challenge().about)) return {};
  const manifest::DisputePlace at = told.game.place();
  std::vector<Level> out{segment_level(told)};
  if (!at.step) return out;
  out.push_back(step_level(told, *at.step));
  if (!at.value) return out;
  out.push_back(value_level(told, *at.value));
  if (!at.element) return out;
  out.push_back(element_level(told, *at.value, *at.element));
  if (at.position) out.push_back(position_level(told, *at.value, *at.position));
  const auto& decision = told.game.decision();
  if (!decision || !decision->scalar) return out;
  const std::string& operation = decision->scalar->operation;
  out.push_back({1, "1 operation",
                 fmt::format("{}: {}", operation, formula_of(operation, decision->scalar->operands.size())),
                 "Both are bound to the numbers that go into it: they are in what was shown."});
  return out;
}

// The operation.

/// The binary32 that the text gives in bits; nullopt for an integer.
std::optional<double> float_of(std::string_view bits) {
  constexpr std::size_t kFloatText = 10;
  if (bits.size() != kFloatText || !bits.starts_with("0x")) return std::nullopt;
  std::uint32_t word = 0;
  std::from_chars(bits.data() + 2, bits.data() + bits.size(), word, 16);
  return std::bit_cast<float>(word);
}

/// The distance of a claim from the right number: "7.26 % off"; empty for integers, and for numbers that are
/// not finite.
std::string words_of_difference(std::string_view claimed, std::string_view right) {
  constexpr double kMostPercent = 1000;
  const auto is = float_of(claimed);
  const auto must = float_of(right);
  if (!is || !must) return {};
  if (!std::isfinite(*is) || !std::isfinite(*must) || *is == *must) return {};
  if (*must == 0) return fmt::format("off by {:.3g}", std::abs(*is));
  const double percent = 100 * std::abs((*is - *must) / *must);
  if (percent < kMostPercent) return fmt::format("{:.3g} % off", percent);
  return fmt::format("{:.3g} times what it must be", std::abs(*is / *must));
}

ToldNumber number_of(std::string letter, std::string role, const std::string& bits) {
  return {std::move(letter), std::move(role), decimal_of_hex(bits).value_or(bits), bits};
}

std::optional<ToldOperation> operation_of(const Telling& told) {
  const auto& decision = told.game.decision();
  if (!decision || !decision->scalar) return std::nullopt;
  const manifest::JudgedScalar& scalar = *decision->scalar;
  const manifest::DisputePlace at = told.game.place();
  ToldOperation out;
  out.what = role_of_element(told.lines, at.value.value_or(0), at.element.value_or(0));
  if (at.position) out.what += fmt::format(", at term {}", grouped(*at.position));
  out.formula = formula_of(scalar.operation, scalar.operands.size());
  for (std::size_t i = 0; i < scalar.operands.size(); ++i) {
    const manifest::ScalarOperand& operand = scalar.operands[i];
    out.operands.push_back(number_of(std::string(1, static_cast<char>('a' + i)),
                                     role_of_operand(told.lines, operand.from), operand.bits));
  }
  out.right = number_of({}, "the result, as anybody can compute it", scalar.result);
  out.claimed = number_of({}, "the result that " + told.defender + " signed", scalar.claimed);
  out.off = words_of_difference(scalar.claimed, scalar.result);
  const auto is_shown = [](const manifest::ScalarOperand& operand) {
    return operand.from.starts_with("value ");
  };
  if (!scalar.operands.empty())
    out.why = fmt::format(
        "{} showed {} in the table of the step's values, and {} accepts the values that "
        "they belong to.",
        sentence_case(told.defender),
        std::all_of(scalar.operands.begin(), scalar.operands.end(), is_shown)
            ? "these numbers"
            : "the numbers that these follow from",
        told.challenger);
  return out;
}

// The moves.

/// Plays the game once more: a move means what it changes, so each is told by the states before and after it.
std::vector<ToldMove> moves_of(const Telling& told) {
  std::vector<ToldMove> out;
  auto replayed = Game::open(told.dispute);
  if (!replayed.ok()) return out;
  for (const manifest::Signed<manifest::Move>& move : told.facts.moves) {
    const bool was_over = replayed->decision().has_value();
    const protocol::GameState before = replayed->state();
    if (!replayed->apply(move).ok()) continue;
    const auto when = told.facts.logged_ms.find(move.id);
    std::string words = tell_move(move.body, before, replayed->state(), told.facts.program);
    if (was_over) words += " (after the end: it counts for nothing)";
    out.push_back({move.body.turn, when == told.facts.logged_ms.end() ? "" : utc_text(when->second),
                   told.cast.of(move.key_id), std::move(words),
                   static_cast<std::int64_t>(move.envelope.size()) + 1});
  }
  return out;
}

// The end.

/// The last move, if it gives the game up.
const manifest::Signed<manifest::Move>* concession_in(const Telling& told) {
  for (const manifest::Signed<manifest::Move>& move : told.facts.moves) {
    if (move.id == told.game.last()) return move.body.say == concession() ? &move : nullptr;
  }
  return nullptr;
}

std::string words_of_reason(const Telling& told, const Decision& decision) {
  const std::string loser = sentence_case(decision.falls ? told.defender : told.challenger);
  switch (decision.reason) {
    case RulingReason::kClaim: return "This was recomputed from what the moves show: " + decision.words + ".";
    case RulingReason::kPost:
      return fmt::format("{} contradicts what they are bound to: {}.", loser, decision.words);
    case RulingReason::kMalformed: return fmt::format("{} broke the rules: {}.", loser, decision.words);
    case RulingReason::kOutOfTurn:
    case RulingReason::kTwoMoves: return fmt::format("{} broke the rules: {}.", loser, decision.words);
    case RulingReason::kLate: return fmt::format("{} did not answer in time: {}.", loser, decision.words);
  }
  return {};
}

/// The outcome of a game that is over, and its worth.
std::string outcome_of(const Telling& told, const Decision& decision) {
  if (!decision.falls)
    return fmt::format(
        "The {} stands, and {} has lost this challenge, which does not show that all of it is right.",
        told.statement(), told.challenger);
  if (is_shown_false(decision))
    return fmt::format("The {} falls: {} signed something false.", told.statement(), told.defender);
  return fmt::format("The {} falls by default: no part of it was shown to be false.", told.statement());
}

/// Says how the game ended and why, or what it waits for.
void tell_end(const Telling& told, DisputeStory& out) {
  const auto& decision = told.game.decision();
  if (!decision) {
    const protocol::Due& due = told.game.due();
    out.end.push_back(fmt::format("It goes on with turn {}: {} must {}.", told.game.turn(),
                                  due.side == Side::kDefender ? told.defender : told.challenger, due.words));
    return;
  }
  out.ending = decision->falls ? DisputeStory::Ending::kFalls : DisputeStory::Ending::kStands;
  out.end.push_back(outcome_of(told, *decision));
  if (const auto* conceded = concession_in(told)) {
    out.end.push_back(fmt::format("{} gave the game up{}.", sentence_case(told.cast.of(conceded->key_id)),
                                  told.on_date(conceded->id)));
  } else {
    out.end.push_back(words_of_reason(told, *decision));
  }
}

std::vector<Fact> ids_of(const Telling& told) {
  std::vector<Fact> out{{"game", told.dispute.challenge.id.hex()},
                        {"task", told.dispute.task.id.hex()},
                        {told.statement() + " challenged", told.challenge().statement().hex()},
                        {"key of " + told.defender, told.dispute.defender().hex()},
                        {"key of " + told.challenger, told.dispute.challenger().hex()}};
  if (!is_about_steps(told.challenge().about)) return out;
  const protocol::GameState& state = told.game.state();
  out.push_back({"state accepted", state.accepted.hex()});
  if (state.rejected != Digest{}) out.push_back({"state rejected", state.rejected.hex()});
  if (const protocol::NamedValue* value = state.value()) {
    out.push_back({"table of the step's values", value->table.root.hex()});
    out.push_back({"digest of value " + grouped(to_number(value->index)), value->digest.hex()});
  }
  return out;
}

}  // namespace

bool is_shown_false(const Decision& decision) {
  return decision.falls &&
         (decision.reason == RulingReason::kClaim || decision.reason == RulingReason::kPost);
}

json::Object concession() { return {{"kind", "concede"}}; }

void cast_dispute(const Dispute& dispute, Cast& cast) {
  cast.add(dispute.task.key_id, "submitter");
  cast.add(dispute.proof.key_id, "solver");
  if (dispute.verdict)
    cast.add(dispute.verdict->key_id, dispute.verdict->body.audits ? "auditor" : "verifier");
  cast.add(dispute.challenger(), "challenger");
}

DisputeStory tell_dispute(const GameFacts& facts, const Cast& cast) {
  const Telling told{facts, cast};
  DisputeStory out;
  out.heading = fmt::format("{} disputes {} {}", told.challenger, cast.possessive(told.dispute.defender()),
                            told.statement());
  out.claims = {sentence_case(told.dispute.verdict ? claimed_by_verdict(told) : claimed_by_proof(told)),
                sentence_case(disputed(told))};
  out.funnel = funnel_of(told);
  out.operation = operation_of(told);
  out.moves = moves_of(told);
  tell_end(told, out);
  out.ids = ids_of(told);
  return out;
}

}  // namespace dgx::jobs
