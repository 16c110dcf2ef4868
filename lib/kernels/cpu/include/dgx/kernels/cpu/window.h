#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "dgx/kernels/cpu/resumed_dot.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cpu {

struct BlockSums;

/// Products with one operand read through sliding windows: convolutions and their gradients. Every element is
/// a dot of dgx-numerics(7), "Folds", over all of its terms: positions outside the operand give the fill,
/// which is multiplied like any other number.
///
/// The operand's planes are copied, image by image, into a grid. Every position at which some output meets
/// some tap has its own place in the grid, and neighbouring outputs have adjacent places, whatever the
/// stride, dilation or exact division. So the operand need not be repeated for each tap (im2col): tiles read
/// the grid through a table of offsets, one per term. Rows of outputs follow each other in the grid with the
/// padding between them, which is computed and dropped: 1/29 of the work at 28 outputs a row.

/// If the channels of a position are adjacent in memory there is a faster form (channels_last.h), which the
/// classes below then use.
class ChannelsLastProduct;
class ChannelsLastProductRunner;
class ChannelsLastGradient;
class ChannelsLastGradientRunner;

/// One dimension along which windows move. Output o and tap t meet at position o · step + t · tap_step +
/// offset, which is index position / divisor of the operand if the division is exact and the index lies in
/// [0, size); otherwise it is outside.
struct WindowAxis {
  std::int64_t outputs = 1;
  std::int64_t step = 1;  ///< at least 1
  std::int64_t taps = 1;
  std::int64_t tap_step = 0;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;  ///< at least 1
  std::int64_t size = 1;
  std::int64_t stride = 0;  ///< floats between neighbouring indices of the operand
};

/// The layout of the positions of a WindowAxis in a grid: positions of one phase (remainder modulo the step)
/// are adjacent.
class GridAxis {
 public:
  explicit GridAxis(const WindowAxis& axis);

  /// The positions of a phase that lie inside, an arithmetic progression: places first, first + place_step, …
  /// take the operand's elements at offsets from, from + from_step, … (in floats).
  struct Run {
    std::int64_t first = 0, place_step = 1, count = 0;
    std::int64_t from = 0, from_step = 0;
  };
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }  ///< one per phase that some tap has
  [[nodiscard]] std::int64_t phases() const { return static_cast<std::int64_t>(runs_.size()); }
  [[nodiscard]] std::int64_t length() const { return length_; }  ///< places per phase
  [[nodiscard]] std::int64_t taps() const { return static_cast<std::int64_t>(phase_of_.size()); }
  [[nodiscard]] std::int64_t phase_of(std::int64_t tap) const {
    return phase_of_[static_cast<std::size_t>(tap)];
  }
  /// The place of a tap for output 0.
  [[nodiscard]] std::int64_t place_of(std::int64_t tap) const {
    return place_of_[static_cast<std::size_t>(tap)];
  }
  /// The smallest distance between rows at which no place is inside for one row and outside for another: rows
  /// overlap in outside places only.
  [[nodiscard]] std::int64_t row_stride() const { return row_stride_; }

 private:
  std::vector<Run> runs_;
  std::vector<std::int64_t> phase_of_, place_of_;  // by tap
  std::int64_t length_ = 0, row_stride_ = 0;
};

/// The grid of one image: [plane][row phase][column phase][row][column].
class WindowGrid {
 public:
  /// `planes`: each plane's offset in an image, in floats.
  WindowGrid(const WindowAxis& rows, const WindowAxis& columns, std::vector<std::int64_t> planes, float fill);

  [[nodiscard]] std::int64_t planes() const { return static_cast<std::int64_t>(planes_.size()); }
  [[nodiscard]] std::int64_t plane_stride() const { return plane_stride_; }
  [[nodiscard]] std::int64_t row_stride() const { return columns_.row_stride(); }
  /// Floats of a grid of `planes` planes, including those that the last panel reads beyond its end.
  [[nodiscard]] std::int64_t size(std::int64_t planes) const { return planes * plane_stride_ + 64; }
  /// Offset in the grid at which the first output meets these taps in plane 0.
  [[nodiscard]] std::int64_t tap(std::int64_t row_tap, std::int64_t column_tap) const;
  /// True if neighbouring column taps are equally far apart in the grid.
  [[nodiscard]] bool has_even_columns() const;
  /// Sets a grid of `planes` planes to the fill. copy() never writes outside places, so one call serves many
  /// images.
  void clear(std::int64_t planes, float* grid) const;
  /// Copies planes [first, end) of the image at `image` into planes 0, 1, … of `grid`.
  void copy(const float* image, std::int64_t first, std::int64_t end, float* grid) const;

 private:
  GridAxis rows_, columns_;
  std::vector<std::int64_t> planes_;
  float fill_;
  std::int64_t phase_stride_ = 0, plane_stride_ = 0;
};

/// The product that a WindowProduct computes: out[row, (oh, ow)] = dot over the terms of weight(row, term) ·
/// operand(plane, tap, tap) at output (oh, ow). One image of a convolution, or of the gradient of its input.
struct WindowProductForm {
  struct Term {
    std::int64_t plane = 0, row_tap = 0, column_tap = 0;
    std::int64_t weight = 0;  ///< the term's offset within a row's weights
  };
  WindowAxis rows, columns;
  std::vector<std::int64_t> planes;  ///< each plane's offset in an image, in floats
  float fill = 0;
  std::vector<Term> terms;                   ///< in the fold's order
  std::vector<std::int64_t> weight_rows;     ///< where each row's weights start
  std::vector<std::int64_t> out_rows;        ///< where each row's outputs start
  std::int64_t out_row = 0, out_column = 1;  ///< floats between neighbouring outputs
};

/// A window product and the grid for its images. Immutable: threads may share it.
class WindowProduct {
 public:
  explicit WindowProduct(WindowProductForm form);
  [[nodiscard]] const WindowProductForm& form() const { return form_; }
  [[nodiscard]] const WindowGrid& grid() const { return grid_; }
  /// Null if the faster form does not apply.
  [[nodiscard]] const ChannelsLastProduct* channels_last() const { return channels_last_.get(); }
  /// The most parts that an image's outputs can be cut into.
  [[nodiscard]] std::int64_t most_parts() const;
  /// Indexed by term: the grid offset of its plane and taps for the first output.
  [[nodiscard]] const std::vector<std::int32_t>& offsets() const { return offsets_; }
  /// Number of columns of an image's outputs laid out like the grid, with rows at its stride, and of the
  /// panels that hold them.
  [[nodiscard]] std::int64_t columns() const;
  [[nodiscard]] std::int64_t panels() const;
  /// Floats of scratch that a runner needs.
  [[nodiscard]] std::int64_t scratch_size() const;

 private:
  WindowProductForm form_;
  WindowGrid grid_;
  std::shared_ptr<const ChannelsLastProduct> channels_last_;
  std::vector<std::int32_t> offsets_;
};

/// Computes a WindowProduct on one thread: image after image, part after part.
class WindowProductRunner {
 public:
  /// `product` must outlive it; `scratch` holds product.scratch_size() floats, best aligned to a cache line.
  WindowProductRunner(const WindowProduct& product, float* scratch);
  ~WindowProductRunner();

  void set_weights(const float* weights);
  /// `image` must outlive the runs on it.
  void set_image(const float* image);
  /// Writes part `part` of the image's outputs, which are cut into `parts` nearly equal parts.
  void run(std::int64_t part, std::int64_t parts, float* out);

 private:
  void run_panels(std::int64_t first, std::int64_t end, float* out);
  void tile(std::int64_t row_panel, std::int64_t panel, int panels, float* to, std::int64_t leading) const;
  void write(std::int64_t first, std::int64_t end, float* out) const;

  const WindowProduct& product_;
  const struct KernelTable& kernels_;
  std::unique_ptr<ChannelsLastProductRunner> channels_last_;
  float *weights_, *image_, *outputs_;
};

/// The product that a WindowGradient computes: out[(plane, tap, tap), column] = dot over (image, oh, ow) of
/// operand(…) · other(image, oh, ow, column). A convolution's weight gradient.
struct WindowGradientForm {
  WindowAxis rows, columns;
  std::vector<std::int64_t> planes;
  float fill = 0;
  std::vector<std::int64_t> images;              ///< where each image of the operand starts
  std::vector<std::int64_t> other_images;        ///< where each image of the other side starts
  std::int64_t other_row = 0, other_column = 0;  ///< floats between neighbouring outputs
  std::int64_t count = 0, other_step = 0;        ///< columns of the product, and floats between them
  std::vector<std::int64_t> out_planes;
  std::int64_t out_row_tap = 0, out_column_tap = 0, out_step = 0;
};

/// Sums of groups of terms that a WindowGradientRunner made: `sets` sets, one after the other.
struct GroupSums {
  const float* sums = nullptr;
  std::int64_t sets = 0;
};

/// A window gradient and the grid for its images. Immutable: threads may share it.
class WindowGradient {
 public:
  explicit WindowGradient(WindowGradientForm form);
  [[nodiscard]] const WindowGradientForm& form() const { return form_; }
  [[nodiscard]] const WindowGrid& grid() const { return grid_; }
  /// Null if the faster form does not apply.
  [[nodiscard]] const ChannelsLastGradient* channels_last() const { return channels_last_.get(); }
  /// Image grids that a runner holds at once: as many images as a block of terms can touch.
  [[nodiscard]] std::int64_t slots() const;
  /// Outputs of an image, and taps.
  [[nodiscard]] std::int64_t outputs() const { return form_.rows.outputs * form_.columns.outputs; }
  [[nodiscard]] std::int64_t taps() const { return form_.rows.taps * form_.columns.taps; }
  /// Floats that a runner of `planes` planes needs, if it keeps `sets` sets of sums: kPlainSets; kDotWords if
  /// it takes shares; one more than the groups that it adds up.
  [[nodiscard]] std::int64_t scratch_size(std::int64_t planes, std::int64_t sets = kPlainSets) const;
  static constexpr std::int64_t kPlainSets = 2;
  /// Groups of terms (dgx-numerics(7), "dot") that runners can sum independently; 0: this form does not allow
  /// it.
  [[nodiscard]] std::int64_t groups() const;
  /// Number of terms in groups [first, end).
  [[nodiscard]] std::int64_t terms_of(std::int64_t first, std::int64_t end) const;

 private:
  WindowGradientForm form_;
  WindowGrid grid_;
  std::shared_ptr<const ChannelsLastGradient> channels_last_;
};

/// Computes planes [first, end) of a WindowGradient, one thread's share. Alternatively all threads take all
/// planes and share the groups of terms (add_groups), so that each reads only its own images; one of them
/// then adds the others' sums (finish).
class WindowGradientRunner {
 public:
  /// `scratch` holds gradient.scratch_size(end - first, sets) floats.
  WindowGradientRunner(const WindowGradient& gradient, std::int64_t first, std::int64_t end, float* scratch);
  ~WindowGradientRunner();
  void run(const float* operand, const float* other, float* out);
  /// Takes a share of the terms of dots that are cut (resumed_dot.h): the gradient's images are those of the
  /// share. `words`: by DotWord, laid out like the outputs; null if there is none, the same if two are of one
  /// place. Needs kDotWords sets. After the last share the total is the output.
  void resume(const DotShare& share, const float* operand, const float* other,
              const std::array<float*, kDotWords>& words);

  /// Sums groups [first, end): for the first thread (first = 0) into one total, for others into one sum per
  /// group, since groups are added in order.
  [[nodiscard]] GroupSums add_groups(std::int64_t first, std::int64_t end, const float* operand,
                                     const float* other);
  /// For the first thread: adds the others' sums and writes the outputs.
  void finish(const std::vector<GroupSums>& rest, float* out);

 private:
  /// Rows of a tile are neighbouring planes or, if there are more of them, neighbouring column taps.
  struct Tile {
    std::int64_t plane = 0, row_tap = 0, column_tap = 0;  ///< those of its first row
    int height = 0;
    std::int64_t panel = 0;
    int panels = 0;
  };
  template <class Visit>
  void for_each_tile(Visit visit) const;
  void start(const float* operand, const float* other);
  void add_block(std::int64_t begin, std::int64_t end, const BlockSums& sums);
  void load(std::int64_t begin, std::int64_t end);
  void pack(std::int64_t begin, std::int64_t end);
  void multiply(std::int64_t begin, std::int64_t end, const BlockSums& sums);
  template <class Visit>
  void for_each_number(float* sums, float* out, Visit visit) const;

  const WindowGradient& gradient_;
  const WindowGradientForm& form_;
  const struct KernelTable& kernels_;
  std::int64_t first_, end_;
  std::int64_t depth_;
  std::int64_t slots_, slot_size_;
  bool along_taps_;
  std::int64_t next_image_ = 0;  ///< images before it have been copied
  std::array<std::int32_t, kDotBlock> offsets_{};
  const float *operand_ = nullptr, *other_ = nullptr;
  std::int64_t set_size_;
  float *packed_, *grids_, *sets_;
  std::unique_ptr<ChannelsLastGradientRunner> channels_last_;
};

}  // namespace dgx::kernels::cpu
