#pragma once

#include <map>
#include <set>
#include <vector>

#include "cpu/divided_entries.h"
#include "cpu/parts_executor_impl.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exchange/sparse_messages.h"
#include "rewrite/phases.h"

namespace dgx::exec {

/// Makes one part on each rank, all at the same time (dgx-placement(7), "Ranks"). Rank r has part r, and the
/// whole state but for other ranks' slices of divided entries, of which the tail knows nothing.
///
/// The part's local program is divided into phases, with the body's gathers between them. Within a phase a
/// line of class C waits for its running state from the rank before, and hands it to the next when it is
/// made, so that each rank trails the one before it by one such line. The last rank's are the values: it
/// gives them to all. Then the tail's gathers follow, and every rank runs the tail.
///
/// A line that later phases, the tail or other ranks read is written at its place at once: the own slices of
/// a value that is gathered lie where they belong in the whole.
struct PartsExecutor::ByRanks final : PartsExecutor::Impl {
  explicit ByRanks(exchange::Exchange& ranks) : ranks_(ranks), sparse_messages_(ranks) {}

  [[nodiscard]] Result<Plan> plan_tail() override;
  Status plan_bodies() override;
  Status run_bodies() override;
  [[nodiscard]] std::vector<Body*> bodies_of_step() override;
  [[nodiscard]] double runs_of(const Body&) const override { return 1; }
  [[nodiscard]] Result<Fault> fault_of(const RankLie& lie) const override;
  [[nodiscard]] int processes_here() const override { return ranks_.ranks_here(); }
  [[nodiscard]] exchange::Exchange* exchange() const override { return &ranks_; }
  [[nodiscard]] std::int64_t own_bytes() const override;
  Status take_own_memory() override;
  void end_step() override;
  [[nodiscard]] bool has_whole_state() const override { return divided_.empty(); }
  Status load(const State& state) override;
  Status give(const State& state) override;
  Status take() override;
  [[nodiscard]] Result<State> collect() override;
  [[nodiscard]] std::int64_t saved_bytes() const override { return sparse_messages_.saved(); }

 private:
  using Values = std::set<kernels::ValueIndex>;  // of the step, or lines of the local program

  [[nodiscard]] const Part& own() const { return parts[static_cast<std::size_t>(ranks_.rank())]; }
  [[nodiscard]] bool is_last() const { return ranks_.rank() + 1 == ranks_.ranks(); }
  /// The memory of a line of the local program that is kept.
  [[nodiscard]] std::uint8_t* memory_of_kept(kernels::ValueIndex line);
  [[nodiscard]] Values gathered_in_body() const;
  [[nodiscard]] kernels::ValueIndex made_by(kernels::ValueIndex line) const;
  void move_channels();
  void find_kept();
  Status add_phase(const Phase& phase);
  void connect(Body& body, const Phase& phase);
  [[nodiscard]] Neighbours neighbours() const;
  [[nodiscard]] exchange::SparseMessages* coded(kernels::ValueIndex v) override {
    return sparse_.contains(v) ? &sparse_messages_ : nullptr;
  }
  void before_carry(kernels::ValueIndex v, std::span<std::uint8_t> first_word) override {
    lie_in(RankLie::In::kCarry, v, first_word, 0);
  }
  /// Gathers values of class S, in their order.
  Status gather_values(const Values& values);
  Status share_carried();
  /// Flips the lie's bit in bytes that begin at element `first` of its value, if this rank lies there now.
  void lie_in(RankLie::In in, kernels::ValueIndex v, std::span<std::uint8_t> bytes, std::int64_t first) const;
  [[nodiscard]] Status check_gathered(kernels::ValueIndex v) const;

  exchange::Exchange& ranks_;
  exchange::SparseMessages sparse_messages_;
  DividedEntries divided_;
  Values sparse_;  // lines of class C
  program::Piece local_piece_;
  std::vector<Phase> phases_;
  std::vector<Body> bodies_;                          // one for each phase
  Values kept_;                                       // of the local program: others than its phase read them
  std::map<kernels::ValueIndex, Tensor> kept_apart_;  // those with memory of their own
  std::vector<Values> gathers_;                       // by phase, behind it: values of the step
  Values tail_gathers_;
};

}  // namespace dgx::exec
