#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/program/classes.h"
#include "dgx/program/pieces.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// Most stages of a pipeline, and most parts of a batch that goes through one.
inline constexpr std::size_t kMaxStages = 256;
inline constexpr std::int64_t kMaxPipelineParts = 4096;

/// Pipelines: the cuts of a step and of its batch (dgx-placement(7), "Pipelines").
struct PipelineCut {
  std::vector<kernels::ValueIndex> cuts;  ///< forward lines, ascending: the first of each stage but stage 0
  std::int64_t parts = 1;                 ///< of each pipeline's slices, which go through one after another
  std::vector<kernels::ValueIndex> wanted = {};  ///< what stage 0 gets at the end, besides the loss
  std::int64_t pipelines = 1;                    ///< side by side, each for some of the slices

  /// True if the batch is cut, into parts or pipelines, so that a head must make what the body gathers.
  [[nodiscard]] bool has_head() const { return parts > 1 || pipelines > 1; }
};

/// A value that stage `from` makes, or an entry that it has, and that stage `to` reads or has as an entry's
/// next.
struct Move {
  kernels::ValueIndex value{};
  int from = 0, to = 0;
  auto operator<=>(const Move&) const = default;
};

/// The lines of a stage, each list ascending.
struct Stage {
  /// Lines of the body that are not free, by the stages that they wait for: piece n may read what pieces of
  /// other stages have made of the same part.
  std::vector<std::vector<kernels::ValueIndex>> pieces;
  /// Lines of the tail that other stages wait for, likewise, and all others.
  std::vector<std::vector<kernels::ValueIndex>> early;
  std::vector<kernels::ValueIndex> last;
  /// With several pipelines, what the stage's ranks, its column, do between body and tail: they give each
  /// other their slices of these values of class S, and make these lines of class C in turn, which are in no
  /// piece.
  std::vector<kernels::ValueIndex> shared;
  std::vector<kernels::ValueIndex> sums;
};

/// A piece of a stage's body that reads what a piece of another stage makes.
struct Wait {
  int stage = 0, piece = 0, of = 0, of_piece = 0;
  auto operator<=>(const Wait&) const = default;
};

/// A line that several stages make, each for itself: the activation or the gradient behind a model's --cut
/// (dgx-lowerings(7), "AQ-SGD"; no cut of the pipeline), of which few bits are moved.
struct Received {
  kernels::ValueIndex line{};
  std::vector<int> makers;  ///< stages that make it in their body, ascending
  /// The entry that keeps what was received before, of an activation alone, and the stages that have it,
  /// which make the line in their tail, ascending.
  std::optional<kernels::ValueIndex> entry;
  std::vector<int> holders;
};

/// The stages of a step program.
struct Stages {
  static constexpr int kFree = -1;  ///< made wherever it is read, or as a Received says

  kernels::ByValue<int> of;     ///< of each line: its stage, or that of an entry; kFree
  kernels::ByValue<int> piece;  ///< of a line that is not free: its place in `pieces`, or `early` and `last`;
                                ///< of one of `sums` the number of pieces
  std::vector<Stage> stages;
  std::vector<Move> moves;  ///< by value, then by receiver
  std::vector<Wait> waits;
  std::vector<Received> received;

  /// True if the stage makes the line of a Received in its body.
  [[nodiscard]] bool receives(kernels::ValueIndex line, int stage) const;
  /// The stages that have an entry, of which the first gives it to others.
  [[nodiscard]] std::vector<int> holders(kernels::ValueIndex entry) const;
};

/// The lines at which a step can be cut: those of the body that the next of `loss` depends on, but for free
/// ones (dgx-placement(7), "Pipelines"); ascending.
[[nodiscard]] std::vector<kernels::ValueIndex> forward_lines(const Program& program, const Classes& classes);

/// The values that a line of the program reads as a part of a pipeline has them, each once: without those
/// that the body gathers, if a head makes them.
[[nodiscard]] std::vector<kernels::ValueIndex> reads_of(const Program& program, const Classes& classes,
                                                        kernels::ValueIndex line, bool has_head);

/// The step from which on a line is +0 everywhere, if its text is a select of `step` below a number and 0:
/// whoever waits for it then knows it. nullopt: it is not known to be.
[[nodiscard]] std::optional<std::int64_t> zero_from(const Program& program, kernels::ValueIndex line);

/// The bits of a number of a code that has fewer than 8 (dgx-placement(7), "CODINGS"): a map of u8 of class S
/// whose steps clip what they give to 0 ... 2^bits - 1, whatever they read. nullopt for any other line.
[[nodiscard]] std::optional<int> code_bits(const Program& program, const Classes& classes,
                                           kernels::ValueIndex line);

/// The bytes of a whole value that another stage reads, as they cross a network behind a step's first few.
[[nodiscard]] std::int64_t crossing_bytes(const Program& program, const Classes& classes,
                                          kernels::ValueIndex line);

/// By line, what must cross for it to be made at a stage that has nothing: reads_of() of several parts,
/// ascending, with what a received line is made of in its place. Cost: the accesses, times the received
/// lines.
[[nodiscard]] kernels::ByValue<std::vector<kernels::ValueIndex>> crossing_reads(const Program& program,
                                                                                const Classes& classes);

/// Gives every line its stage. kUsage, naming the line: a cut is no forward line, or not above the one
/// before; several parts or pipelines, and the body gathers what depends on the state; or more stages than
/// kMaxStages, or parts of all pipelines than slices, or of one than kMaxPipelineParts. Cost: stages times
/// the accesses.
[[nodiscard]] Result<Stages> stages_of(const Program& program, const Classes& classes,
                                       const PipelineCut& cut);

/// The tail of a step that is cut into stages: tail_program(), whose errors it has, with received lines that
/// entries keep made again, and with them what is free of the body, so that what it reads of these are codes.
[[nodiscard]] Result<Piece> tail_of_stages(const Program& program, const Classes& classes,
                                           const Stages& stages);

/// A piece of a stage's body, for one part of the batch.
struct Cell {
  std::size_t piece = 0;
  std::int64_t part = 0;
  bool operator==(const Cell&) const = default;
};

/// The cells of each stage in their order, all before its tail. Whoever runs a step and whoever forecasts one
/// follow the same lists. No order of messages can make them wait for ever.
[[nodiscard]] std::vector<std::vector<Cell>> cells_of(const Stages& stages, std::int64_t parts);

/// The most parts that a stage has begun and not ended at a time.
[[nodiscard]] std::int64_t parts_in_flight(const Stage& stage, std::span<const Cell> cells);

}  // namespace dgx::program
