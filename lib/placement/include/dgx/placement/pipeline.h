#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/exchange/delayed.h"
#include "dgx/placement/forecast.h"
#include "dgx/placement/machines.h"
#include "dgx/placement/plan.h"
#include "dgx/placement/step_work.h"
#include "dgx/program/classes.h"
#include "dgx/program/stages.h"

namespace dgx::placement {

/// A step of a pipeline as the work and the messages of its stages (dgx-placement(7), "Pipelines"). Work is
/// counted in scalar operations, as in an estimate.
struct PipelineWork {
  /// A value that goes from one stage to another.
  struct Move {
    enum class When : std::uint8_t {
      kAtOnce,     ///< when the step begins
      kEachPart,   ///< each part's slices
      kFirstPart,  ///< with part 0
      kLastPart,   ///< behind the last part
      kTail,       ///< when the tail's piece is made
    };
    int from = 0, to = 0;
    std::int64_t bytes = 0;  ///< of the whole value
    When when = When::kTail;
  };
  /// Lines that a stage makes without waiting in between.
  struct Piece {
    double of_slices = 0;                     ///< operations for all slices: a part does its share
    double whole = 0;                         ///< operations that every part does
    std::vector<std::size_t> received, sent;  ///< indices in `moves`
  };
  struct Stage {
    std::vector<Piece> pieces;  ///< of the body
    std::vector<Piece> early;   ///< of the tail, for which other stages wait
    Piece last;                 ///< the rest of the tail
    // Work of the stage's column, its ranks in all pipelines, between body and tail; empty with one pipeline.
    std::vector<std::int64_t> shared = {};  ///< bytes of whole values, as they cross: each gives its slices
    std::vector<Stretch> sums = {};         ///< lines of class C, made by one rank after another
    std::vector<std::size_t> shared_received = {};         ///< moves that `shared` waits for
    std::vector<std::size_t> sums_received = {};           ///< moves that `sums` waits for
    std::vector<std::vector<std::size_t>> sums_sent = {};  ///< by sum: moves that take it to other stages
  };
  std::int64_t slices = 1, parts = 1, pipelines = 1;
  std::vector<Move> moves;
  std::vector<Stage> stages;
  std::vector<std::vector<program::Cell>> cells;  ///< by stage
};

/// The work of a step program in the stages of a cut.
[[nodiscard]] Result<PipelineWork> work_of_stages(const program::Program& program,
                                                  const program::Classes& classes,
                                                  const program::Stages& stages,
                                                  const program::PipelineCut& cut);

/// Plays one step through, by the lists of cells that the stages run: rank n makes operations_per_second[n],
/// and pipeline d has slices bounds[d] … bounds[d+1]−1; without bounds there is one. Networks carry messages
/// as exchange::make_delayed() says. kInternal if stages wait for each other for ever. Cost: that of cells
/// and messages.
[[nodiscard]] Result<Forecast> forecast(const PipelineWork& work,
                                        std::span<const std::int64_t> operations_per_second,
                                        const exchange::Network& network,
                                        std::span<const std::int64_t> bounds = {});

struct PipelineOptions {
  std::size_t stages = 2;
  std::optional<std::int64_t> parts = {};  ///< else the fastest of 1, and 1, 2 and 4 for each stage
  std::uint64_t seed = 0;                  ///< of the search
  std::size_t pipelines = 1;               ///< side by side
};

/// Plans pipelines: cuts, parts, and which machine has which stage, all judged by a play of the step. The
/// fastest machines are taken. Each pipeline has slices in proportion to its slowest machine, at least one
/// for each part. Where cuts, orders and numbers of parts are few together, all are tried. Else cuts are
/// first those that even the stages' time out, counting what crosses them, of up to 255 places; then up to
/// eight machines are tried in every order, more by a seeded search from the order of their regions; then
/// each cut is moved while that is faster. kUsage, naming the machines or numbers: more ranks than machines
/// or kMaxRanks, more stages than forward lines or kMaxStages, machines that are not connected, and the
/// errors of program::stages_of(). `work` is that of the whole step, for machines alone.
[[nodiscard]] Result<Choice> choose_pipeline(const Machines& machines, const program::Program& program,
                                             const program::Classes& classes, const StepWork& work,
                                             const PipelineOptions& options);

}  // namespace dgx::placement
