#include <numeric>

#include "pointwise.h"
#include "windows.h"

namespace dgx::lowering {

using kernels::Coordinate;

namespace {

/// Gives the tensor, seen as `view`, with its dimensions in `order` (result dimension n is the view's
/// order[n]), in the result's shape: one copy.
void give_rearranged(Call& call, const TensorForm& form, const Shape& view,
                     const std::vector<std::size_t>& order) {
  if (!call.ok()) return;
  const TensorForm whole = whole_form(call.builder(), call.provenance(), form, view);
  Shape iteration;
  std::vector<Coordinate> at(view.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    iteration.push_back(view[order[n]]);
    at[order[n]] = output_index(n);
  }
  kernels::Primitive copy;
  copy.dtype = form.dtype;
  copy.shape = call.result_shape();
  if (iteration != copy.shape) copy.iteration = iteration;
  copy.provenance = call.provenance();
  copy.accesses = {window_access(whole, at, iteration, {}, std::int64_t{0})};
  const Shape shape = copy.shape;
  call.give(value_form(call.builder().append(std::move(copy)), form.dtype, shape));
}

/// The number of dimensions before c in a tensor […, c, h, w].
std::optional<std::size_t> planes(Call& call, const TensorForm& form) {
  const bool fits = form.shape.size() >= 3 && form.shape.size() <= 6;
  if (!call.ok() || !call.require(fits, "a tensor of an unsupported rank")) return std::nullopt;
  return form.shape.size() - 3;
}

Shape joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<std::size_t> with_leading(std::size_t leading, std::initializer_list<std::size_t> order) {
  std::vector<std::size_t> result(leading);
  std::iota(result.begin(), result.end(), std::size_t{0});
  for (const std::size_t n : order) result.push_back(leading + n);
  return result;
}

/// Patches of an image [batch, c, h, w]; the columns are [batch, c, kernel h, kernel w, patches down, patches
/// across].
struct Patches {
  Call& call;
  Shape image = {};
  std::vector<Window> windows = {};
  Shape counts = {};

  [[nodiscard]] Shape columns() const {
    return {image[0], image[1], windows[0].size, windows[1].size, counts[0], counts[1]};
  }
};

/// `image` has no batch dimension if the model has none.
std::optional<Patches> patches_of(Call& call, Shape image) {
  const auto sizes = call.integers("kernel_size"), strides = call.integers("stride"),
             paddings = call.integers("padding"), dilations = call.integers("dilation");
  if (!call.ok()) return std::nullopt;
  if (image.size() == 3) image.insert(image.begin(), 1);
  if (!call.require(image.size() == 4, "an image of an unsupported rank")) return std::nullopt;
  Patches patches{call, image};
  for (std::size_t n = 0; n < 2; ++n) {
    const Window window{option(sizes, n, 1), option(strides, n, 1), option(paddings, n, 0),
                        option(dilations, n, 1)};
    const std::int64_t room = image[n + 2] + 2 * window.padding - window.dilation * (window.size - 1) - 1;
    if (!call.require(window.size >= 1 && window.stride >= 1 && window.dilation >= 1 && room >= 0,
                      "a window of no size"))
      return std::nullopt;
    patches.windows.push_back(window);
    patches.counts.push_back(room / window.stride + 1);
  }
  return patches;
}

void pixel_shuffle(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::int64_t r = call.integer("upscale_factor");
  const auto leading = planes(call, form);
  if (!leading || !call.require(r >= 1 && form.shape[*leading] % (r * r) == 0, "channels that do not divide"))
    return;
  const Shape outer(form.shape.begin(), form.shape.begin() + static_cast<std::ptrdiff_t>(*leading));
  const std::int64_t channels = form.shape[*leading], height = form.shape[*leading + 1],
                     width = form.shape[*leading + 2];
  give_rearranged(call, form, joined(outer, {channels / (r * r), r, r, height, width}),
                  with_leading(*leading, {0, 3, 1, 4, 2}));
}

void pixel_unshuffle(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::int64_t r = call.integer("downscale_factor");
  const auto leading = planes(call, form);
  if (!leading ||
      !call.require(r >= 1 && form.shape[*leading + 1] % r == 0 && form.shape[*leading + 2] % r == 0,
                    "sizes that do not divide"))
    return;
  const Shape outer(form.shape.begin(), form.shape.begin() + static_cast<std::ptrdiff_t>(*leading));
  const std::int64_t channels = form.shape[*leading], height = form.shape[*leading + 1],
                     width = form.shape[*leading + 2];
  give_rearranged(call, form, joined(outer, {channels, height / r, r, width / r, r}),
                  with_leading(*leading, {0, 2, 4, 1, 3}));
}

void channel_shuffle(Call& call) {
  const TensorForm form = call.tensor("self");
  const std::int64_t groups = call.integer("groups");
  if (!call.ok() || !call.require(form.shape.size() >= 3 && form.shape.size() <= 7 && groups >= 1 &&
                                      form.shape[1] % groups == 0,
                                  "channels that do not divide"))
    return;
  const Shape spatial(form.shape.begin() + 2, form.shape.end());
  std::vector<std::size_t> order = {0, 2, 1};
  for (std::size_t n = 0; n < spatial.size(); ++n) order.push_back(3 + n);
  give_rearranged(call, form, joined({form.shape[0], groups, form.shape[1] / groups}, spatial), order);
}

/// The patches of an image as columns.
void im2col(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto patches = patches_of(call, form.shape);
  if (!patches || !call.require(form.dtype == DType::kF32, "patches that are not f32")) return;
  kernels::Primitive copy;
  copy.shape = call.result_shape();
  copy.iteration = patches->columns();
  copy.provenance = call.provenance();
  std::vector<Coordinate> at = output_indices(2);
  for (std::size_t n = 0; n < 2; ++n)
    at.push_back(patches->windows[n].position(output_term(4 + n), output_term(2 + n)));
  copy.accesses = {window_access(whole_form(call.builder(), call.provenance(), form, patches->image), at,
                                 *copy.iteration, {}, 0.0F)};
  const Shape shape = copy.shape;
  call.give(value_form(call.builder().append(std::move(copy)), DType::kF32, shape));
}

/// Each position is the sum of its copies in the columns.
void col2im(Call& call) {
  const TensorForm form = call.tensor("self");
  const auto patches = patches_of(call, call.result_shape());
  if (!patches || !call.require(form.dtype == DType::kF32, "patches that are not f32")) return;
  const Shape fold = {patches->windows[0].size, patches->windows[1].size};
  LineWriter line(call.builder(), call.provenance(), kernels::Kind::kSum, patches->image, fold);
  std::vector<Coordinate> at = {output_index(0), output_index(1), fold_index(0), fold_index(1)};
  for (std::size_t n = 0; n < 2; ++n) at.push_back(patches->windows[n].output_of(2 + n, n));
  const TensorForm columns = whole_form(call.builder(), call.provenance(), form, patches->columns());
  call.give(line.finish(DType::kF32,
                        line.read(window_access(columns, at, patches->image, fold, 0.0F), DType::kF32)));
}

/// Pixels and channels in another order, windows as columns.
constexpr LoweringRow kRows[] = {
    {"pixel_shuffle", &pixel_shuffle},
    {"pixel_unshuffle", &pixel_unshuffle},
    {"channel_shuffle native_channel_shuffle", &channel_shuffle},
    {"im2col", &im2col},
    {"col2im", &col2im},
};

}  // namespace

const std::span<const LoweringRow> kPatchRows = kRows;

}  // namespace dgx::lowering
