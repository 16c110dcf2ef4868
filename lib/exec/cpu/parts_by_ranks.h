#pragma once

#include <map>
#include <set>
#include <vector>

#include "cpu/divided_entries.h"
#include "cpu/parts_executor_impl.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exchange/row_messages.h"
#include "dgx/exchange/sparse_messages.h"
#include "dgx/program/ranks.h"
#include "rewrite/phases.h"

namespace dgx::exec {

/// Makes one part on each rank, all at the same time (dgx-placement(7), "Ranks"). Rank r has part r, and the
/// whole state but for other ranks' slices of divided entries, of which the tail knows nothing.
///
/// The part's local program is divided into phases, with the body's gathers between them. Within a phase a
/// line of class C waits for its running state from the rank before, and hands it to the next when it is
/// made, so that each rank trails the one before it by one such line. So that it need not wait for the ranks
/// behind it, a gather begins before the phase's last lines of class C, and is waited for behind them. The
/// last rank's are the values: it gives them to all. Then the tail's gathers follow, and every rank runs the
/// tail.
///
/// A line that later phases, the tail or other ranks read is written at its place at once: the own slices of
/// a value that is gathered lie where they belong in the whole.
///
/// An expert may be at home on one rank (dgx-placement(7), "Experts"): homes.cc has what goes there and back.
struct PartsExecutor::ByRanks final : PartsExecutor::Impl {
  ByRanks(exchange::Exchange& ranks, ExpertsAt experts)
      : ranks_(ranks), experts_(experts), sparse_messages_(ranks) {}

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
  [[nodiscard]] bool has_whole_state() const override { return divided_.empty() && !has_entries_at_home(); }
  [[nodiscard]] bool has_experts_at_home() const override { return !classes.home.empty(); }
  Status load(const State& state) override;
  Status give(const State& state) override;
  Status take() override;
  [[nodiscard]] Result<State> collect() override;
  [[nodiscard]] std::int64_t saved_bytes() const override;

 private:
  using Values = std::set<kernels::ValueIndex>;  // of the step, or lines of the local program

  [[nodiscard]] const Part& own() const { return parts[static_cast<std::size_t>(ranks_.rank())]; }
  [[nodiscard]] bool is_last() const { return ranks_.rank() + 1 == ranks_.ranks(); }
  /// The memory of a line of the local program that is kept.
  [[nodiscard]] std::uint8_t* memory_of_kept(kernels::ValueIndex line);
  [[nodiscard]] kernels::ValueIndex made_by(kernels::ValueIndex line) const;
  void move_channels();
  void find_kept();
  Status plan_phase(Body& body, const Phase& phase);
  void connect(Body& body, const Phase& phase);
  [[nodiscard]] Neighbours neighbours() const;
  [[nodiscard]] exchange::SparseMessages* coded(kernels::ValueIndex v) override {
    return sparse_.contains(v) ? &sparse_messages_ : nullptr;
  }
  void before_carry(kernels::ValueIndex v, std::span<std::uint8_t> first_word) override {
    lie_in(RankLie::In::kCarry, v, first_word, 0);
  }
  [[nodiscard]] std::vector<kernels::ValueIndex> given_behind(std::size_t phase) const;
  /// Begins to gather values of class S, in their order; end_gathers() waits for them.
  void begin_gathers(const Values& values);
  Status end_gathers(const Values& values);
  Status share_carried();
  /// Flips the lie's bit in bytes that begin at element `first` of its value, if this rank lies there now.
  void lie_in(RankLie::In in, kernels::ValueIndex v, std::span<std::uint8_t> bytes, std::int64_t first) const;
  [[nodiscard]] Status check_gathered(kernels::ValueIndex v) const;

  [[nodiscard]] bool has_entries_at_home() const;
  void plan_moves(const kernels::ByValue<std::size_t>& waits);
  [[nodiscard]] std::span<std::uint8_t> slices_of(kernels::ValueIndex v, std::uint8_t* all, int rank) const;
  [[nodiscard]] std::size_t row_of(kernels::ValueIndex v) const;
  template <class F>
  void each_other(F f) const;
  void expect_moves();
  [[nodiscard]] std::int64_t bytes_of_moves() const;
  void send_moves(std::size_t phase);
  Status end_moves(std::size_t phase);
  void give_by_homes(std::vector<exchange::Request>& requests);
  Status collect_entry(kernels::ValueIndex entry, Tensor* all);

  exchange::Exchange& ranks_;
  ExpertsAt experts_;
  exchange::SparseMessages sparse_messages_;
  DividedEntries divided_;
  Values sparse_;  // lines of class C
  program::Piece local_piece_;
  std::vector<Phase> phases_;
  std::vector<Body> bodies_;                          // one for each phase; without lines, none is run
  Values kept_;                                       // of the local program: others than its phase read them
  std::map<kernels::ValueIndex, Tensor> kept_apart_;  // those with memory of their own
  Values gathered_;                                   // values of the step, in the body
  std::vector<Values> gathers_;                       // the same by phase, behind which they are gathered
  Values tail_gathers_;
  std::vector<exchange::Request> begun_gathers_;       // until end_gathers()
  std::vector<std::vector<program::HomeMove>> moves_;  // by phase, behind it
  Values moved_;                                       // the values of all these
  std::vector<exchange::RowMessages> messages_;        // by phase
  std::map<kernels::ValueIndex, kernels::ValueIndex>
      moving_;                                      // lines of the local program, by what they make
  std::map<kernels::ValueIndex, Tensor> received_;  // slices of what other ranks' experts make
  std::vector<kernels::ValueIndex> given_by_homes_;
};

}  // namespace dgx::exec
