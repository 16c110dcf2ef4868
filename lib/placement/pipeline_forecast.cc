// A pipeline's step, played through cell by cell.
#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

#include "clocks.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/placement/pipeline.h"

namespace dgx::placement {
namespace {

using exchange::Nanoseconds;
using kernels::ByValue;
using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using program::SampleClass;
using program::Stages;
using Move = PipelineWork::Move;
using Piece = PipelineWork::Piece;

/// The work of stages while it is put together.
class Sum {
 public:
  Sum(const program::Program& program, const program::Classes& classes, const Stages& stages,
      PipelineWork& out)
      : program_(program),
        classes_(classes),
        stages_(stages),
        out_(out),
        has_head_(out.parts > 1 || out.pipelines > 1),
        operations_(program.values.size(), 0) {}

  Status run() {
    for (const ValueIndex v : program_.values.indices()) {
      const Primitive& line = program_.values[v];
      if (line.kind == Kind::kInput) continue;
      DGX_TRY(const kernels::OperationCounts counts, kernels::count_operations(line));
      for (const std::int64_t count : counts.by_op) operations_[v] += static_cast<double>(count);
    }
    for (const program::Move& move : stages_.moves) add_move(move);
    out_.stages.resize(stages_.stages.size());
    for (int s = 0; s < static_cast<int>(out_.stages.size()); ++s) {
      const program::Stage& stage = stages_.stages[static_cast<std::size_t>(s)];
      PipelineWork::Stage& work = out_.stages[static_cast<std::size_t>(s)];
      for (const auto& lines : stage.pieces) work.pieces.push_back(piece_of(lines, s));
      for (const auto& lines : stage.early) work.early.push_back(piece_of(lines, s));
      work.last = piece_of(lines_of_last(stage, s), s);
      work.last.received.clear();  // it waits for all
      for (std::size_t n = 0; n < out_.moves.size(); ++n) {
        if (out_.moves[n].to == s) work.last.received.push_back(n);
      }
      add_column(stage, s, work);
    }
    return {};
  }

 private:
  void add_move(const program::Move& move) {
    const Primitive& line = program_.values[move.value];
    Move out{move.from, move.to, program::crossing_bytes(program_, classes_, move.value), Move::When::kTail};
    const SampleClass of = classes_.of[move.value];
    if (line.kind == Kind::kInput) {
      out.when = Move::When::kAtOnce;
    } else if (classes_.body[move.value]) {
      out.when = of == SampleClass::kSharded   ? Move::When::kEachPart
                 : of == SampleClass::kCarried ? Move::When::kLastPart
                                               : Move::When::kFirstPart;
    }
    out_.moves.push_back(out);
  }

  [[nodiscard]] std::int64_t bytes_of(ValueIndex v) const {
    const Primitive& line = program_.values[v];
    return element_count(line.shape).value() * static_cast<std::int64_t>(size_of(line.dtype));
  }

  /// The lines of a stage's last piece; behind a model's --cut with the update of the entry that keeps what
  /// was received, and with the received line, which the tail makes once more.
  [[nodiscard]] std::vector<ValueIndex> lines_of_last(const program::Stage& stage, int s) const {
    std::vector<ValueIndex> out = stage.last;
    for (const program::Received& each : stages_.received) {
      if (!each.entry || !std::ranges::binary_search(each.holders, s)) continue;
      out.push_back(each.line);
      out.push_back(*program_.values[*each.entry].next);
    }
    return out;
  }

  void add_column(const program::Stage& stage, int s, PipelineWork::Stage& work) {
    for (const ValueIndex v : stage.shared) {
      work.shared.push_back(program::crossing_bytes(program_, classes_, v));
      for (std::size_t n = 0; n < stages_.moves.size(); ++n) {
        if (stages_.moves[n].value == v && stages_.moves[n].to == s) work.shared_received.push_back(n);
      }
    }
    if (stage.sums.empty()) return;
    const Piece all = piece_of(stage.sums, s);
    work.sums_received = all.received;
    double free = all.of_slices;  // lines that are made where they are read
    for (const ValueIndex v : stage.sums) {
      const Primitive& line = program_.values[v];
      Stretch sum{operations_[v], 0, Stretch::Carry{bytes_of(v), std::nullopt}};
      if (line.kind == Kind::kDot) sum.carry->positions = element_count(line.fold).value();
      free -= operations_[v];
      work.sums.push_back(sum);
      auto& sent = work.sums_sent.emplace_back();
      for (const std::size_t n : all.sent) {
        if (stages_.moves[n].value == v) sent.push_back(n);
      }
    }
    work.sums.front().of_slices += free;
    work.sums.front().whole += all.whole;
  }

  Piece piece_of(const std::vector<ValueIndex>& lines, int stage) {
    Piece out;
    ByValue<bool> made(program_.values.size(), false), read(program_.values.size(), false);
    for (const ValueIndex v : lines) made[v] = true;
    for (std::size_t n = made.size(); n-- > 0;) {
      const auto v = static_cast<ValueIndex>(n);
      if (!made[v]) continue;
      const double operations = operations_[v];
      (classes_.of[v] == SampleClass::kWhole ? out.whole : out.of_slices) += operations;
      for (const ValueIndex of : program::reads_of(program_, classes_, v, has_head_)) {
        read[of] = true;
        const bool is_free = stages_.of[of] == Stages::kFree && !stages_.receives(of, stage);
        if (program_.values[of].kind != Kind::kInput && is_free) made[of] = true;
      }
    }
    for (std::size_t n = 0; n < stages_.moves.size(); ++n) {
      const program::Move& move = stages_.moves[n];
      if (move.to == stage && read[move.value]) out.received.push_back(n);
      if (move.from == stage && made[move.value]) out.sent.push_back(n);
    }
    return out;
  }

  const program::Program& program_;
  const program::Classes& classes_;
  const Stages& stages_;
  PipelineWork& out_;
  bool has_head_;
  ByValue<double> operations_;
};

/// The slices of pipelines and of their parts.
class Shares {
 public:
  Shares(const PipelineWork& work, std::span<const std::int64_t> pipelines)
      : slices_(work.slices), parts_(static_cast<std::size_t>(work.parts)) {
    bounds_.push_back(0);
    for (std::size_t d = 0; d + 1 < pipelines.size(); ++d)
      append_parts(pipelines[d], pipelines[d + 1] - pipelines[d], work.parts, bounds_);
  }

  [[nodiscard]] std::int64_t end_of(std::size_t d) const { return bounds_[(d + 1) * parts_]; }
  /// Slices of a pipeline's part, or of all its parts.
  [[nodiscard]] std::int64_t slices_of(std::size_t d, std::optional<std::int64_t> part) const {
    const std::size_t begin = d * parts_ + static_cast<std::size_t>(part.value_or(0));
    return bounds_[part ? begin + 1 : begin + parts_] - bounds_[begin];
  }
  /// The same, of all slices.
  [[nodiscard]] double share_of(std::size_t d, std::optional<std::int64_t> part) const {
    return static_cast<double>(slices_of(d, part)) / static_cast<double>(slices_);
  }
  /// Their share of the bytes of a value, rounded down.
  [[nodiscard]] std::int64_t bytes_of(std::int64_t bytes, std::size_t d,
                                      std::optional<std::int64_t> part) const {
    return bytes / slices_ * slices_of(d, part) + bytes % slices_ * slices_of(d, part) / slices_;
  }

 private:
  std::int64_t slices_;
  std::size_t parts_;
  std::vector<std::int64_t> bounds_;  // of the parts of all pipelines
};

/// The play of a step.
class Play {
 public:
  Play(const PipelineWork& work, std::span<const std::int64_t> rates, const exchange::Network& network,
       std::span<const std::int64_t> bounds)
      : work_(work),
        clocks_(rates, network),
        shares_(work, bounds),
        stages_(work.stages.size()),
        next_(rates.size(), 0),
        arrives_(work.moves.size() * static_cast<std::size_t>(work.parts * work.pipelines), kUnknown),
        columns_(rates.size()) {
    for (std::size_t s = 0; s < stages_; ++s) {
      steps_.push_back(steps_of(s));
      for (std::size_t d = 0; d < pipelines(); ++d) {
        Column& column = columns_[rank_of(d, s)];
        column.carried.assign(work_.stages[s].sums.size(), kUnknown);
        column.given = column.carried;
        column.missing = work_.stages[s].shared.size() * (pipelines() - 1);
      }
    }
  }

  Result<Forecast> run() {
    clocks_.broadcast(0, Clocks::kOrderBytes);
    for (std::size_t d = 0; d < pipelines(); ++d) {
      for (std::size_t m = 0; m < work_.moves.size(); ++m) {
        if (work_.moves[m].when == Move::When::kAtOnce) send(d, m, 0, work_.moves[m].bytes);
      }
    }
    // A rank's clock is its own, so each goes on as far as it can, again and again.
    bool some = true;
    while (some) {
      some = false;
      for (std::size_t r = 0; r < next_.size(); ++r) {
        while (next_[r] < steps_[r % stages_].size() && take(r, steps_[r % stages_][next_[r]])) {
          ++next_[r];
          some = true;
        }
      }
    }
    for (std::size_t r = 0; r < next_.size(); ++r) {
      if (next_[r] != steps_[r % stages_].size())
        return internal_error("the stages of a pipeline wait for each other for ever");
    }
    clocks_.gather_equal(Clocks::kReportBytes);
    return clocks_.result();
  }

 private:
  static constexpr Nanoseconds kUnknown = -1;

  /// A rank's next action, with the number of the cell, line or piece.
  struct Step {
    enum class Do : std::uint8_t { kCell, kShare, kSum, kGiveSum, kEndShares, kEarly, kLast };
    Do what = Do::kCell;
    std::size_t n = 0;
  };
  using Do = Step::Do;
  /// Arrivals at a rank from its column.
  struct Column {
    std::vector<Nanoseconds> carried;  ///< by line: when the running state is there
    std::vector<Nanoseconds> given;    ///< and its value
    std::size_t missing = 0;           ///< shares that nobody has sent yet
    Nanoseconds shared = 0;            ///< when all others are there
  };

  [[nodiscard]] std::size_t pipelines() const { return static_cast<std::size_t>(work_.pipelines); }
  [[nodiscard]] std::size_t rank_of(std::size_t d, std::size_t s) const { return d * stages_ + s; }
  [[nodiscard]] std::vector<Step> steps_of(std::size_t s) const {
    const PipelineWork::Stage& stage = work_.stages[s];
    std::vector<Step> out;
    const auto add = [&](Do what, std::size_t count) {
      for (std::size_t n = 0; n < count; ++n) out.push_back({what, n});
    };
    add(Do::kCell, work_.cells[s].size());
    if (pipelines() > 1) {
      add(Do::kShare, 1);
      add(Do::kSum, stage.sums.size());
      add(Do::kGiveSum, stage.sums.size());
      add(Do::kEndShares, 1);
    }
    add(Do::kEarly, stage.early.size());
    add(Do::kLast, 1);
    return out;
  }
  [[nodiscard]] Nanoseconds& arrival(std::size_t d, std::size_t move, std::int64_t part) {
    return arrives_[(d * work_.moves.size() + move) * static_cast<std::size_t>(work_.parts) +
                    static_cast<std::size_t>(part)];
  }
  void send(std::size_t d, std::size_t move, std::int64_t part, std::int64_t bytes) {
    const Move& each = work_.moves[move];
    arrival(d, move, part) = clocks_.send(rank_of(d, static_cast<std::size_t>(each.from)),
                                          rank_of(d, static_cast<std::size_t>(each.to)), bytes);
  }

  /// Takes a rank's next step, unless that waits for what nobody has sent yet.
  bool take(std::size_t r, const Step& step) {
    const std::size_t s = r % stages_;
    const PipelineWork::Stage& stage = work_.stages[s];
    switch (step.what) {
      case Do::kCell: {
        const program::Cell& cell = work_.cells[s][step.n];
        return make(r, stage.pieces[cell.piece], cell.part);
      }
      case Do::kShare: return give_shares(r);
      case Do::kSum: return make_sum(r, step.n);
      case Do::kGiveSum: return give_sum(r, step.n);
      case Do::kEndShares:
        if (columns_[r].missing > 0) return false;
        clocks_.wait(r, columns_[r].shared);
        return true;
      case Do::kEarly: return make(r, stage.early[step.n], std::nullopt);
      case Do::kLast: return make(r, stage.last, std::nullopt);
    }
    return false;
  }

  bool make(std::size_t r, const Piece& piece, std::optional<std::int64_t> part) {
    const std::size_t d = r / stages_;
    if (!receive(r, piece.received, part)) return false;
    clocks_.compute(r, piece.of_slices * (part ? shares_.share_of(d, part) : 1.0) + piece.whole);
    for (const std::size_t m : piece.sent) give(d, m, part);
    return true;
  }
  bool receive(std::size_t r, const std::vector<std::size_t>& moves, std::optional<std::int64_t> part) {
    Nanoseconds last = 0;
    for (const std::size_t m : moves) {
      const bool by_part = work_.moves[m].when == Move::When::kEachPart;
      const std::int64_t first = by_part && part ? *part : 0;
      const std::int64_t end = by_part && !part ? work_.parts : first + 1;
      for (std::int64_t q = first; q < end; ++q) {
        if (arrival(r / stages_, m, q) == kUnknown) return false;
        last = std::max(last, arrival(r / stages_, m, q));
      }
    }
    clocks_.wait(r, last);
    return true;
  }
  void give(std::size_t d, std::size_t m, std::optional<std::int64_t> part) {
    const Move& move = work_.moves[m];
    using When = Move::When;
    if (move.when == When::kEachPart) {
      send(d, m, *part, shares_.bytes_of(move.bytes, d, part));
    } else if (move.when == When::kTail || (move.when == When::kFirstPart && *part == 0) ||
               (move.when == When::kLastPart && *part + 1 == work_.parts)) {
      send(d, m, 0, move.bytes);
    }
  }

  bool give_shares(std::size_t r) {
    const std::size_t d = r / stages_, s = r % stages_;
    if (!receive(r, work_.stages[s].shared_received, std::nullopt)) return false;
    for (const std::int64_t bytes : work_.stages[s].shared) {
      for (std::size_t other = 0; other < pipelines(); ++other) {
        if (other == d) continue;
        Column& to = columns_[rank_of(other, s)];
        const std::int64_t own = shares_.bytes_of(bytes, d, std::nullopt);
        to.shared = std::max(to.shared, clocks_.send(r, rank_of(other, s), own));
        --to.missing;
      }
    }
    return true;
  }
  /// Goes on with a line's running state, and hands it to the next pipeline.
  bool make_sum(std::size_t r, std::size_t n) {
    const std::size_t d = r / stages_;
    const PipelineWork::Stage& stage = work_.stages[r % stages_];
    if (n == 0 && !receive(r, stage.sums_received, std::nullopt)) return false;
    if (d > 0 && columns_[r].carried[n] == kUnknown) return false;
    if (d > 0) clocks_.wait(r, columns_[r].carried[n]);
    clocks_.compute(r, stage.sums[n].of_slices * shares_.share_of(d, std::nullopt) + stage.sums[n].whole);
    if (d + 1 == pipelines()) return true;
    const Stretch::Carry& carry = *stage.sums[n].carry;
    columns_[r + stages_].carried[n] =
        clocks_.send(r, r + stages_, carried_bytes(carry, shares_.end_of(d), work_.slices));
    return true;
  }
  /// Takes a line's value, and gives it to those below in the tree, and to other stages.
  bool give_sum(std::size_t r, std::size_t n) {
    const std::size_t d = r / stages_, s = r % stages_, number = (d + 1) % pipelines();
    if (number > 0 && columns_[r].given[n] == kUnknown) return false;
    if (number > 0) clocks_.wait(r, columns_[r].given[n]);
    for (std::size_t width = number == 0 ? 1 : 2 * std::bit_floor(number); number + width < pipelines();
         width *= 2) {
      const std::size_t to = rank_of((number + width + pipelines() - 1) % pipelines(), s);
      columns_[to].given[n] = clocks_.send(r, to, work_.stages[s].sums[n].carry->bytes);
    }
    for (const std::size_t m : work_.stages[s].sums_sent[n]) send(d, m, 0, work_.moves[m].bytes);
    return true;
  }

  const PipelineWork& work_;
  Clocks clocks_;
  Shares shares_;
  std::size_t stages_;
  std::vector<std::vector<Step>> steps_;  // by stage
  std::vector<std::size_t> next_;         // by rank, of its stage's steps
  std::vector<Nanoseconds> arrives_;      // by pipeline, move and part
  std::vector<Column> columns_;           // by rank
};

}  // namespace

Result<PipelineWork> work_of_stages(const program::Program& program, const program::Classes& classes,
                                    const Stages& stages, const program::PipelineCut& cut) {
  PipelineWork out;
  out.slices = classes.slices;
  out.parts = cut.parts;
  out.pipelines = cut.pipelines;
  out.cells = program::cells_of(stages, cut.parts);
  DGX_CHECK(Sum(program, classes, stages, out).run());
  return out;
}

Result<Forecast> forecast(const PipelineWork& work, std::span<const std::int64_t> operations_per_second,
                          const exchange::Network& network, std::span<const std::int64_t> bounds) {
  assert(work.stages.size() * static_cast<std::size_t>(work.pipelines) == operations_per_second.size());
  const std::int64_t all[] = {0, work.slices};
  return Play(work, operations_per_second, network, bounds.empty() ? all : bounds).run();
}

}  // namespace dgx::placement
