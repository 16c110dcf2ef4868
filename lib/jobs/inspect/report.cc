#include "dgx/jobs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "dgx/core/text.h"
#include "dgx/jobs/verdict_words.h"
#include "inspect/report_parts.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMostEvents = 500;

/// One telling: what the sentences at the top of a story need.
struct Telling {
  const Evidence& evidence;
  const std::vector<ToldGame>& games;
  const Cast& cast;

  [[nodiscard]] std::string who(const Digest& key_id) const { return sentence_case(cast.of(key_id)); }
  /// The first game in which a proof, or a verdict, fell; null if none did.
  [[nodiscard]] const ToldGame* fallen(bool verdict) const {
    for (const ToldGame& told : games) {
      const auto& decision = told.game.decision();
      if (decision && decision->falls && told.game.dispute().verdict.has_value() == verdict) return &told;
    }
    return nullptr;
  }
};

/// "mallory's proof is shown to be false".
std::string words_of_fall(const Telling& told, const ToldGame& game) {
  const protocol::Dispute& dispute = game.game.dispute();
  return fmt::format("{} {} {}", sentence_case(told.cast.possessive(dispute.defender())),
                     dispute.verdict ? "verdict" : "proof",
                     is_shown_false(*game.game.decision()) ? "is shown to be false" : "fell by default");
}

/// One line with the outcome: whose statement fell, else what the verdicts say, else how far it came.
std::string title_of(const Telling& told) {
  for (const bool verdict : {false, true}) {
    if (const ToldGame* game = told.fallen(verdict)) return words_of_fall(told, *game);
  }
  const auto proof = told.evidence.first<manifest::Proof>();
  if (!proof) return told.who(told.evidence.task.key_id) + " asks for a model to be trained";
  const std::string whose = told.cast.possessive(proof->key_id);
  const auto verdicts = told.evidence.all<manifest::Verdict>();
  if (verdicts.empty()) return told.who(proof->key_id) + " says that the model is trained";
  const auto accepts = [](const auto& verdict) {
    return verdict.body.outcome == manifest::Outcome::kAccepted;
  };
  const std::ptrdiff_t accepting = std::count_if(verdicts.begin(), verdicts.end(), accepts);
  if (accepting == std::ssize(verdicts))
    return fmt::format("{} checked {} proof, and accepts it", told.who(verdicts.front().key_id), whose);
  if (accepting == 0)
    return fmt::format("{} says that {} proof is false", told.who(verdicts.front().key_id), whose);
  return fmt::format("The verdicts on {} proof contradict each other", whose);
}

std::string asked(const Telling& told) {
  const manifest::Signed<manifest::Task>& task = told.evidence.task;
  return fmt::format("{} asked{} for a model to be trained, in {} steps on {} samples, for a reward of {}.",
                     told.who(task.key_id), told.evidence.on_date(task.id), grouped(task.body.steps),
                     grouped(task.body.dataset.samples), grouped(task.body.estimate.reward));
}

std::string proved(const Telling& told, const manifest::Signed<manifest::Proof>& proof) {
  return fmt::format(
      "{} says that they trained it, and signed a proof{}: {} steps{}, with a loss of {} in the last.",
      told.who(proof.key_id), told.evidence.on_date(proof.id), grouped(proof.body.steps),
      proof.body.diverged ? ", after which the training diverged" : "", proof.body.loss.value);
}

/// A verdict and its worth: an acceptance after few replays is not worth much.
std::string verified(const Telling& told, const manifest::Signed<manifest::Verdict>& verdict) {
  const manifest::Verdict& body = verdict.body;
  const double percent = 100 * static_cast<double>(body.replayed) /
                         static_cast<double>(std::max<std::int64_t>(1, body.segments));
  const std::string out = fmt::format(
      "{} says that they trained {} of the {} segments again ({:.3g} %), and signed a verdict{}: ",
      told.who(verdict.key_id), grouped(body.replayed), grouped(body.segments), percent,
      told.evidence.on_date(verdict.id));
  if (body.first_disagreement)
    return out + fmt::format("the proof is false, since segment {} leads to another state.",
                             grouped(body.first_disagreement->index));
  return fmt::format("{}no difference; {}.", out, words_of_miss(body));
}

/// The outcome of a dispute, with the two numbers if there are some.
std::string decided(const Telling& told, const ToldGame& game, const DisputeStory& story) {
  if (story.ending == DisputeStory::Ending::kOpen)
    return fmt::format("{}. {}", sentence_case(story.heading), story.end.front());
  const protocol::Dispute& dispute = game.game.dispute();
  const std::string when = game.moves.empty() ? "" : told.evidence.on_date(game.moves.back().id);
  std::string out =
      fmt::format("{} disputed {} {}, and {}{}.", told.who(dispute.challenger()),
                  told.cast.possessive(dispute.defender()), dispute.verdict ? "verdict" : "proof",
                  story.ending == DisputeStory::Ending::kFalls ? "won" : "lost", when);
  if (story.ending == DisputeStory::Ending::kStands || !story.operation) return out;
  const manifest::DisputePlace at = game.game.place();
  return out + fmt::format(" {}{} is {}; {} signed {}{}.",
                           at.step ? fmt::format("In step {}, ", grouped(*at.step)) : "",
                           story.operation->what, story.operation->right.decimal,
                           told.cast.of(dispute.defender()), story.operation->claimed.decimal,
                           story.operation->off.empty() ? "" : ", " + story.operation->off);
}

/// A sentence about who pays and who is paid, if anybody is; empty without a ledger.
std::string paid(const Evidence& evidence, const std::vector<Account>& accounts) {
  if (evidence.record() == nullptr) return {};
  std::string out;
  for (const Account& account : accounts) {
    const std::int64_t change = account.paid - account.locked;
    if (change == 0) continue;
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", account.name, change < 0 ? "pays" : "gets",
                       grouped(std::abs(change)));
  }
  if (out.empty())
    return accounts.empty() ? "Nobody has been paid yet." : "Everybody gets back what they put in.";
  return fmt::format("{}{}.",
                     evidence.record()->settlement ? "In the end " : "When the operator settles it, ", out);
}

/// Fills title and summary from the evidence and the other parts of the story.
void summarize(const Telling& told, Story& out) {
  out.title = title_of(told);
  out.summary.push_back(asked(told));
  for (const auto& proof : told.evidence.all<manifest::Proof>()) out.summary.push_back(proved(told, proof));
  for (const auto& verdict : told.evidence.all<manifest::Verdict>())
    out.summary.push_back(verified(told, verdict));
  for (std::size_t i = 0; i < out.disputes.size(); ++i)
    out.summary.push_back(decided(told, told.games[i], out.disputes[i]));
  if (const std::string money = paid(told.evidence, out.accounts); !money.empty())
    out.summary.push_back(money);
}

/// The words of the story, for somebody who has never heard of them.
std::vector<std::string> explanation() {
  return {
      "Training a model is a long calculation of which every bit is determined: whoever repeats it with the "
      "same "
      "data gets the same bits. The one who trains signs a proof: digests of the model's state at certain "
      "steps, the "
      "committed states. The steps from one to the next are a segment.",
      "Verifiers repeat some segments. One who gets another state disputes the proof. Then the two take "
      "signed turns: "
      "one shows digests of what lies in between, the other names the first that is wrong, until a single "
      "operation "
      "on a few numbers is left, which anybody can compute. Whoever signed the wrong result loses money."};
}

/// Says what is unknown because no file has it, or nobody vouches for it.
void tell_missing(const Evidence& evidence, Story& out) {
  const auto tell = [&](bool is_missing, std::string sentence) {
    if (is_missing) out.left_out.push_back(std::move(sentence));
  };
  tell(!evidence.ledger_path, "No ledger was given: nobody vouches for dates, and who was paid is unknown.");
  tell(evidence.unlogged > 0,
       fmt::format(
           "{} of the statements told here {} not in the ledger: anybody may have signed them, at any time.",
           grouped(static_cast<std::int64_t>(evidence.unlogged)), evidence.unlogged == 1 ? "is" : "are"));
  tell(evidence.names.empty(), "No --trust was given: nobody vouches for those who signed.");
  tell(evidence.runs.empty(), "No run was given: there is no curve of the loss.");
  tell(evidence.program == nullptr && !out.disputes.empty(),
       "The step program was not given: numbers have no role in the model.");
}

std::vector<Fact> ids_of(const Evidence& evidence, const std::vector<Party>& parties) {
  const manifest::Task& task = evidence.task.body;
  std::vector<Fact> out{{"task", evidence.task.id.hex()},
                        {"step program", task.program.root.hex()},
                        {"dataset", task.dataset.digest.hex()},
                        {"initial state", task.initial.digest.hex()}};
  if (task.ledger) out.push_back({"ledger", task.ledger->hex()});
  if (const auto proof = evidence.first<manifest::Proof>()) {
    out.push_back({"proof", proof->id.hex()});
    out.push_back({"final state", proof->body.final_state.hex()});
  }
  for (const Party& party : parties) out.push_back({"key of " + party.name, party.key_id});
  return out;
}

}  // namespace

Result<Story> report(const ReportOptions& options, const JobContext& context) {
  DGX_TRY(const Evidence evidence, gather(options, context));
  Story out;
  const std::vector<ToldGame> games = games_of(evidence, out.left_out);
  const Cast cast = cast_of(evidence);
  for (const ToldGame& told : games) out.disputes.push_back(tell_game(evidence, told, cast));
  out.explanation = explanation();
  out.parties = parties_of(evidence, cast);
  out.bought = bought_of(evidence);
  out.curves = curves_of(evidence);
  tell_segments(evidence, games, out);
  out.accounts = money_of(evidence, cast);
  out.events = events_of(evidence, games, cast);
  if (out.events.size() > kMostEvents) {
    out.left_out.push_back(
        fmt::format("{} later events.", grouped(static_cast<std::int64_t>(out.events.size() - kMostEvents))));
    out.events.resize(kMostEvents);
  }
  out.checks = checks_of(evidence, games);
  summarize({evidence, games, cast}, out);
  tell_missing(evidence, out);
  out.ids = ids_of(evidence, out.parties);
  return out;
}

}  // namespace dgx::jobs
