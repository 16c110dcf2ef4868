#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dgx/kernels/cpu/window.h"
#include "dgx/kernels/cpu/window_run.h"

namespace dgx::kernels::cpu {

/// Window products on operands in channels-last layout (the channels of a position are adjacent in memory):
/// the fast form of the products of window.h.
///
/// A panel of outputs is then 16 channels of one position, a tile some neighbouring positions of a line, and
/// a term's numbers at these positions are evenly spaced in the operand itself. Tiles read it in place: there
/// is no grid, no copy, and nothing is computed between lines. Terms outside are left out: with a zero on one
/// side and a finite number on the other, a term can only change the sign of a zero sum, which the addition
/// to its group's +0 removes (dgx-numerics(7), "Folds"). If the other side is not finite, such terms are
/// multiplied like any other. An exact division (the input gradient of a strided convolution) is done phase
/// by phase; a phase is the outputs that meet the same taps.

struct KernelTable;

/// One phase of the columns: outputs first, first + step, … meet tap t at indices taps[t].index,
/// taps[t].index + move, … of the operand.
struct ColumnPhase {
  struct Tap {
    bool meets = false;               ///< the division leaves no remainder
    std::int64_t index = 0;           ///< index that the phase's first output meets; may lie outside
    std::int64_t begin = 0, end = 0;  ///< range of the phase's outputs that it meets inside
  };
  std::int64_t first = 0, step = 1, count = 0, move = 1;
  std::vector<Tap> taps;
};

/// The phases of an axis, in the order of their first outputs.
[[nodiscard]] std::vector<ColumnPhase> column_phases(const WindowAxis& axis);

/// The index at which `output` and `tap` meet, or nullopt if it is outside.
[[nodiscard]] std::optional<std::int64_t> index_inside(const WindowAxis& axis, std::int64_t output,
                                                       std::int64_t tap);

/// A WindowProductForm with channels-last outputs.
class ChannelsLastProduct {
 public:
  /// Null if the form is filled with anything but 0, has fewer than 8 output channels, or does not have its
  /// channels side by side.
  [[nodiscard]] static std::shared_ptr<const ChannelsLastProduct> of(const WindowProductForm& form);

  /// Consecutive terms of one pair of taps and neighbouring planes, within a block.
  struct Segment {
    std::int64_t row_tap = 0, column_tap = 0, plane = 0;
    std::int64_t term = 0, count = 0;
  };
  [[nodiscard]] std::int64_t depth() const { return depth_; }
  [[nodiscard]] std::int64_t lines() const { return rows_.outputs; }
  /// Floats of scratch that a runner needs.
  [[nodiscard]] std::int64_t scratch_size() const;

 private:
  friend class ChannelsLastProductRunner;
  /// Indexed by row tap: the offset from the line's base at which it meets the operand; nullopt if outside.
  struct LineKind {
    std::vector<std::optional<std::int64_t>> row_offsets;
    bool operator==(const LineKind&) const = default;
  };
  struct Line {
    std::int64_t base = 0;  ///< offset in the image at which the first row tap inside meets it
    std::size_t kind = 0;
  };
  ChannelsLastProduct() = default;
  bool cut_segments(const WindowProductForm& form);
  void sort_lines();

  WindowAxis rows_, columns_;
  std::int64_t depth_ = 0, plane_step_ = 1, first_plane_ = 0;
  std::vector<Segment> segments_;
  std::vector<std::size_t> block_begin_;  // first segment of each block, then the end
  std::vector<ColumnPhase> phases_;
  std::vector<Line> lines_;
  std::vector<LineKind> kinds_;
  std::vector<std::int64_t> weights_, weight_rows_;  // offsets per term and per output channel
  std::int64_t out_row_ = 0, out_column_ = 0;
};

/// Computes a ChannelsLastProduct on one thread. The runs of all tiles are found once for given weights:
/// lines of one kind share them.
class ChannelsLastProductRunner {
 public:
  /// `scratch` holds product.scratch_size() floats, aligned to a cache line.
  ChannelsLastProductRunner(const ChannelsLastProduct& product, float* scratch);

  void set_weights(const float* weights);
  /// `image` must outlive the runs on it.
  void set_image(const float* image) { image_ = image; }
  /// Computes lines [first, end) of the image's outputs.
  void run(std::int64_t first, std::int64_t end, float* out) const;

 private:
  struct RowPanel {
    const ColumnPhase* phase = nullptr;
    std::int64_t first = 0;  ///< the first of its outputs, counted within the phase
    int height = 0;
  };
  struct TileRuns {
    std::size_t begin = 0, end = 0;
  };
  void find_runs(const ChannelsLastProduct::LineKind& kind, const RowPanel& row_panel, std::size_t block);
  [[nodiscard]] WindowRun::Rows rows_of(const WindowRun& run, int height) const;
  bool joins(WindowRun& last, const WindowRun& run) const;
  void fetch_ahead(std::int64_t line, float* out) const;
  void tile(std::int64_t line, std::size_t number, std::int64_t panel, int panels, float* out) const;

  const ChannelsLastProduct& product_;
  const KernelTable& kernels_;
  float* weights_;
  const float* image_ = nullptr;
  bool all_terms_ = false;  // a weight is not finite: no term may be left out
  std::vector<RowPanel> row_panels_;
  std::vector<WindowRun> runs_;
  std::vector<TileRuns> tile_runs_;  // indexed by line kind, row panel and block
};

/// A WindowGradientForm with both sides channels last.
class ChannelsLastGradient {
 public:
  /// Null if the form is filled with anything but 0, divides columns, or has other columns than whole panels
  /// side by side; or if its planes are not evenly spaced.
  [[nodiscard]] static std::shared_ptr<const ChannelsLastGradient> of(const WindowGradientForm& form);
  /// Number of terms of an element.
  [[nodiscard]] std::int64_t depth() const;
  /// Floats of scratch for a runner of `planes` planes that keeps `sets` sets of sums.
  [[nodiscard]] std::int64_t scratch_size(std::int64_t planes, std::int64_t sets) const;

 private:
  friend class ChannelsLastGradientRunner;
  enum class Tiles : std::uint8_t {
    kOfPlanes,       ///< one tap; rows are planes, panels the other side's columns
    kTapsAreRows,    ///< rows are one plane at three taps, panels the other side's columns
    kTapsArePanels,  ///< rows are the other side's columns, panels one panel of planes at three taps
  };
  [[nodiscard]] Tiles tiles_of(std::int64_t first, std::int64_t end, int tap_rows) const;
  [[nodiscard]] std::int64_t set_size(std::int64_t planes) const;
  explicit ChannelsLastGradient(const WindowGradientForm& form) : form_(form) {}

  WindowGradientForm form_;
  ColumnPhase columns_;
  std::vector<std::optional<std::int64_t>>
      row_offsets_;  // indexed by output row and row tap: offset in the image; nullopt: outside
  std::int64_t plane_step_ = 1;
};

/// Computes planes [first, end) of a ChannelsLastGradient on one thread.
class ChannelsLastGradientRunner {
 public:
  ChannelsLastGradientRunner(const ChannelsLastGradient& gradient, std::int64_t first, std::int64_t end,
                             float* scratch);
  void run(const float* operand, const float* other, float* out);
  /// WindowGradientRunner::resume().
  void resume(const DotShare& share, const float* operand, const float* other,
              const std::array<float*, kDotWords>& words);
  /// Sums groups [first, end) of terms: into one total or, if `each`, into one sum per group.
  void add_groups(std::int64_t first, std::int64_t end, bool each, const float* operand, const float* other);
  /// The sums made by add_groups(), one set after the other.
  [[nodiscard]] const float* sums() const { return sums_; }
  /// Adds `rest`, the sums of the groups that follow, and writes the outputs.
  void finish(const std::vector<GroupSums>& rest, float* out);

 private:
  /// Consecutive terms along one line of outputs.
  struct Piece {
    std::int64_t image = 0, row = 0, begin = 0, end = 0;
  };
  void add_block(std::int64_t begin, std::int64_t end, const BlockSums& sums);
  void cut_pieces(std::int64_t begin, std::int64_t end);
  [[nodiscard]] bool is_finite(const float* other) const;
  void find_runs(std::int64_t row_tap, std::int64_t column_tap, bool all_terms);
  void find_tap_runs(std::int64_t row_tap, bool all_terms);
  void add_run(std::int64_t a, std::int64_t b, std::int64_t count);
  void multiply(std::int64_t tap, const BlockSums& sums);
  void multiply_taps(std::int64_t row_tap, const BlockSums& sums);
  template <class Visit>
  void for_each_number(float* sums, float* out, Visit visit) const;
  template <class Visit>
  void for_each_tap_number(float* sums, float* out, Visit visit) const;
  template <class Visit>
  void for_each_tile(Visit visit) const;
  template <class Visit>
  void for_each_tap_tile(Visit visit) const;

  const ChannelsLastGradient& gradient_;
  const WindowGradientForm& form_;
  const KernelTable& kernels_;
  std::int64_t first_, end_, depth_;
  ChannelsLastGradient::Tiles tiles_;
  const float *operand_ = nullptr, *other_ = nullptr;
  float *groups_, *sums_;
  std::vector<Piece> pieces_;
  std::vector<WindowRun> runs_;
};

}  // namespace dgx::kernels::cpu
