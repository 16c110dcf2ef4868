#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "dgx/core/text.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/verify.h"
#include "inspect/report_parts.h"

namespace dgx::jobs {
namespace {

using Mark = Stretch::Mark;

constexpr std::size_t kMostStretches = 200;
constexpr std::size_t kMostText = 200;

/// The first kMostText bytes of a text.
std::string clipped(const std::string& text) {
  if (text.size() <= kMostText) return text;
  std::size_t end = kMostText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string words_of_optimizer(const program::OptimizerSpec& spec) {
  const auto name = [&]() -> std::string {
    switch (spec.kind) {
      case program::OptimizerSpec::Kind::kSgd: return "SGD";
      case program::OptimizerSpec::Kind::kAdam: return "Adam";
      case program::OptimizerSpec::Kind::kAdamW: return "AdamW";
      case program::OptimizerSpec::Kind::kLion: return "Lion";
      case program::OptimizerSpec::Kind::kRmsProp: return "RMSprop";
      case program::OptimizerSpec::Kind::kAdagrad: return "Adagrad";
      case program::OptimizerSpec::Kind::kDgc: return "DGC";
    }
    return {};
  };
  std::string out = name();
  out += fmt::format(", learning rate {}", spec.learning_rate);
  if (spec.momentum != 0) out += fmt::format(", momentum {}", spec.momentum);
  if (spec.weight_decay != 0) out += fmt::format(", weight decay {}", spec.weight_decay);
  if (spec.kind == program::OptimizerSpec::Kind::kDgc)
    out += fmt::format(", workers send {} % of their numbers", 100 * spec.density);
  return out;
}

/// A run's losses, as means of neighbours where there are more than a page has room for.
Curve curve_of(const GivenRun& run) {
  const std::vector<float>& losses = run.index.losses;
  Curve out;
  out.name = clipped(std::filesystem::path(run.path).filename().string());
  if (out.name.empty()) out.name = clipped(run.path);
  if (!run.index.header.drill.empty()) out.name += " (made with a deliberate fault)";
  out.first_step = run.index.checkpoints.front().step;
  out.end_step = out.first_step + std::ssize(losses);
  const std::size_t bucket =
      std::max<std::size_t>(1, (losses.size() + Curve::kMaxPoints - 1) / Curve::kMaxPoints);
  for (std::size_t at = 0; at < losses.size(); at += bucket) {
    const std::size_t end = std::min(losses.size(), at + bucket);
    double sum = 0;
    for (std::size_t i = at; i < end; ++i) sum += static_cast<double>(losses[i]);
    out.values.push_back(std::isfinite(sum) ? sum / static_cast<double>(end - at) : std::nan(""));
  }
  out.steps_each = static_cast<std::int64_t>(bucket);
  if (!losses.empty())
    out.words = fmt::format("from {:.4g} in step {} to {:.4g} in step {}", losses.front(),
                            grouped(out.first_step), losses.back(), grouped(out.end_step - 1));
  const auto not_finite = std::ranges::count_if(losses, [](float loss) { return !std::isfinite(loss); });
  if (not_finite > 0)
    out.words +=
        fmt::format(", {} of {} not finite and not drawn", grouped(not_finite), grouped(std::ssize(losses)));
  return out;
}

/// The mark of each segment.
using Marks = std::vector<Mark>;

void set(Marks& marks, std::int64_t segment, Mark mark) {
  if (segment >= 0 && segment < std::ssize(marks)) marks[static_cast<std::size_t>(segment)] = mark;
}

/// Marks what a verdict says, as far as it is known without its rows: the draw, all segments, or one.
void mark_verdict(const Evidence& evidence, const manifest::Signed<manifest::Verdict>& verdict, Marks& out) {
  const bool accepts = verdict.body.outcome == manifest::Outcome::kAccepted;
  if (const auto rows = evidence.rows.find(verdict.id); rows != evidence.rows.end()) {
    for (const manifest::VerdictRow& row : rows->second)
      set(out, row.index, row.agrees ? Mark::kAgrees : Mark::kDisagrees);
  } else if (accepts && verdict.body.replayed == std::ssize(out)) {
    std::fill(out.begin(), out.end(), Mark::kAgrees);
  } else if (accepts && verdict.body.draw == manifest::Draw::kPolicy) {
    std::replace(out.begin(), out.end(), Mark::kDrawn, Mark::kAgrees);
  }
  if (verdict.body.first_disagreement) set(out, verdict.body.first_disagreement->index, Mark::kDisagrees);
}

/// The beacon revealed for the proof, or the round that a verdict on it names; nullopt without either.
std::optional<protocol::DrawSource> source_of_draw(const Evidence& evidence, const Digest& proof) {
  // With rounds a beacon is the secret of a verifier, which draws nothing.
  const bool by_beacons = evidence.task.body.policy.beacon_source == 0;
  for (const auto& beacon : evidence.all<manifest::Beacon>()) {
    if (by_beacons && beacon.body.proof == proof) return protocol::DrawSource(beacon);
  }
  for (const auto& verdict : evidence.all<manifest::Verdict>()) {
    if (verdict.body.proof != proof) continue;
    for (const auto& round : evidence.all<manifest::Round>()) {
      if (verdict.body.beacon == round.id) return protocol::DrawSource(round, proof);
    }
  }
  return std::nullopt;
}

/// Marks the segments drawn for the proof.
void mark_draw(const Evidence& evidence, const protocol::Segments& segments, const Digest& proof,
               Marks& out) {
  const auto source = source_of_draw(evidence, proof);
  if (!source) return;
  const auto drawn =
      protocol::policy_draw(evidence.task.body, segments, source->value, proof, source->signer);
  if (!drawn.ok()) return;
  for (const std::int64_t segment : *drawn) set(out, segment, Mark::kDrawn);
}

void mark_games(const std::vector<ToldGame>& games, const Digest& proof, Marks& out) {
  for (const ToldGame& told : games) {
    const manifest::Challenge& challenge = told.game.dispute().challenge.body;
    const auto& decision = told.game.decision();
    if (challenge.proof != proof || challenge.verdict || challenge.about != manifest::About::kSegment)
      continue;
    if (decision) set(out, challenge.segment, decision->falls ? Mark::kFell : Mark::kCleared);
  }
}

/// Joins neighbours of one mark.
std::vector<Stretch> stretches_of(const Marks& marks) {
  std::vector<Stretch> out;
  for (std::int64_t i = 0; i < std::ssize(marks); ++i) {
    const Mark mark = marks[static_cast<std::size_t>(i)];
    if (out.empty() || out.back().mark != mark) out.push_back({mark, i, i});
    out.back().end = i + 1;
  }
  return out;
}

/// The money that each account has put into a task and not got back as it was, by account: escrow, bonds, and
/// the bonds of challenges that were lost. Payouts sum to the same (protocol/payouts.h).
std::map<std::string, std::int64_t> locked_in(const Evidence& evidence, const protocol::TaskRecord& record) {
  const protocol::Bonds bonds = protocol::bonds_of(record.task.body);
  std::map<std::string, std::int64_t> out;
  out[record.task.key_id.hex()] += record.task.body.estimate.escrow;
  if (record.solver) out[record.solver->hex()] += bonds.solver;
  if (record.verifier) out[record.verifier->hex()] += bonds.verifier;
  const auto ends = protocol::ends_of(record, evidence.view->market.clock().now());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const protocol::GameRecord& game = record.games[i];
    if (ends[i] && ends[i]->result == protocol::GameResult::kStands)
      out[game.game.dispute().challenger().hex()] += game.bond;
  }
  return out;
}

std::string name_of_account(const std::string& account, const Cast& cast) {
  const auto key = digest_from_hex(account);
  return key.ok() ? cast.of(*key) : "the " + account;  // jackpot, treasury
}

}  // namespace

Cast cast_of(const Evidence& evidence) {
  Cast out(evidence.names);
  for (const auto& statement : evidence.statements) {
    const LifeStage* stage = stage_of(kind_of(statement.body));
    if (stage != nullptr && !stage->role.empty()) out.add(statement.key_id, stage->role);
  }
  if (evidence.view) out.add(evidence.view->summary.operator_id, "operator");
  return out;
}

std::vector<Party> parties_of(const Evidence& evidence, const Cast& cast) {
  std::vector<Party> out;
  for (const auto& statement : evidence.statements) {
    const LifeStage* stage = stage_of(kind_of(statement.body));
    if (stage == nullptr || stage->deed.empty()) continue;
    const std::string key_id = statement.key_id.hex();
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const Party& party) { return party.key_id == key_id; });
    if (known == out.end()) {
      out.push_back({cast.of(statement.key_id), std::string(stage->deed), key_id});
    } else if (known->did.find(stage->deed) == std::string::npos) {
      known->did += fmt::format("; {}", stage->deed);
    }
  }
  return out;
}

/// "head.*: 0.1 times the rate, weight decay 0".
std::string words_of_group(const program::ParameterGroup& group) {
  std::string out = fmt::format("{}: {} times the rate", clipped(group.match), decimal(group.rate));
  if (group.weight_decay) out += fmt::format(", weight decay {}", decimal(*group.weight_decay));
  return out;
}

std::vector<Fact> bought_of(const Evidence& evidence) {
  const manifest::Task& task = evidence.task.body;
  std::vector<Fact> out{{"model", clipped(task.model)},
                        {"loss", std::string(program::name_of(task.loss.kind))},
                        {"optimiser", words_of_optimizer(task.optimizer)}};
  for (const program::ParameterGroup& group : task.update.groups)
    out.push_back({"trained otherwise", words_of_group(group)});
  if (!task.update.frozen.empty())
    out.push_back({"frozen", clipped(fmt::format("{}", fmt::join(task.update.frozen, ", ")))});
  if (task.update.accumulate != 1)
    out.push_back({"updated", fmt::format("every {} steps", grouped(task.update.accumulate))});
  if (task.update.workers != 1)
    out.push_back({"gradients", fmt::format("of {} workers, added up", grouped(task.update.workers))});
  if (task.cut)
    out.push_back({"cut", fmt::format("behind block {}, with {} bits forward, {} backward", task.cut->block,
                                      task.cut->forward, task.cut->backward)});
  if (task.update.ema)
    out.push_back({"averaged weights", fmt::format("keep {} in an update", decimal(*task.update.ema))});
  const std::vector<Fact> rest{
      {"data", fmt::format("{} samples", grouped(task.dataset.samples))},
      {"training", fmt::format("{} steps of {} samples", grouped(task.steps), grouped(task.batch))},
      {"committed states", fmt::format("every {} steps", grouped(task.checkpoint_every))},
      {"drawn to be replayed",
       fmt::format("{} % of the segments", static_cast<double>(task.policy.sample_ppm) / 10'000)},
      {"reward", grouped(task.estimate.reward)},
      {"verifier's fee, at most", grouped(task.estimate.fee)},
      {"locked for it", grouped(task.estimate.escrow)}};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::vector<Curve> curves_of(const Evidence& evidence) {
  std::vector<Curve> out;
  for (const GivenRun& run : evidence.runs) {
    if (!run.index.losses.empty()) out.push_back(curve_of(run));
  }
  return out;
}

void tell_segments(const Evidence& evidence, const std::vector<ToldGame>& games, Story& out) {
  const auto proof = evidence.first<manifest::Proof>();
  if (!proof) return;
  const auto segments = protocol::segments_of(evidence.task.body, proof->body);
  if (!segments.ok()) return;
  if (segments->count() > protocol::kMaxSegments) {
    out.left_out.push_back(
        fmt::format("The proof has {} segments, more than any market takes: they are not drawn.",
                    grouped(segments->count())));
    return;
  }
  Marks marks(static_cast<std::size_t>(segments->count()));
  mark_draw(evidence, *segments, proof->id, marks);
  for (const auto& verdict : evidence.all<manifest::Verdict>()) {
    if (verdict.body.proof == proof->id) mark_verdict(evidence, verdict, marks);
  }
  mark_games(games, proof->id, marks);
  out.segments = segments->count();
  out.stretches = stretches_of(marks);
  if (out.stretches.size() <= kMostStretches) return;
  out.stretches.resize(kMostStretches);
  out.left_out.push_back(fmt::format("Of the segments only those before {} are drawn and listed.",
                                     grouped(out.stretches.back().end)));
}

std::vector<Account> money_of(const Evidence& evidence, const Cast& cast) {
  const protocol::TaskRecord* record = evidence.record();
  if (record == nullptr) return {};
  const auto settlement = record->settlement
                              ? record->settlement
                              : protocol::standing(*record, evidence.view->market.clock().now()).settlement;
  if (!settlement) return {};
  std::map<std::string, Account> accounts;
  for (const auto& [account, amount] : locked_in(evidence, *record)) accounts[account].locked = amount;
  for (const manifest::Payout& payout : settlement->payouts) accounts[payout.account].paid += payout.amount;
  std::vector<Account> out;
  for (auto& [name, account] : accounts) {
    account.name = name_of_account(name, cast);
    out.push_back(std::move(account));
  }
  return out;
}

}  // namespace dgx::jobs
