#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/text.h"
#include "dgx/core/time_text.h"
#include "inspect/report_parts.h"

namespace dgx::jobs {
namespace {

std::string seconds_text(std::int64_t milliseconds) {
  return fmt::format("{} s", static_cast<double>(milliseconds) / 1000);
}

/// The deed of a statement's signer, to follow their name; empty for kinds that are told elsewhere.
struct Deed {
  bool by_rounds = false;  ///< the market draws by rounds, and a secret decides what is forced

  std::string operator()(const manifest::Task& task) const {
    return fmt::format("asked for the work, and locked {} for it", grouped(task.estimate.escrow));
  }
  std::string operator()(const manifest::Profile& profile) const {
    return fmt::format("measured the task: its longest segment takes them {}",
                       seconds_text(profile.segment_milliseconds));
  }
  std::string operator()(const manifest::BeaconCommitment&) const {
    const std::string_view draws = by_rounds ? "" : " that will draw the segments";
    return fmt::format("offered to verify, and committed to a secret{}", draws);
  }
  std::string operator()(const manifest::OfferEnd&) const { return "took an offer back"; }
  std::string operator()(const manifest::Assign&) const { return "took the work"; }
  std::string operator()(const manifest::Proof& proof) const {
    return fmt::format("signed the proof: {} states of {} steps, last loss {}", grouped(proof.states.count),
                       grouped(proof.steps), proof.loss.value);
  }
  std::string operator()(const manifest::Beacon&) const {
    return fmt::format("revealed the secret: now everybody knows which {}",
                       by_rounds ? "witness was false by rule, if any" : "segments are drawn");
  }
  std::string operator()(const manifest::Round&) const {
    return "logged the public randomness of a slot: now everybody knows what it draws";
  }
  std::string operator()(const manifest::Opening&) const {
    return "opened the states at which the drawn segments begin";
  }
  std::string operator()(const manifest::VerdictCommitment& commitment) const {
    return fmt::format("committed to {}, without showing it yet",
                       commitment.audits ? "an audit of the verdict" : "a verdict");
  }
  std::string operator()(const manifest::Verdict& verdict) const {
    if (verdict.audits)
      return fmt::format("signed an audit of the verdict: {} the proof, denies {} of {} witnesses",
                         verdict.outcome == manifest::Outcome::kAccepted ? "accepts" : "refutes",
                         grouped(std::ssize(verdict.denied)), grouped(verdict.replayed));
    return fmt::format("signed a verdict: {} the proof, {} of {} segments replayed",
                       verdict.outcome == manifest::Outcome::kAccepted ? "accepts" : "refutes",
                       grouped(verdict.replayed), grouped(verdict.segments));
  }
  std::string operator()(const manifest::Delivery&) const { return "said that the model was delivered"; }
  std::string operator()(const manifest::Challenge& challenge) const {
    return fmt::format("challenged the {}", challenge.verdict ? "verdict" : "proof");
  }
  std::string operator()(const manifest::Ruling& ruling) const {
    return fmt::format("ruled on the dispute: the challenged statement {}",
                       ruling.falls ? "falls" : "stands");
  }
  std::string operator()(const manifest::Settlement& settlement) const {
    return fmt::format("paid the parties, reason \"{}\"", name_of(settlement.reason));
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

/// One event for all moves of a game, at the time of the last.
Event event_of(const Evidence& evidence, const ToldGame& told, const Cast& cast) {
  const auto& last = told.moves.back();
  const auto when = evidence.logged_ms.find(last.id);
  return {when == evidence.logged_ms.end() ? "" : utc_text(when->second), cast.of(last.key_id),
          fmt::format("made the last of the dispute's {} moves", told.moves.size())};
}

/// The game whose last move this is; null if there is none.
const ToldGame* ended_by(const std::vector<ToldGame>& games, const Digest& move) {
  const auto found = std::find_if(games.begin(), games.end(), [&](const ToldGame& told) {
    return !told.moves.empty() && told.moves.back().id == move;
  });
  return found == games.end() ? nullptr : &*found;
}

/// `name` as an argument of a shell.
std::string quoted(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '/' || c == '_' || c == '-';
  });
  if (plain && name.front() != '-') return name;
  std::string out = name.starts_with('-') ? "./'" : "'";
  for (const char c : name) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// The file of a statement, or a name for one that was not given as a file of its own.
std::string path_of(const Evidence& evidence, const Digest& statement, std::string_view otherwise) {
  const auto found = evidence.paths.find(statement);
  return found == evidence.paths.end() ? std::string(otherwise) : quoted(found->second);
}

/// The ruling about a game.
std::string ruling_of(const Evidence& evidence, const ToldGame& told) {
  for (const auto& ruling : evidence.all<manifest::Ruling>()) {
    if (ruling.body.game == told.id()) return path_of(evidence, ruling.id, "RULING.json");
  }
  return "RULING.json";
}

/// True if a transcript decides the game: it is over, and not by a deadline, which only a ledger knows.
bool has_ruling(const ToldGame& told) {
  const auto& decision = told.game.decision();
  return decision && decision->reason != manifest::RulingReason::kLate;
}

/// Adds the commands that take a game out of the ledger, if there is one, judge it, and audit it.
void add_checks_of_game(const Evidence& evidence, const ToldGame& told, std::vector<Check>& out) {
  std::string transcript = "DISPUTE.jsonl";
  if (evidence.ledger_path) {
    const std::string id = told.id().hex();
    transcript = fmt::format("dispute-{}.jsonl", id.substr(0, 8));
    out.push_back({"Takes the dispute out of the ledger.",
                   fmt::format("dgx-settle extract {} --game {} -o {}", quoted(*evidence.ledger_path),
                               id.substr(0, 16), transcript)});
  } else if (evidence.statement_files.size() == 1) {
    transcript = quoted(evidence.statement_files.front());
  }
  const bool is_chunk = told.game.dispute().challenge.body.about == manifest::About::kChunk;
  out.push_back({"Judges it again from its moves, without a model or data, and compares the ruling.",
                 fmt::format("dgx-referee {} --check {}{}", transcript, ruling_of(evidence, told),
                             is_chunk ? " --operator OPERATOR.pub.pem" : "")});
  out.push_back(
      {"The same with none of dgx's programs: openssl, sha256sum and Python. A package installs the script "
       "below /usr/share/doc/dgx.",
       fmt::format("sh examples/audit.sh {}", transcript)});
}

}  // namespace

std::vector<Event> events_of(const Evidence& evidence, const std::vector<ToldGame>& games, const Cast& cast) {
  std::vector<Event> out;
  const bool by_rounds = evidence.task.body.policy.beacon_source != 0;
  for (const auto& statement : evidence.statements) {
    if (const ToldGame* told = ended_by(games, statement.id)) out.push_back(event_of(evidence, *told, cast));
    std::string deed = std::visit(Deed{by_rounds}, statement.body);
    if (deed.empty()) continue;
    const auto when = evidence.logged_ms.find(statement.id);
    out.push_back({when == evidence.logged_ms.end() ? "" : utc_text(when->second), cast.of(statement.key_id),
                   std::move(deed)});
  }
  return out;
}

std::vector<Check> checks_of(const Evidence& evidence, const std::vector<ToldGame>& games) {
  constexpr std::size_t kMostGames = 4;
  std::vector<Check> out;
  if (evidence.ledger_path)
    out.push_back({"Every signature, date and payment, recomputed from the ledger.",
                   "dgx-settle check " + quoted(*evidence.ledger_path)});
  if (!evidence.statement_files.empty()) {
    std::string files;
    for (const std::string& path : evidence.statement_files) files += " " + quoted(path);
    out.push_back({"Every signature and digest of the files.", fmt::format("dgx-inspect{} --check", files)});
  }
  std::size_t judged = 0;
  for (const ToldGame& told : games) {
    if (has_ruling(told) && ++judged <= kMostGames) add_checks_of_game(evidence, told, out);
  }
  const auto proof = evidence.first<manifest::Proof>();
  if (!proof) return out;
  const std::string run = evidence.runs.empty() ? "RUN" : quoted(evidence.runs.front().path);
  out.push_back(
      {"Trains some of the work again and compares, bit for bit; the data and the states must be at hand.",
       fmt::format("dgx-verify {} {} --from {} --data DATA.h5 --all --key YOURS.pem -o VERDICT.json",
                   path_of(evidence, evidence.task.id, "TASK.json"),
                   path_of(evidence, proof->id, "PROOF.json"), run)});
  return out;
}

}  // namespace dgx::jobs
