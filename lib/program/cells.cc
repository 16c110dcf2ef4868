// The order in which the stages of a pipeline make their pieces of the parts.
#include <algorithm>

#include "dgx/program/stages.h"

namespace dgx::program {

using kernels::ValueIndex;

namespace {

/// All stages, round by round: in each, a stage takes at most one cell.
class Rounds {
 public:
  Rounds(const Stages& stages, std::int64_t parts) : parts_(parts) {
    const std::size_t count = stages.stages.size();
    done_.resize(count);
    out_.resize(count);
    waits_.resize(count);
    for (std::size_t s = 0; s < count; ++s) {
      done_[s].assign(stages.stages[s].pieces.size(), 0);
      waits_[s].resize(stages.stages[s].pieces.size());
      left_ += static_cast<std::int64_t>(done_[s].size()) * parts;
    }
  }
  void add(const Wait& wait) {
    waits_[static_cast<std::size_t>(wait.stage)][static_cast<std::size_t>(wait.piece)].push_back(
        {static_cast<std::size_t>(wait.of), static_cast<std::size_t>(wait.of_piece)});
  }

  std::vector<std::vector<Cell>> run() {
    while (left_ > 0) {
      if (take_round(Limit::kKept)) continue;
      take_round(Limit::kLifted);
    }
    return std::move(out_);
  }

 private:
  enum class Limit : std::uint8_t { kKept, kLifted };
  struct Piece {
    std::size_t stage, piece;
  };

  /// True if a stage took a cell. With the limit lifted, the first that can.
  bool take_round(Limit limit) {
    const auto before = done_;
    bool some = false;
    for (std::size_t s = 0; s < done_.size() && (!some || limit == Limit::kKept); ++s) {
      for (std::size_t p = 0; p < done_[s].size(); ++p) {
        if (!may_take(s, p, before, limit)) continue;
        out_[s].push_back({p, done_[s][p]});
        ++done_[s][p];
        --left_;
        some = true;
        break;
      }
    }
    return some;
  }
  [[nodiscard]] bool may_take(std::size_t s, std::size_t p,
                              const std::vector<std::vector<std::int64_t>>& before, Limit limit) const {
    const std::int64_t part = done_[s][p];
    if (part == parts_ || (p > 0 && done_[s][p - 1] <= part)) return false;
    const auto most = static_cast<std::int64_t>(done_.size() - s);
    if (limit == Limit::kKept && p == 0 && part - done_[s].back() >= most) return false;
    return std::ranges::all_of(waits_[s][p],
                               [&](const Piece& of) { return before[of.stage][of.piece] > part; });
  }

  std::int64_t parts_, left_ = 0;
  std::vector<std::vector<std::int64_t>> done_;  // by stage and piece: the parts that are made
  std::vector<std::vector<std::vector<Piece>>> waits_;
  std::vector<std::vector<Cell>> out_;
};

}  // namespace

std::vector<std::vector<Cell>> cells_of(const Stages& stages, std::int64_t parts) {
  Rounds rounds(stages, parts);
  for (const Wait& each : stages.waits) rounds.add(each);
  return rounds.run();
}

std::int64_t parts_in_flight(const Stage& stage, std::span<const Cell> cells) {
  std::int64_t now = 0, most = 0;
  for (const Cell& cell : cells) {
    if (cell.piece == 0) most = std::max(most, ++now);
    if (cell.piece + 1 == stage.pieces.size()) --now;
  }
  return most;
}

}  // namespace dgx::program
