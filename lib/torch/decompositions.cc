#include "decompositions.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "recorder.h"

namespace dgx::torch_bridge {
namespace {

using torch::jit::Stack;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A tensor of numbers that are the same in every step.
at::Tensor literal(const std::vector<float>& numbers, at::IntArrayRef shape) {
  at::Tensor plain;
  {
    const c10::impl::ExcludeDispatchKeyGuard exclude(
        c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Fake}));
    plain = at::tensor(numbers).view(shape);
  }
  return at::functionalization::impl::to_functional_tensor(plain);
}

bool logcumsumexp(Stack& stack) {
  const std::int64_t dimension = torch::jit::pop(stack).toInt();
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  const at::Tensor last = x.dim() > 0 ? x.movedim(dimension, -1) : x.unsqueeze(0);
  const at::Tensor position = at::arange(last.size(-1));
  const at::Tensor is_later = position.unsqueeze(0) > position.unsqueeze(1);
  // Sums all terms up to each position: the running form would need a maximum of its own at each.
  const at::Tensor sums = last.unsqueeze(-2).masked_fill(is_later, -kInfinity).logsumexp(-1);
  torch::jit::push(stack, x.dim() > 0 ? sums.movedim(-1, dimension) : sums.squeeze(0));
  return true;
}

bool cdist(Stack& stack) {
  const double p = torch::jit::peek(stack, 2, 4).toDouble();
  if (p != 0 && p != 1 && p != 2 && p != kInfinity) return false;
  const at::Tensor a = torch::jit::peek(stack, 0, 4).toTensor(), b = torch::jit::peek(stack, 1, 4).toTensor();
  torch::jit::drop(stack, 4);
  torch::jit::push(stack, at::linalg_vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, at::IntArrayRef{-1}));
  return true;
}

/// The number of boundaries below each x (with `right`: not above it).
at::Tensor bucket_of(const at::Tensor& x, const at::Tensor& boundaries, bool right) {
  const at::Tensor each = x.unsqueeze(-1);
  return (right ? boundaries.le(each) : boundaries.lt(each)).sum(-1);
}

bool bucketize(Stack& stack) {
  const at::Tensor x = torch::jit::peek(stack, 0, 4).toTensor(),
                   boundaries = torch::jit::peek(stack, 1, 4).toTensor();
  const bool narrow = torch::jit::peek(stack, 2, 4).toBool(), right = torch::jit::peek(stack, 3, 4).toBool();
  if (narrow || boundaries.dim() != 1) return false;
  torch::jit::drop(stack, 4);
  torch::jit::push(stack, bucket_of(x, boundaries, right));
  return true;
}

bool searchsorted(Stack& stack) {
  const auto argument = [&](std::size_t n) -> const c10::IValue& { return torch::jit::peek(stack, n, 6); };
  const at::Tensor boundaries = argument(0).toTensor(), x = argument(1).toTensor();
  if (argument(2).toBool() || !argument(5).isNone() || boundaries.dim() < 1) return false;
  const bool right = argument(4).isNone() ? argument(3).toBool() : argument(4).toStringRef() == "right";
  torch::jit::drop(stack, 6);
  torch::jit::push(stack, bucket_of(x, boundaries.dim() == 1 ? boundaries : boundaries.unsqueeze(-2), right));
  return true;
}

/// The order that sorts n random numbers; equal ones keep theirs.
bool randperm(Stack& stack) {
  const std::int64_t n = torch::jit::peek(stack, 0, 5).toInt();
  const c10::IValue dtype = torch::jit::peek(stack, 1, 5);
  if (n < 1 || !(dtype.isNone() || dtype.toScalarType() == at::kLong)) return false;
  torch::jit::drop(stack, 5);
  torch::jit::push(stack, at::rand({n}).argsort(/*stable=*/true, /*dim=*/0));
  return true;
}

bool cross(Stack& stack) {
  const c10::IValue dimension = torch::jit::peek(stack, 2, 3);
  if (!dimension.isInt()) return false;  // without one torch.cross looks for a dimension of size 3
  const std::int64_t d = dimension.toInt();
  const at::Tensor a = torch::jit::peek(stack, 0, 3).toTensor(), b = torch::jit::peek(stack, 1, 3).toTensor();
  if (a.size(d) != 3 || b.size(d) != 3) return false;
  torch::jit::drop(stack, 3);
  torch::jit::push(stack, a.roll(-1, d) * b.roll(-2, d) - a.roll(-2, d) * b.roll(-1, d));
  return true;
}

/// The number of indices per bag, if offsets are the same in every step and all bags are equally long; else
/// nullopt.
std::optional<std::int64_t> bag_length(const at::Tensor& indices, const at::Tensor& offsets, bool has_last) {
  if (indices.dim() != 1 || offsets.dim() != 1) return std::nullopt;
  const at::Tensor plain = unwrapped(offsets);
  const Recorder* const recorder = Recorder::active();
  if (!recorder || recorder->varies(plain) || plain.scalar_type() != at::kLong) return std::nullopt;
  const std::int64_t bags = plain.size(0) - (has_last ? 1 : 0), count = indices.size(0);
  if (bags < 1 || count % bags != 0 || count == 0) return std::nullopt;
  const at::Tensor rows = plain.contiguous();
  const std::int64_t* const at = rows.const_data_ptr<std::int64_t>();
  for (std::int64_t bag = 0; bag < plain.size(0); ++bag) {
    if (at[bag] != bag * (count / bags)) return std::nullopt;
  }
  return count / bags;
}

/// The operator's other three results serve only its own backward, which is not used.
bool embedding_bag(Stack& stack) {
  enum Mode { kSum, kMean, kMax };
  const auto argument = [&](std::size_t n) -> const c10::IValue& { return torch::jit::peek(stack, n, 9); };
  const at::Tensor weight = argument(0).toTensor(), indices = argument(1).toTensor(),
                   offsets = argument(2).toTensor();
  const std::int64_t mode = argument(4).toInt();
  const bool is_padded = !argument(8).isNone();
  const auto length = bag_length(indices, offsets, argument(7).toBool());
  if (!length || argument(3).toBool() || (is_padded && mode == kMax)) return false;
  const at::Tensor bags = indices.view({-1, *length});
  at::Tensor rows = at::embedding(weight, bags);
  if (!argument(6).isNone()) rows = rows * argument(6).toTensor().view({-1, *length, 1});
  at::Tensor result;
  if (is_padded) {
    const std::int64_t padding = at::maybe_wrap_dim(argument(8).toInt(), weight.size(0));
    const at::Tensor counts = bags.ne(padding).to(at::kFloat).unsqueeze(-1);
    result = (rows * counts).sum(1);
    if (mode == kMean) result = result / counts.sum(1).clamp_min(1);
  } else {
    result = mode == kSum ? rows.sum(1) : mode == kMean ? rows.mean(1) : std::get<0>(rows.max(1));
  }
  torch::jit::drop(stack, 9);
  torch::jit::push(stack, result, offsets, offsets, offsets);
  return true;
}

/// Positions of n samples from -1 to 1: at the corners or in the middle of n cells.
at::Tensor positions(std::int64_t n, bool align_corners) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<double>(2 * i + 1 - n), count = static_cast<double>(n);
    const double corner = n > 1 ? place / (count - 1) : 0;
    numbers.push_back(static_cast<float>(align_corners ? corner : place / count));
  }
  return literal(numbers, {n});
}

bool affine_grid(Stack& stack) {
  const at::Tensor theta = torch::jit::peek(stack, 0, 3).toTensor();
  const auto size = torch::jit::peek(stack, 1, 3).toIntVector();
  const bool align_corners = torch::jit::peek(stack, 2, 3).toBool();
  if (size.size() != 4 || theta.dim() != 3) return false;
  const std::int64_t height = size[2], width = size[3];
  const at::Tensor x = positions(width, align_corners).view({1, width}).expand({height, width});
  const at::Tensor y = positions(height, align_corners).view({height, 1}).expand({height, width});
  const at::Tensor base = at::stack({x, y, at::ones({height, width})}, -1).view({1, height * width, 3});
  const at::Tensor grid = base.expand({theta.size(0), height * width, 3}).bmm(theta.transpose(1, 2));
  torch::jit::drop(stack, 3);
  torch::jit::push(stack, grid.view({theta.size(0), height, width, 2}));
  return true;
}

enum class Outside { kZeros, kBorder };

/// One coordinate of a sampling grid in pixels.
at::Tensor in_pixels(const at::Tensor& coordinate, std::int64_t size, Outside outside, bool align_corners) {
  const auto n = static_cast<double>(size);
  const at::Tensor pixels = align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  if (outside == Outside::kZeros) return pixels;
  const at::Tensor is_inside =
      pixels.gt(0).logical_and(pixels.lt(n - 1));  // libtorch: no gradient on the border
  return at::where(is_inside, pixels, pixels.detach().clamp(0, n - 1));
}

/// The image at whole pixels, [n, channels, places]; 0 outside.
at::Tensor pixels_at(const at::Tensor& image, const at::Tensor& x, const at::Tensor& y) {
  const std::int64_t height = image.size(2), width = image.size(3);
  const at::Tensor is_inside =
      x.ge(0).logical_and(x.lt(width)).logical_and(y.ge(0)).logical_and(y.lt(height)).to(at::kFloat);
  const at::Tensor place = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)).to(at::kLong).flatten(1);
  const at::Tensor index = place.unsqueeze(1).expand({-1, image.size(1), -1});
  return image.flatten(2).gather(2, index) * is_inside.flatten(1).unsqueeze(1);
}

bool grid_sampler(Stack& stack) {
  enum Mode { kBilinear, kNearest };
  const at::Tensor image = torch::jit::peek(stack, 0, 5).toTensor(),
                   grid = torch::jit::peek(stack, 1, 5).toTensor();
  const std::int64_t mode = torch::jit::peek(stack, 2, 5).toInt(),
                     padding = torch::jit::peek(stack, 3, 5).toInt();
  const bool align_corners = torch::jit::peek(stack, 4, 5).toBool();
  if (image.dim() != 4 || mode > kNearest || padding > 1) return false;
  const Outside outside = padding == 0 ? Outside::kZeros : Outside::kBorder;
  const at::Tensor x = in_pixels(grid.select(3, 0), image.size(3), outside, align_corners);
  const at::Tensor y = in_pixels(grid.select(3, 1), image.size(2), outside, align_corners);
  at::Tensor result;
  if (mode == kNearest) {
    result = pixels_at(image, x.detach().round(), y.detach().round());
  } else {
    const at::Tensor left = x.detach().floor(), top = y.detach().floor();
    for (const int down : {0, 1}) {
      const at::Tensor weight_y = down ? y - top : top + 1 - y;
      for (const int right : {0, 1}) {
        const at::Tensor weight = (right ? x - left : left + 1 - x) * weight_y;
        const at::Tensor term = pixels_at(image, left + right, top + down) * weight.flatten(1).unsqueeze(1);
        result = result.defined() ? result + term : term;
      }
    }
  }
  torch::jit::drop(stack, 5);
  torch::jit::push(stack, result.view({image.size(0), image.size(1), grid.size(1), grid.size(2)}));
  return true;
}

/// The four weights of Keys' cubic convolution with a = -0.75, for a point `t` right of the second sample.
std::array<double, 4> cubic_weights(double t) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// The matrix [to, from] by which resizing multiplies one dimension.
at::Tensor cubic_matrix(std::int64_t from, std::int64_t to, bool align_corners,
                        std::optional<double> factor) {
  std::vector<float> matrix(static_cast<std::size_t>(from * to), 0.0F);
  const double corner_scale = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  const double scale =
      factor && *factor > 0 ? 1 / *factor : static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const auto place = static_cast<double>(i);
    const double at = align_corners ? corner_scale * place : scale * (place + 0.5) - 0.5;
    const auto second = static_cast<std::int64_t>(std::floor(at));
    const auto weights = cubic_weights(at - std::floor(at));
    for (std::int64_t tap = 0; tap < 4; ++tap) {
      const std::int64_t source = std::clamp<std::int64_t>(second - 1 + tap, 0, from - 1);
      matrix[static_cast<std::size_t>(i * from + source)] +=
          static_cast<float>(weights[static_cast<std::size_t>(tap)]);
    }
  }
  return literal(matrix, {to, from});
}

at::Tensor resized(const at::Tensor& x, std::int64_t height, std::int64_t width, bool align_corners,
                   std::optional<double> factor_y, std::optional<double> factor_x) {
  const at::Tensor wide = x.matmul(cubic_matrix(x.size(3), width, align_corners, factor_x).t());
  return cubic_matrix(x.size(2), height, align_corners, factor_y).matmul(wide);
}

bool bicubic(Stack& stack) {
  const auto argument = [&](std::size_t n) -> const c10::IValue& { return torch::jit::peek(stack, n, 5); };
  const auto size = argument(1).toIntVector();
  const at::Tensor result = resized(argument(0).toTensor(), size.at(0), size.at(1), argument(2).toBool(),
                                    argument(3).toOptional<double>(), argument(4).toOptional<double>());
  torch::jit::drop(stack, 5);
  torch::jit::push(stack, result);
  return true;
}

bool bicubic_by_lists(Stack& stack) {
  const auto argument = [&](std::size_t n) -> const c10::IValue& { return torch::jit::peek(stack, n, 4); };
  const at::Tensor x = argument(0).toTensor();
  std::optional<double> factor_y, factor_x;
  std::vector<std::int64_t> size;
  if (!argument(3).isNone()) {
    const auto factors = argument(3).toDoubleVector();
    factor_y = factors.at(0), factor_x = factors.at(1);
    size = {static_cast<std::int64_t>(static_cast<double>(x.size(2)) * factors[0]),
            static_cast<std::int64_t>(static_cast<double>(x.size(3)) * factors[1])};
  }
  if (!argument(1).isNone()) size = argument(1).toIntVector();
  const at::Tensor result = resized(x, size.at(0), size.at(1), argument(2).toBool(), factor_y, factor_x);
  torch::jit::drop(stack, 4);
  torch::jit::push(stack, result);
  return true;
}

/// libtorch's one_hot reads the tensor's numbers, so it is refused by name where it has to count the classes.
bool one_hot(Stack& stack) {
  const std::int64_t classes = torch::jit::peek(stack, 1, 2).toInt();
  const at::Tensor self = torch::jit::peek(stack, 0, 2).toTensor();
  if (classes < 1) return false;
  torch::jit::drop(stack, 2);
  const at::Tensor numbers = at::arange(classes, at::TensorOptions(at::kLong));
  torch::jit::push(stack, at::eq(self.unsqueeze(-1), numbers).to(at::kLong));
  return true;
}

constexpr Decomposition kDecompositions[] = {{"aten::logcumsumexp", "", &logcumsumexp},
                                             {"aten::cdist", "", &cdist},
                                             {"aten::bucketize", "Tensor", &bucketize},
                                             {"aten::searchsorted", "Tensor", &searchsorted},
                                             {"aten::randperm", "", &randperm},
                                             {"aten::cross", "", &cross},
                                             {"aten::linalg_cross", "", &cross},
                                             {"aten::embedding_bag", "padding_idx", &embedding_bag},
                                             {"aten::affine_grid_generator", "", &affine_grid},
                                             {"aten::grid_sampler", "", &grid_sampler},
                                             {"aten::upsample_bicubic2d", "", &bicubic},
                                             {"aten::upsample_bicubic2d", "vec", &bicubic_by_lists},
                                             {"aten::one_hot", "", &one_hot}};

}  // namespace

std::span<const Decomposition> decompositions() { return kDecompositions; }

}  // namespace dgx::torch_bridge
