#include "dgx/program/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cut_messages.h"
#include "free_lines.h"
#include "input_lines.h"

namespace dgx::program {

using kernels::Access;
using kernels::ByValue;
using kernels::Primitive;
using kernels::ValueIndex;

namespace {

constexpr int kNone = -2;  // no stage yet

std::int64_t bytes_of(const Primitive& line) {
  return element_count(line.shape).value() * static_cast<std::int64_t>(size_of(line.dtype));
}

/// The way in which a line's reads are looked through.
struct Bound {
  const std::vector<CutMessage>& messages;
  bool has_head;
  const std::set<ValueIndex>* there = nullptr;  ///< may be null: values of which nothing is to be received
};

/// The values that a line reads, with those that a received line was made of in its place, and without the
/// entry that keeps it. Ascending.
std::vector<ValueIndex> bound_reads_of(const Program& program, const Classes& classes, const Bound& bound,
                                       ValueIndex line) {
  std::vector<ValueIndex> out;
  for (const ValueIndex read : reads_of(program, classes, line, bound.has_head)) {
    const auto message = std::ranges::find(bound.messages, read, &CutMessage::received);
    if (message == bound.messages.end()) {
      out.push_back(read);
      continue;
    }
    if (bound.there != nullptr && bound.there->contains(read)) continue;
    for (const ValueIndex part : reads_of(program, classes, read, bound.has_head)) {
      if (std::ranges::find(message->old, part) == message->old.end()) out.push_back(part);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Status check_cuts(const Program& program, const Classes& classes, const PipelineCut& cut) {
  if (cut.cuts.size() + 1 > kMaxStages)
    return usage_error(
        fmt::format("a pipeline of {} stages, {} are the most", cut.cuts.size() + 1, kMaxStages));
  if (cut.pipelines < 1 || cut.pipelines > classes.slices)
    return usage_error(fmt::format("a batch of {0} slices can go through 1 to {0} pipelines, not through {1}",
                                   classes.slices, cut.pipelines));
  const std::int64_t most = std::min(classes.slices / cut.pipelines, kMaxPipelineParts);
  if (cut.parts < 1 || cut.parts > most) {
    const std::string through =
        cut.pipelines == 1 ? "a pipeline" : fmt::format("each of {} pipelines", cut.pipelines);
    return usage_error(fmt::format("a batch of {} slices can go through {} in 1 to {} parts, not in {}",
                                   classes.slices, through, most, cut.parts));
  }
  const std::vector<ValueIndex> forward = forward_lines(program, classes);
  ValueIndex before{};
  for (const ValueIndex v : cut.cuts) {
    if (!std::ranges::binary_search(forward, v) || v == forward.front())
      return usage_error(
          fmt::format("a pipeline cannot be cut at line {} of the program: no forward line behind "
                      "the first (dgx-placement(7), PIPELINES)",
                      v));
    if (v <= before)
      return usage_error(fmt::format("a pipeline's cut at line {} is not behind the one before", v));
    before = v;
  }
  const auto obstacle = first_obstacle(program, classes);
  if (!cut.has_head() || !obstacle) return {};
  const std::string& made_for = program.values[obstacle->reader].provenance;
  return usage_error(
      fmt::format("a batch cannot go through {}: line {}{} of the program needs value {} of all samples "
                  "before a part can go on",
                  cut.pipelines == 1 ? "a pipeline in parts" : "several pipelines", obstacle->reader,
                  made_for.empty() ? "" : " (" + made_for + ")", obstacle->value),
      "give it one pipeline and one part, or leave the stages out; batch norm, for one, is over the whole "
      "batch");
}

/// Stages while lines get them.
class Assignment {
 public:
  Assignment(const Program& program, const Classes& classes, const PipelineCut& cut)
      : program_(program),
        classes_(classes),
        cut_(cut),
        messages_(cut_messages(program, classes)),
        of_(program.values.size(), kNone),
        read_(cut.cuts.size() + 1) {
    const ByValue<bool> free = free_lines(program, classes, cut.wanted);
    for (const ValueIndex v : of_.indices())
      if (free[v]) of_[v] = Stages::kFree;
  }

  ByValue<int> run() {
    const ByValue<bool> forward = needs_of_loss(program_);
    each([&](ValueIndex v) { return classes_.body[v] && forward[v]; },
         [&](ValueIndex v) { return by_place(v); });
    const auto is_carried = [&](ValueIndex v) { return classes_.of[v] == SampleClass::kCarried; };
    const auto of_body = [&](ValueIndex v) { return cheapest(v, Having::kRead); };
    each([&](ValueIndex v) { return classes_.body[v] && !is_carried(v); }, of_body);
    each([&](ValueIndex v) { return classes_.body[v]; }, of_body);
    each([](ValueIndex) { return true; }, [&](ValueIndex v) { return cheapest(v, Having::kEntry); });
    for (const ValueIndex v : of_.indices()) {
      if (of_[v] != kNone) continue;  // only entries that no line reads are left
      const auto next = program_.values[v].next;
      of_[v] = next && of_[*next] >= 0 ? of_[*next] : 0;
    }
    return of_;
  }

 private:
  /// The stages that have an entry: its own and those where a line reads it, or its own alone.
  enum class Having : std::uint8_t { kRead, kEntry };

  template <class Fits, class Choose>
  void each(Fits fits, Choose choose) {
    for (const ValueIndex v : of_.indices()) {
      if (is_input(program_.values[v]) || of_[v] != kNone || !fits(v)) continue;
      take(v, choose(v));
    }
  }
  [[nodiscard]] int by_place(ValueIndex v) const {
    return static_cast<int>(std::ranges::upper_bound(cut_.cuts, v) - cut_.cuts.begin());
  }
  [[nodiscard]] std::vector<ValueIndex> reads(ValueIndex v,
                                              const std::set<ValueIndex>* there = nullptr) const {
    return bound_reads_of(program_, classes_, {messages_, cut_.has_head(), there}, v);
  }
  void take(ValueIndex v, int stage) {
    of_[v] = stage;
    std::set<ValueIndex>& there = read_[static_cast<std::size_t>(stage)];
    for (const ValueIndex read : reads(v)) {
      if (of_[read] == kNone) of_[read] = stage;  // an entry, at its first reader
      there.insert(read);
    }
    for (const ValueIndex read : reads_of(program_, classes_, v, cut_.has_head())) there.insert(read);
  }
  [[nodiscard]] bool has(int stage, ValueIndex read, Having having) const {
    if (of_[read] == stage) return true;
    return having == Having::kRead && is_entry(program_.values[read]) &&
           read_[static_cast<std::size_t>(stage)].contains(read);
  }
  /// The first stage where the fewest bytes are missing, of those that have all entries that the line reads,
  /// or else of all. What is received where a line reads it already is there.
  [[nodiscard]] int cheapest(ValueIndex v, Having having) const {
    int best = 0;
    std::optional<std::pair<bool, std::int64_t>> fewest;
    for (int stage = 0; stage < static_cast<int>(read_.size()); ++stage) {
      bool lacks_entry = false;
      std::int64_t missing = 0;
      for (const ValueIndex read : reads(v, &read_[static_cast<std::size_t>(stage)])) {
        if (of_[read] < 0 || has(stage, read, having)) continue;
        lacks_entry = lacks_entry || is_entry(program_.values[read]);
        missing += bytes_of(program_.values[read]);
      }
      const std::pair found(lacks_entry, missing);
      if (fewest && found >= *fewest) continue;
      fewest = found;
      best = stage;
    }
    return best;
  }

  const Program& program_;
  const Classes& classes_;
  const PipelineCut& cut_;
  std::vector<CutMessage> messages_;
  ByValue<int> of_;
  std::vector<std::set<ValueIndex>> read_;  // by stage: what its lines read
};

/// The message's line, at the stages with a line that reads it, or what reads the entry that keeps it.
Received received(const Program& program, const ByValue<int>& of, const CutMessage& message) {
  std::set<int> makers, holders;
  for (const ValueIndex v : program.values.indices()) {
    if (is_input(program.values[v]) || of[v] < 0) continue;
    for (const Access& access : program.values[v].accesses) {
      const bool reads = access.value == message.received;
      if (reads) makers.insert(of[v]);
      if (reads || std::ranges::find(message.old, access.value) != message.old.end()) holders.insert(of[v]);
    }
  }
  if (!message.entry) holders.clear();
  if (message.entry && holders.empty()) holders.insert(0);
  return {message.received, {makers.begin(), makers.end()}, message.entry, {holders.begin(), holders.end()}};
}

/// Divides the lines of stages into pieces, and finds what is moved.
class Division {
 public:
  Division(const Program& program, const Classes& classes, const PipelineCut& cut, Stages& out)
      : program_(program),
        classes_(classes),
        cut_(cut),
        messages_(cut_messages(program, classes)),
        out_(out),
        depth_(program.values.size(), 0),
        waited_for_(program.values.size(), false),
        is_awaited_(out.stages.size(), false) {}

  void run() {
    for (const CutMessage& message : messages_) out_.received.push_back(received(program_, out_.of, message));
    find_moves();
    find_depths();
    out_.piece.assign(program_.values.size(), 0);
    for (int stage = 0; stage < static_cast<int>(out_.stages.size()); ++stage) fill(stage);
    find_waits();
    if (cut_.pipelines > 1) find_shared();
  }

 private:
  [[nodiscard]] bool is_made(ValueIndex v) const { return !is_input(program_.values[v]) && out_.of[v] >= 0; }
  [[nodiscard]] std::vector<ValueIndex> reads(ValueIndex v) const {
    return bound_reads_of(program_, classes_, {messages_, cut_.has_head()}, v);
  }
  /// Calls `visit(line, stage, made)` for what a received line is made of, at each of these stages.
  template <class Visit>
  void each_received(std::vector<int> Received::*stages, Visit visit) const {
    for (const Received& each : out_.received) {
      for (const int stage : each.*stages) {
        for (const ValueIndex made : reads(each.line))
          if (out_.of[made] >= 0) visit(each.line, stage, made);
      }
    }
  }
  /// True for a line that its column makes.
  [[nodiscard]] bool is_sum(ValueIndex v) const {
    return cut_.pipelines > 1 && classes_.of[v] == SampleClass::kCarried;
  }
  void move(ValueIndex value, int to) {
    if (out_.of[value] >= 0 && out_.of[value] != to) moves_.insert({value, out_.of[value], to});
  }

  void find_moves() {
    for (const ValueIndex v : program_.values.indices()) {
      const Primitive& line = program_.values[v];
      if (is_made(v)) {
        for (const ValueIndex read : reads(v)) move(read, out_.of[v]);
      }
      if (!is_entry(line) || !line.next) continue;
      move(*line.next, out_.of[v]);
      if (line.source.name == "loss") move(*line.next, 0);
    }
    const auto move_made = [&](ValueIndex, int stage, ValueIndex made) { move(made, stage); };
    each_received(&Received::makers, move_made);
    each_received(&Received::holders, move_made);
    for (const ValueIndex v : cut_.wanted) move(v, 0);
    out_.moves.assign(moves_.begin(), moves_.end());
  }

  /// The stages, one after another, that a line waits for; the tail's begin anew.
  void find_depths() {
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_made(v) || is_sum(v)) continue;
      for (const ValueIndex read : reads(v)) {
        if (!is_made(read)) continue;
        const int before = classes_.body[read] && !classes_.body[v] ? 0 : depth_[read];
        const bool crosses = out_.of[read] != out_.of[v];
        depth_[v] = std::max(depth_[v], before + (crosses ? 1 : 0));
        if (crosses && classes_.body[v] && depth_[read] == 0)
          is_awaited_[static_cast<std::size_t>(out_.of[read])] = true;
      }
    }
    for (const Received& each : out_.received)
      for (const int stage : each.makers) depth_received_[{each.line, stage}] = 0;
    each_received(&Received::makers, [&](ValueIndex line, int stage, ValueIndex made) {
      if (!is_made(made)) return;
      int& depth = depth_received_[{line, stage}];
      depth = std::max(depth, depth_[made] + (out_.of[made] == stage ? 0 : 1));
      if (out_.of[made] != stage && depth_[made] == 0)
        is_awaited_[static_cast<std::size_t>(out_.of[made])] = true;
    });
    for (const Move& each : out_.moves) waited_for_[each.value] = true;
    // In the tail, lines of the same stage on which these depend are waited for, too.
    for (std::size_t n = waited_for_.size(); n-- > 0;) {
      const auto v = static_cast<ValueIndex>(n);
      if (!waited_for_[v] || classes_.body[v] || !is_made(v)) continue;
      for (const ValueIndex read : reads(v)) {
        if (out_.of[read] == out_.of[v]) waited_for_[read] = true;
      }
    }
  }

  void fill(int stage) {
    std::map<int, std::vector<ValueIndex>> body, early;
    Stage& out = out_.stages[static_cast<std::size_t>(stage)];
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_made(v) || out_.of[v] != stage) continue;
      if (is_sum(v)) {
        out.sums.push_back(v);
      } else if (classes_.body[v]) {
        body[depth_[v]].push_back(v);
      } else if (waited_for_[v]) {
        early[depth_[v]].push_back(v);
      } else {
        out.last.push_back(v);
      }
    }
    for (const auto& [received, depth] : depth_received_) {
      if (received.second != stage) continue;
      std::vector<ValueIndex>& lines = body[depth];
      lines.insert(std::ranges::upper_bound(lines, received.first), received.first);
    }
    if (body.size() > 1 && body.begin()->first == 0 && !is_awaited_[static_cast<std::size_t>(stage)]) {
      const auto next = std::next(body.begin());
      std::ranges::copy(body.begin()->second, std::back_inserter(next->second));
      std::ranges::sort(next->second);
      body.erase(body.begin());
    }
    const auto take = [&](auto& from, auto& to) {
      for (auto& [depth, lines] : from) {
        for (const ValueIndex v : lines) {
          out_.piece[v] = static_cast<int>(to.size());
          if (depth_received_.contains({v, stage})) piece_received_[{v, stage}] = out_.piece[v];
        }
        to.push_back(std::move(lines));
      }
    };
    take(body, out.pieces);
    take(early, out.early);
    for (const ValueIndex v : out.sums) out_.piece[v] = static_cast<int>(out.pieces.size());
    for (const ValueIndex v : out.last) out_.piece[v] = static_cast<int>(out.early.size());
  }

  void find_waits() {
    std::set<Wait> waits;
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_made(v) || !classes_.body[v] || is_sum(v)) continue;
      for (const ValueIndex read : reads(v)) {
        if (is_made(read) && out_.of[read] != out_.of[v])
          waits.insert({out_.of[v], out_.piece[v], out_.of[read], out_.piece[read]});
      }
    }
    each_received(&Received::makers, [&](ValueIndex line, int stage, ValueIndex made) {
      if (is_made(made) && out_.of[made] != stage)
        waits.insert({stage, piece_received_.at({line, stage}), out_.of[made], out_.piece[made]});
    });
    out_.waits.assign(waits.begin(), waits.end());
  }

  /// Finds the values of class S that the tail reads, by stage: of these each pipeline has some slices.
  void find_shared() {
    std::vector<std::set<ValueIndex>> shared(out_.stages.size());
    const auto share = [&](ValueIndex v, int stage) {
      if (is_made(v) && classes_.of[v] == SampleClass::kSharded)
        shared[static_cast<std::size_t>(stage)].insert(v);
    };
    for (const ValueIndex v : program_.values.indices()) {
      const Primitive& line = program_.values[v];
      if (is_made(v) && !classes_.body[v]) {
        for (const ValueIndex read : reads(v)) share(read, out_.of[v]);
      }
      if (!is_entry(line) || !line.next) continue;
      share(*line.next, out_.of[v]);
      if (line.source.name == "loss") share(*line.next, 0);
    }
    each_received(&Received::holders, [&](ValueIndex, int stage, ValueIndex made) { share(made, stage); });
    for (const ValueIndex v : cut_.wanted) share(v, 0);
    for (std::size_t s = 0; s < shared.size(); ++s)
      out_.stages[s].shared.assign(shared[s].begin(), shared[s].end());
  }

  const Program& program_;
  const Classes& classes_;
  const PipelineCut& cut_;
  std::vector<CutMessage> messages_;
  Stages& out_;
  ByValue<int> depth_;
  ByValue<bool> waited_for_;
  std::vector<bool> is_awaited_;  // by stage: another one's body reads a line of it that waits for none
  std::set<Move> moves_;
  std::map<std::pair<ValueIndex, int>, int> depth_received_, piece_received_;  // by line and stage
};

}  // namespace

bool Stages::receives(ValueIndex line, int stage) const {
  const auto found = std::ranges::find(received, line, &Received::line);
  return found != received.end() && std::ranges::find(found->makers, stage) != found->makers.end();
}

std::vector<int> Stages::holders(ValueIndex entry) const {
  const auto found = std::ranges::find(received, std::optional(entry), &Received::entry);
  return found == received.end() ? std::vector<int>{of[entry]} : found->holders;
}

std::vector<ValueIndex> reads_of(const Program& program, const Classes& classes, ValueIndex line,
                                 bool has_head) {
  std::vector<ValueIndex> out;
  const auto& accesses = program.values[line].accesses;
  for (std::size_t n = 0; n < accesses.size(); ++n) {
    const ValueIndex read = accesses[n].value;
    const bool from_head = has_head && classes.body[line] && !is_input(program.values[read]) &&
                           needs_whole(program, classes, line, n);
    if (!from_head && std::ranges::find(out, read) == out.end()) out.push_back(read);
  }
  return out;
}

ByValue<std::vector<ValueIndex>> crossing_reads(const Program& program, const Classes& classes) {
  const std::vector<CutMessage> messages = cut_messages(program, classes);
  ByValue<std::vector<ValueIndex>> out;
  for (const ValueIndex v : program.values.indices())
    out.push_back(bound_reads_of(program, classes, {messages, true}, v));
  return out;
}

Result<Piece> tail_of_stages(const Program& program, const Classes& classes, const Stages& stages) {
  ByValue<bool> again(program.values.size(), false);
  for (const Received& each : stages.received)
    if (each.entry) again[each.line] = true;
  for (std::size_t n = again.size(); n-- > 0;) {
    const auto v = static_cast<ValueIndex>(n);
    if (!again[v]) continue;
    for (const Access& access : program.values[v].accesses) {
      const ValueIndex read = access.value;
      if (!is_input(program.values[read]) && stages.of[read] == Stages::kFree) again[read] = true;
    }
  }
  Classes of_tail = classes;
  for (const ValueIndex v : program.values.indices())
    if (again[v]) of_tail.body[v] = false;
  return tail_program(program, of_tail);
}

Result<Stages> stages_of(const Program& program, const Classes& classes, const PipelineCut& cut) {
  DGX_CHECK(check_cuts(program, classes, cut));
  Stages out;
  out.stages.resize(cut.cuts.size() + 1);
  out.of = Assignment(program, classes, cut).run();
  Division(program, classes, cut, out).run();
  return out;
}

}  // namespace dgx::program
