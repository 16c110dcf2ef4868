#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cpu/parts_executor_impl.h"
#include "dgx/exchange/exchange.h"
#include "dgx/program/stages.h"
#include "rewrite/phases.h"

namespace dgx::exec {

/// Makes one stage of a pipeline on each rank (dgx-placement(7), "Pipelines"): of S stages, rank r has stage
/// r mod S of pipeline r / S, and the entries of the state that are the stage's. The pipeline's slices of the
/// batch go through in parts, one after another.
///
/// A stage's cells are its pieces of the body, for one part each, in the order of program::cells_of(). Values
/// that pass between stages, or that the tail reads, lie whole, each part's slices at their place; so all
/// receives can begin with the step, and no order of messages matters. Values that later pieces of the same
/// stage read lie in slots, one for each part in flight. Lines of class C go on in memory. Behind the cells
/// come the pieces of the tail that other stages wait for, then the stage's tail.
///
/// With several pipelines, the ranks of a stage, its column, meet behind the cells: they give each other
/// their slices of what the tail reads, and make the lines of class C in turn, each for all slices of its
/// pipeline.
///
/// stages_plan.cc plans it and takes the memory, parts_by_stages.cc runs it, columns.cc has
/// the columns.
struct PartsExecutor::ByStages final : PartsExecutor::Impl {
  ByStages(exchange::Exchange& ranks, std::vector<kernels::ValueIndex> cuts)
      : ranks_(ranks), cuts_(std::move(cuts)) {}

  [[nodiscard]] Result<Plan> plan_tail() override;
  Status plan_bodies() override;
  Status run_bodies() override;
  [[nodiscard]] std::vector<Body*> bodies_of_step() override;
  [[nodiscard]] double runs_of(const Body& body) const override;
  [[nodiscard]] int processes_here() const override { return ranks_.ranks_here(); }
  [[nodiscard]] exchange::Exchange* exchange() const override { return &ranks_; }
  [[nodiscard]] std::int64_t own_bytes() const override;
  Status take_own_memory() override;
  [[nodiscard]] std::int64_t saved_bytes() const override { return saved_bytes_; }
  [[nodiscard]] bool makes(kernels::ValueIndex v) const override { return stages_.of[v] == stage(); }

  void end_step() override;
  [[nodiscard]] bool is_pipeline() const override { return true; }
  [[nodiscard]] int stages() const override { return static_cast<int>(cuts_.size()) + 1; }
  Status load(const State& state) override;
  Status give(const State& state) override;
  Status take() override;
  [[nodiscard]] Result<State> collect() override;
  [[nodiscard]] float loss() const override { return loss_; }

 private:
  using Values = std::set<kernels::ValueIndex>;  // of the step

  /// A piece of the body for parts of one local program, or a piece of the tail.
  struct StagePiece {
    Phase phase;
    std::vector<kernels::ValueIndex> received;  // what it reads of other stages
    std::vector<kernels::ValueIndex> sent;      // what it makes for others
    Body body;
  };

  /// A message that is on its way to this rank.
  struct Arriving {
    kernels::ValueIndex value{};
    std::span<std::uint8_t> memory;  // in the value's home
    std::vector<std::byte> packed;   // of a code; else it goes straight to its memory
    exchange::Request request;
  };

  [[nodiscard]] int stage() const { return ranks_.rank() % stages(); }
  [[nodiscard]] int pipeline() const { return ranks_.rank() / stages(); }
  [[nodiscard]] int pipelines() const { return ranks_.ranks() / stages(); }
  [[nodiscard]] int rank_of(int pipeline, int stage) const { return pipeline * stages() + stage; }
  [[nodiscard]] program::PipelineCut cut() const {
    return {cuts_, std::ssize(parts), inputs.watched, pipelines()};
  }
  [[nodiscard]] const program::Stage& own() const {
    return stages_.stages[static_cast<std::size_t>(stage())];
  }
  [[nodiscard]] bool is_free(kernels::ValueIndex v) const {
    return v == kernels::kNoValue ||
           (stages_.of[v] == program::Stages::kFree && !stages_.receives(v, stage()));
  }
  /// The same of a line of the tail, which makes received lines where it needs them.
  [[nodiscard]] bool is_free_of_tail(kernels::ValueIndex v) const {
    return stages_.of[v] == program::Stages::kFree;
  }
  /// True for a line that this stage makes, or an entry that it has.
  [[nodiscard]] bool is_here(kernels::ValueIndex v) const {
    if (is_entry(v)) return std::ranges::count(stages_.holders(v), stage()) > 0;
    return stages_.of[v] == stage() || stages_.receives(v, stage());
  }
  [[nodiscard]] bool is_entry(kernels::ValueIndex v) const;
  [[nodiscard]] bool is_sharded(kernels::ValueIndex v) const;
  /// True for a value that is +0 in this step, so that it is not sent.
  [[nodiscard]] bool is_zero(kernels::ValueIndex v) const;
  /// True for a value of which this rank's column has all slices in the end.
  [[nodiscard]] bool is_shared(kernels::ValueIndex v) const;
  /// True if the whole value is here in the end, and not its pipeline's slices alone.
  [[nodiscard]] bool lies_whole(kernels::ValueIndex v) const;
  [[nodiscard]] std::int64_t bytes_of_home(kernels::ValueIndex v) const;
  /// The bytes in a value's home that have these slices of it, if it is of class S, or all.
  [[nodiscard]] Range range_of(kernels::ValueIndex v, program::SliceRange slices) const;

  Status take_parts();
  [[nodiscard]] std::vector<std::int64_t> carry_bounds() const override;
  [[nodiscard]] program::Piece last_piece(const program::Piece& of_tail) const;
  void find_homes();
  Status plan_pieces();
  Status plan_early();
  Status plan_sums();
  enum class Of : std::uint8_t { kPart, kTail };
  Status plan_piece(StagePiece& piece, Of of);
  [[nodiscard]] Result<program::Piece> local_piece(program::SliceRange slices) const;
  void find_messages(StagePiece& piece) const;

  [[nodiscard]] std::span<std::uint8_t> home(kernels::ValueIndex v);
  [[nodiscard]] std::uint8_t* memory_of_value(kernels::ValueIndex v, const Part& part);
  void connect(StagePiece& piece, const Part* part);
  Status run(StagePiece& piece, const Part* part);
  Status run_cell(const program::Cell& cell);
  void await_all(kernels::ValueIndex v);
  [[nodiscard]] Neighbours neighbours() const;
  void begin_column();
  Status join_column();
  void give_shares();
  void share_sums();
  void begin_receives();
  [[nodiscard]] Arriving begin_receive(int from, kernels::ValueIndex v, Range bytes);
  void end_receive(const Arriving& arriving);
  void await(kernels::ValueIndex v, std::int64_t part);
  void send_moved(kernels::ValueIndex v, Range bytes);
  void send(kernels::ValueIndex v, Range bytes, const std::vector<int>& to);
  void end_sends();
  void give_entry(const Entry& entry, std::vector<exchange::Request>& requests);

  exchange::Exchange& ranks_;
  std::vector<kernels::ValueIndex> cuts_;
  program::Stages stages_;
  program::Piece whole_tail_;  // of all stages, without what entries become
  std::vector<program::Cell> cells_;
  std::vector<std::vector<StagePiece>> pieces_;  // by local program, then by piece of the body
  std::vector<StagePiece> early_;
  std::vector<program::SliceRange> slices_;  // of each pipeline
  Part own_slices_;                          // of this rank's pipeline, as one part
  StagePiece sums_;                          // lines of class C of all these; without lines for one pipeline
  std::vector<Arriving> shares_;             // of other pipelines, that are expected
  std::size_t slots_ = 1;                    // parts in flight
  std::map<kernels::ValueIndex, std::vector<Tensor>> kept_;  // what later pieces read
  std::map<kernels::ValueIndex, std::int64_t> kept_bytes_;   // of the largest part
  Values homes_;                                             // values that lie whole
  std::map<kernels::ValueIndex, Tensor> apart_;              // those that have memory of their own
  std::map<kernels::ValueIndex, int> code_bits_;             // of codes that go packed
  std::map<std::pair<kernels::ValueIndex, std::int64_t>, Arriving> expected_;  // by value and part
  std::vector<exchange::Request> sent_;
  std::vector<std::vector<std::byte>> packed_;  // what these send, until they have ended
  std::int64_t saved_bytes_ = 0;
  float loss_ = 0;
};

}  // namespace dgx::exec
