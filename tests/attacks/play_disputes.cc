// Disputes at random places of real programs. One bit of one value of one step is flipped: by a cheat who
// proves what follows from it, by a challenger who lies, or by a verifier who refutes, or vouches for, an
// invention. Each dispute goes from challenge to ruling through signed moves and the transcript's reader, and
// must end against the liar, at the very scalar operation.
//
//   play_disputes N SEED TASK.json DATA.h5 [TASK.json DATA.h5 ...]     N disputes, dealt to the tasks in turn

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "bisect/segment_replay.h"
#include "dgx/bundle/state.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/bisect.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/referee.h"
#include "dgx/protocol/scalar_text.h"
#include "dgx/protocol/verify.h"
#include "statements.h"

namespace {

using namespace dgx;
using protocol::Game;
using protocol::Side;

[[noreturn]] void fail(const std::string& words) {
  std::cerr << "FAILED: " << words << "\n";
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) fail(result.error().message);
  return std::move(result).value();
}
void must(Status status) {
  if (!status.ok()) fail(status.error().message);
}

using Dice = std::mt19937_64;
std::int64_t below(Dice& dice, std::int64_t end) {
  return static_cast<std::int64_t>(dice() % static_cast<std::uint64_t>(end));
}

/// The party that lies.
enum class Role { kProver, kChallenger, kRefuter, kWitness };
constexpr std::array<const char*, 4> kRoles{"prover", "challenger", "refuter", "witness"};

/// A task, and an honest run of it.
class Scene {
 public:
  Scene(const std::string& task, const std::string& data)
      : name_(task),
        files_(must(jobs::open_task(task, std::nullopt, std::nullopt))),
        liar_(files_, data, 1, context_) {
    exec::StepExecutor* const executor = must(liar_.executor());
    State state = must(jobs::initial_state(files_, std::nullopt));
    must(executor->load(state));
    for (std::int64_t i = 0; i <= files_.segments.count(); ++i) {
      while (executor->position() < files_.segments.boundary(i)) must(executor->step());
      states_.push_back(executor->state().value());
      digests_.push_back(must(bundle::digests_of(states_.back(), 1)).state);
    }
    for (std::int64_t i = 0; i < files_.segments.count(); ++i) {
      sources_.push_back(std::make_unique<jobs::ReplaySource>(files_, data, 1, context_));
      sources_.back()->start_at(states_[static_cast<std::size_t>(i)]);
      honest_.push_back(std::make_unique<jobs::SegmentReplay>(files_.segments[i], *sources_.back()));
    }
    sort_values();
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const jobs::TaskFiles& files() const { return files_; }
  [[nodiscard]] const program::Program& program() const { return *files_.program; }
  [[nodiscard]] const std::vector<Digest>& digests() const { return digests_; }
  [[nodiscard]] jobs::SegmentReplay& honest(std::int64_t segment) const {
    return *honest_[static_cast<std::size_t>(segment)];
  }
  [[nodiscard]] const std::map<std::string, std::vector<kernels::ValueIndex>>& kinds() const {
    return kinds_;
  }

  [[nodiscard]] jobs::SegmentReplay liar(std::int64_t segment, const jobs::Drill& drill) {
    liar_.start_at(states_[static_cast<std::size_t>(segment)]);
    return {files_.segments[segment], liar_, drill};
  }

 private:
  /// Sorts the program's values by kind of primitive, and inputs by kind of derived input.
  void sort_values() {
    constexpr std::array<const char*, 5> kSources{"state", "batch", "schedule", "constant", "uniform"};
    for (const kernels::ValueIndex v : program().values.indices()) {
      const kernels::Primitive& line = program().values[v];
      if (*element_count(line.shape) == 0) continue;
      std::string kind(kernels::name_of(line.kind));
      if (line.kind == kernels::Kind::kInput) kind = kSources[static_cast<std::size_t>(line.source.kind)];
      kinds_[kind].push_back(v);
    }
  }

  std::string name_;
  jobs::TaskFiles files_;
  Progress silent_;
  StopFlag never_;
  JobContext context_{.progress = silent_, .stop = never_};
  jobs::ReplaySource liar_;
  std::vector<State> states_;
  std::vector<Digest> digests_;
  std::vector<std::unique_ptr<jobs::ReplaySource>> sources_;
  std::vector<std::unique_ptr<jobs::SegmentReplay>> honest_;
  std::map<std::string, std::vector<kernels::ValueIndex>> kinds_;
};

struct Keys {
  crypto::SecretKey liar = crypto::SecretKey::from_seed(Digest{{1}}.bytes);
  crypto::SecretKey honest = crypto::SecretKey::from_seed(Digest{{2}}.bytes);
};

/// A flipped bit in a value of that kind, at a step of a segment.
struct Fault {
  std::int64_t segment = 0;
  jobs::Drill drill;
};

Fault draw_fault(const Scene& scene, const std::vector<kernels::ValueIndex>& values, Dice& dice) {
  const auto& segments = scene.files().segments;
  Fault out{below(dice, segments.count()), {}};
  const protocol::Segment segment = segments[out.segment];
  const auto value = values[static_cast<std::size_t>(below(dice, std::ssize(values)))];
  const kernels::Primitive& line = scene.program().values[value];
  // A step's loss and step counter are not used by the next step: only the last ones of a segment are
  // committed.
  const bool last = line.shape.empty();
  out.drill.step = last ? segment.end - 1 : segment.first + below(dice, segment.length());
  out.drill.fault = {value, below(dice, *element_count(line.shape)),
                     static_cast<int>(below(dice, 8 * static_cast<std::int64_t>(size_of(line.dtype))))};
  // Every other fold's bit is flipped while it is folded, as by a rank that lies to the next.
  const bool has_state =
      line.kind == kernels::Kind::kDot || (line.kind == kernels::Kind::kChain && line.dtype != DType::kU8);
  const std::int64_t positions = has_state ? *element_count(line.fold) : 0;
  if (positions > 1 && below(dice, 2) == 0) out.drill.fault.position = 1 + below(dice, positions - 1);
  return out;
}

/// A challenge and the statements under it, for a lie about the segment in that role.
class Setting {
 public:
  Setting(const Scene& scene, const Keys& keys, Role role, std::int64_t segment, jobs::SegmentReplay& liar)
      : scene_(scene), keys_(keys), role_(role), segment_(scene.files().segments[segment]), liar_(liar) {}

  protocol::Dispute dispute() {
    std::vector<Digest> states = scene_.digests();
    const auto end = static_cast<std::size_t>(segment_.index) + 1;
    if (role_ == Role::kProver) states[end] = must(liar_.state(segment_.end));
    manifest::Proof proof{scene_.files().task.id, manifest::states_root(states), states.front(),
                          states.back(),          scene_.files().body().steps,   {}};
    test::say_an_end(proof);  // the games are about segments
    const auto& prover = role_ == Role::kProver ? keys_.liar : keys_.honest;
    protocol::Dispute out{
        scene_.files().task, must(manifest::seal(proof, prover)), std::nullopt, std::nullopt, {}};
    manifest::Challenge challenge;
    challenge.task = scene_.files().task.id;
    challenge.proof = out.proof.id;
    challenge.segment = segment_.index;
    challenge.start = opened(states, end - 1);
    challenge.end = opened(states, end);
    if (role_ == Role::kRefuter || role_ == Role::kWitness) add_verdict(out, challenge, states);
    const auto& challenger = role_ == Role::kChallenger ? keys_.liar : keys_.honest;
    out.challenge = must(manifest::seal(challenge, challenger));
    return out;
  }

 private:
  static manifest::CommittedState opened(const std::vector<Digest>& states, std::size_t index) {
    std::vector<Digest> leaves;
    for (const Digest& state : states) leaves.push_back(merkle::committed_state_leaf(state));
    return {states[index], must(merkle::inclusion_path(leaves, index))};
  }

  /// Adds the liar's verdict on an honest proof. Prover and challenger are one.
  void add_verdict(protocol::Dispute& out, manifest::Challenge& challenge,
                   const std::vector<Digest>& states) {
    const Digest verifier = crypto::key_id(keys_.liar.public_key());
    const protocol::Assignment assignment =
        must(protocol::assign(out.task, out.proof, std::nullopt, verifier));
    const Digest& expected = states[static_cast<std::size_t>(segment_.index) + 1];
    manifest::VerdictRow row{segment_.index, expected, expected, true, manifest::RowReason::kEqual, {}};
    if (role_ == Role::kRefuter) {
      row.recomputed = must(liar_.state(segment_.end));
      row.agrees = false;
      row.reason = manifest::RowReason::kDigest;
    }
    row.witness = protocol::witness_of(verifier, must(liar_.state(protocol::witness_step(segment_))));
    std::vector<manifest::VerdictRow> rows{row};
    const auto segments = must(protocol::segments_of(out.task.body, out.proof.body));
    const auto verdict =
        must(protocol::assemble_verdict(out.task.body, segments, assignment, states, rows, Digest{{1}}));
    out.verdict = must(manifest::seal(verdict, keys_.liar));
    challenge.verdict = out.verdict->id;
    if (role_ == Role::kWitness) challenge.about = manifest::About::kWitness;
    challenge.row = manifest::OpenedRow{0, {}, row};
  }

  const Scene& scene_;
  const Keys& keys_;
  Role role_;
  protocol::Segment segment_;
  jobs::SegmentReplay& liar_;
};

/// Plays a dispute to its end, and has the referee read the transcript.
class Play {
 public:
  Play(const Scene& scene, const Keys& keys, Role role, protocol::Dispute dispute)
      : scene_(scene), keys_(keys), liar_(role == Role::kChallenger ? Side::kChallenger : Side::kDefender) {
    text_ = dispute.task.envelope + "\n" + dispute.proof.envelope + "\n";
    if (dispute.verdict) text_ += dispute.verdict->envelope + "\n";
    text_ += dispute.challenge.envelope + "\n";
    game_.emplace(must(Game::open(std::move(dispute))));
  }

  /// The ruling's body; nullopt if the lying challenger found nothing to say.
  std::optional<manifest::Ruling> play(jobs::SegmentReplay& liar, jobs::SegmentReplay& honest) {
    protocol::Player lying(scene_.program(), liar);
    protocol::Player right(scene_.program(), honest);
    while (!game_->decision()) {
      const bool lies = game_->due().side == liar_;
      const auto message = must((lies ? lying : right).next(*game_));
      if (!message) {
        if (!lies) fail("the honest side has nothing to say: " + protocol::standing_in_words(*game_));
        return std::nullopt;
      }
      manifest::Move body{game_->dispute().task.id, game_->dispute().challenge.id, game_->turn(),
                          game_->last(), protocol::print_message(*message)};
      const auto move = must(manifest::seal(std::move(body), lies ? keys_.liar : keys_.honest));
      must(game_->apply(move));
      text_ += move.envelope + "\n";
    }
    const auto transcript = must(protocol::play_transcript(text_));
    auto ruling = must(transcript.game.ruling());
    if (ruling != must(game_->ruling())) fail("the transcript's reader rules otherwise");
    return ruling;
  }

  [[nodiscard]] std::size_t bytes() const { return text_.size(); }

 private:
  const Scene& scene_;
  const Keys& keys_;
  Side liar_;
  std::optional<Game> game_;
  std::string text_;
};

std::string describe(const Scene& scene, Role role, const Fault& fault) {
  return fmt::format("{}: {}: {}", scene.name(), kRoles[static_cast<std::size_t>(role)],
                     jobs::print_drill(fault.drill));
}

bool is_state_input(const Scene& scene, const exec::Fault& fault) {
  const kernels::Primitive& line = scene.program().values[fault.value];
  return line.kind == kernels::Kind::kInput && line.source.kind == kernels::Source::Kind::kState;
}

/// Checks that the ruling names the step, value and element at which the liar's replay first differs, whoever
/// lies.
void check_place(const Scene& scene, const Fault& fault, const manifest::Ruling& ruling,
                 const std::string& where) {
  const exec::Fault& flipped = fault.drill.fault;
  if (ruling.at.step != fault.drill.step || ruling.at.value != to_number(flipped.value))
    fail(fmt::format("{}: led to step {}, value {}: {}", where, ruling.at.step.value_or(-1),
                     ruling.at.value.value_or(-1), ruling.words));
  if (is_state_input(scene, flipped)) {
    if (ruling.claim != manifest::Claim::kStateInput)
      fail(where + ": not a claim about the state: " + ruling.words);
  } else if (ruling.at.element != flipped.element) {
    fail(where + ": led to another element: " + ruling.words);
  }
}

/// Checks that the ruling names the fault's place, and the element's last scalar operation.
void check_ruling(const Scene& scene, const Fault& fault, const manifest::Ruling& ruling,
                  jobs::SegmentReplay& liar, const std::string& where) {
  const exec::Fault& flipped = fault.drill.fault;
  if (!ruling.falls) fail(where + ": the liar's statement stands: " + ruling.words);
  check_place(scene, fault, ruling, where);
  if (is_state_input(scene, flipped)) return;
  if (!ruling.scalar) fail(where + ": led to no scalar of the element: " + ruling.words);
  const kernels::Primitive& line = scene.program().values[flipped.value];
  const Tensor theirs = must(liar.value(fault.drill.step, flipped.value));
  const manifest::JudgedScalar wanted = must(
      protocol::last_operation(scene.program(), scene.honest(fault.segment), fault.drill.step, flipped.value,
                               flipped.element, protocol::bits_text(theirs.view(), flipped.element)));
  const manifest::JudgedScalar& found = *ruling.scalar;
  // A ruling counts a fold's operations from the beginning of the position that it judges.
  const bool counted = line.kind != kernels::Kind::kMap || found.index == wanted.index;
  // If a chain's condition is false, a ruling names the number that is kept, and the replay the comparison.
  const bool kept = found.operation == "keep";
  bool same = counted && (kept || found.operation == wanted.operation) && found.place == wanted.place &&
              found.result == wanted.result && found.claimed == wanted.claimed &&
              (kept || found.operands.size() == wanted.operands.size());
  for (std::size_t i = 0; same && !kept && i < wanted.operands.size(); ++i)
    same = found.operands[i].bits == wanted.operands[i].bits &&
           found.operands[i].from == wanted.operands[i].from;
  if (!same)
    fail(fmt::format("{}: led to another operation than {} at {}: {}", where, wanted.operation, wanted.place,
                     ruling.words));
}

/// Counts for the table.
struct Tally {
  std::map<std::string, std::array<int, 4>> disputes;  // indexed by kind of value, then role
  std::set<std::string> harmless;                      // kinds in which no fault changed anything
  std::int64_t most_moves = 0;
  std::size_t most_bytes = 0;
};

/// Plays one dispute about a value of that kind; false if none of the faults tried changes anything that is
/// signed.
bool dispute_about(Scene& scene, const Keys& keys, Role role, const std::string& kind, Dice& dice,
                   Tally& tally) {
  for (int tries = 0; tries < 60; ++tries) {
    const Fault fault = draw_fault(scene, scene.kinds().at(kind), dice);
    jobs::SegmentReplay liar = scene.liar(fault.segment, fault.drill);
    if (must(liar.non_finite_after())) continue;
    const protocol::Segment segment = scene.files().segments[fault.segment];
    const bool ends_elsewhere =
        must(liar.state(segment.end)) != scene.digests()[static_cast<std::size_t>(fault.segment) + 1];
    if (role != Role::kWitness && !ends_elsewhere) continue;
    Setting setting(scene, keys, role, fault.segment, liar);
    protocol::Dispute dispute = setting.dispute();
    if (role == Role::kWitness) {
      const std::int64_t step = protocol::witness_step(segment);
      if (must(liar.state(step)) == must(scene.honest(fault.segment).state(step))) continue;
    }
    const std::string where = describe(scene, role, fault);
    Play play(scene, keys, role, std::move(dispute));
    const auto ruling = play.play(liar, scene.honest(fault.segment));
    if (role == Role::kChallenger) {
      if (ruling && ruling->falls) fail(where + ": the honest prover's statement falls: " + ruling->words);
      if (ruling) check_place(scene, fault, *ruling, where);
    } else {
      check_ruling(scene, fault, *ruling, liar, where);
    }
    ++tally.disputes[kind][static_cast<std::size_t>(role)];
    if (ruling) tally.most_moves = std::max(tally.most_moves, ruling->moves);
    tally.most_bytes = std::max(tally.most_bytes, play.bytes());
    return true;
  }
  return false;
}

int play_all(const std::vector<std::string>& words) {
  const int wanted = std::stoi(words[0]);
  Dice dice(static_cast<std::uint64_t>(std::stoull(words[1])));
  const Keys keys;
  int played = 0;
  const int scenes = static_cast<int>(words.size() - 2) / 2;
  for (int s = 0; s < scenes; ++s) {
    Scene scene(words[2 + 2 * static_cast<std::size_t>(s)], words[3 + 2 * static_cast<std::size_t>(s)]);
    Tally tally;
    const int share = wanted / scenes + (s < wanted % scenes ? 1 : 0);
    int here = 0;
    for (int round = 0; here < share; ++round) {
      for (const auto& [kind, values] : scene.kinds()) {
        if (here == share || tally.harmless.contains(kind)) continue;
        // Mostly cheating provers: each of the other three roles one time in six.
        const auto role =
            std::array{
                Role::kProver,  Role::kChallenger, Role::kProver,
                Role::kRefuter, Role::kProver,     Role::kWitness}[static_cast<std::size_t>(round) % 6];
        if (dispute_about(scene, keys, role, kind, dice, tally)) {
          ++here;
        } else if (role == Role::kProver) {
          tally.harmless.insert(kind);
        }
      }
      if (tally.harmless.size() == scene.kinds().size()) fail(scene.name() + ": no fault changes anything");
    }
    fmt::print("{}: {} values, {} disputes, at most {} moves and {} bytes\n", scene.name(),
               scene.program().values.size(), here, tally.most_moves, tally.most_bytes);
    for (const auto& [kind, by_role] : tally.disputes)
      fmt::print("  {:9} {} provers, {} challengers, {} refuters, {} witnesses\n", kind, by_role[0],
                 by_role[1], by_role[2], by_role[3]);
    for (const std::string& kind : tally.harmless)
      fmt::print("  {:9} no fault changes a committed state\n", kind);
    std::fflush(stdout);
    played += here;
  }
  fmt::print("{} disputes, all decided against the liar\n", played);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 4 || words.size() % 2 != 0) {
    std::cerr << "usage: play_disputes N SEED TASK.json DATA.h5 ...\n";
    return 2;
  }
  return play_all(words);
}
