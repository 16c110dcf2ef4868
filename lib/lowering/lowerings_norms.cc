#include "pointwise.h"

namespace dgx::lowering {

using kernels::Kind;

namespace {

using Dimensions = std::vector<std::size_t>;

/// Lines over tensors of one shape, some of whose dimensions are summed away.
class Rows {
 public:
  Rows(Call& call, Shape shape, Dimensions summed)
      : call_(call), shape_(std::move(shape)), summed_(std::move(summed)), sums_(shape_) {
    for (const std::size_t n : summed_) sums_[n] = 1;
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// The number of elements in each sum.
  [[nodiscard]] std::int64_t count() const {
    std::int64_t count = 1;
    for (const std::size_t n : summed_) count *= shape_[n];
    return count;
  }

  /// A map of all elements: `formula(line)` reads forms that broadcast to them.
  template <class Formula>
  [[nodiscard]] TensorForm map(Formula formula) const {
    return line_of(shape_, formula);
  }
  /// A map over the sums' shape, in which summed dimensions are 1.
  template <class Formula>
  [[nodiscard]] TensorForm of_sums(Formula formula) const {
    return line_of(sums_, formula);
  }

  /// The sum of `term(at)` over the summed dimensions, kept as 1; `at(form)` reads a form that broadcasts to
  /// the rows. Trailing dimensions are a sum, others a dot with 1.
  template <class Term>
  [[nodiscard]] TensorForm sum(Term term) const {
    Dimensions outer = summed_, trailing;
    for (std::size_t n = shape_.size(); n-- > 0 && !outer.empty();) {
      if (outer.back() == n) {
        trailing.insert(trailing.begin(), n);
        outer.pop_back();
      } else if (shape_[n] != 1) {
        break;
      }
    }
    const Reduction over = reduction_over(shape_, trailing);
    if (over.fold.empty()) {
      const TensorForm terms = map(
          [&](LineWriter& line) { return term([&](const TensorForm& form) { return line.read(form); }); });
      return sum_over(call_.builder(), call_.provenance(), terms, summed_);
    }
    LineWriter line(call_.builder(), call_.provenance(), Kind::kSum, over.shape, over.fold);
    const Expression item = term([&](const TensorForm& form) {
      return line.read(broadcast_to(without_splat(call_.builder(), form), shape_), over.indices);
    });
    return sum_over(call_.builder(), call_.provenance(), over.restored(line.finish(DType::kF32, item)),
                    outer);
  }

 private:
  template <class Formula>
  [[nodiscard]] TensorForm line_of(const Shape& shape, Formula formula) const {
    LineWriter line(call_.builder(), call_.provenance(), shape);
    const Expression result = formula(line);
    return line.finish(DType::kF32, result);
  }

  Call& call_;
  Shape shape_;
  Dimensions summed_;
  Shape sums_;
};

/// The moments of each row: `squares` is the sum of squared deviations from the mean, `scale` 1 /
/// sqrt(variance + eps).
struct Moments {
  TensorForm mean, squares, variance, scale;
};

/// Computed in two passes: the mean, then the deviations from it.
Moments moments_of(const Rows& rows, const TensorForm& x, float eps) {
  const auto count = static_cast<float>(rows.count());
  Moments m;
  const TensorForm total = rows.sum([&](auto at) { return at(x); });
  m.mean = rows.of_sums([&](LineWriter& line) { return line.read(total) / count; });
  m.squares = rows.sum([&](auto at) {
    const Expression centred = at(x) - at(m.mean);
    return centred * centred;
  });
  m.variance = rows.of_sums([&](LineWriter& line) { return line.read(m.squares) / count; });
  m.scale = rows.of_sums([&](LineWriter& line) { return 1.0F / sqrt(line.read(m.variance) + eps); });
  return m;
}

/// A tensor argument of one number per channel, as a tensor of this rank along `dimension`; nullopt if it is
/// not given.
std::optional<TensorForm> along(Call& call, std::string_view name, std::size_t rank, std::size_t dimension) {
  if (!call.given(name)) return std::nullopt;
  const TensorForm form = call.tensor(name);
  Shape shape(rank, 1);
  std::int64_t size = 1;
  for (const std::int64_t n : form.shape) size *= n;
  shape[dimension] = size;
  return reshaped(call.builder(), call.provenance(), form, shape);
}

Expression with_affine(LineWriter& line, const Expression& normal, const std::optional<TensorForm>& weight,
                       const std::optional<TensorForm>& bias) {
  if (weight && bias) return fma(normal, line.read(*weight), line.read(*bias));
  if (weight) return normal * line.read(*weight);
  return bias ? normal + line.read(*bias) : normal;
}

/// All dimensions but dimension 1.
Dimensions around_channels(std::size_t rank) {
  Dimensions others;
  for (std::size_t n = 0; n < rank; ++n) {
    if (n != 1) others.push_back(n);
  }
  return others;
}

/// momentum · now + (1 − momentum) · before.
TensorForm moved_statistic(const Rows& rows, const TensorForm& before, const TensorForm& now,
                           double momentum) {
  return rows.of_sums([&](LineWriter& line) {
    return fma(static_cast<float>(momentum), line.read(now),
               static_cast<float>(1 - momentum) * line.read(before));
  });
}

void batch_norm_training(Call& call, const Rows& rows, const TensorForm& x) {
  const std::size_t rank = x.shape.size();
  const auto weight = along(call, "weight", rank, 1), bias = along(call, "bias", rank, 1),
             running_mean = along(call, "running_mean", rank, 1),
             running_var = along(call, "running_var", rank, 1);
  const double momentum = call.number("momentum", 0.1);
  if (!call.ok() || !call.require(rows.count() > 1, "only one number per channel")) return;
  const Moments m = moments_of(rows, x, call.real("eps"));
  call.give(rows.map([&](LineWriter& line) {
    return with_affine(line, (line.read(x) - line.read(m.mean)) * line.read(m.scale), weight, bias);
  }));
  call.give(m.mean, 1);
  call.give(m.scale, 2);
  // Running statistics, if given, come after the three results.
  std::size_t next = 3;
  if (running_mean) call.give(moved_statistic(rows, *running_mean, m.mean, momentum), next++);
  if (!running_var || !call.wants(next)) return;
  const TensorForm unbiased = rows.of_sums(
      [&](LineWriter& line) { return line.read(m.squares) / static_cast<float>(rows.count() - 1); });
  call.give(moved_statistic(rows, *running_var, unbiased, momentum), next);
}

TensorForm running_scale(const Rows& rows, const TensorForm& variance, float eps) {
  return rows.of_sums([&](LineWriter& line) { return 1.0F / sqrt(line.read(variance) + eps); });
}

Dimensions from_dimension(std::size_t first, std::size_t rank) {
  Dimensions result;
  for (std::size_t n = first; n < rank; ++n) result.push_back(n);
  return result;
}

void batch_norm(Call& call) {
  const TensorForm x = call.tensor("input");
  if (!call.ok() || !call.require(x.shape.size() >= 2, "fewer than two dimensions")) return;
  const std::size_t rank = x.shape.size();
  const Rows rows(call, x.shape, around_channels(rank));
  if (call.boolean("training", true)) return batch_norm_training(call, rows, x);
  const auto weight = along(call, "weight", rank, 1), bias = along(call, "bias", rank, 1),
             mean = along(call, "running_mean", rank, 1), variance = along(call, "running_var", rank, 1);
  if (!call.ok() || !call.require(mean && variance, "evaluation without running statistics")) return;
  const TensorForm scale = running_scale(rows, *variance, call.real("eps"));
  call.give(rows.map([&](LineWriter& line) {
    return with_affine(line, (line.read(x) - line.read(*mean)) * line.read(scale), weight, bias);
  }));
}

/// ((g − Σg/n) − (x − μ) k) s with k = (Σ g (x − μ) / n) / σ² and s = γ / σ; with running statistics: g s.
void batch_norm_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_out"), x = call.tensor("input");
  if (!call.ok() || !call.require(x.shape.size() >= 2, "fewer than two dimensions")) return;
  const std::size_t rank = x.shape.size();
  const Rows rows(call, x.shape, around_channels(rank));
  const bool trains = call.boolean("train", true);
  const auto weight = along(call, "weight", rank, 1),
             mean = along(call, trains ? "save_mean" : "running_mean", rank, 1),
             spread = along(call, trains ? "save_invstd" : "running_var", rank, 1);
  if (!call.ok() || !call.require(mean && spread, "no statistics")) return;
  const TensorForm scale = trains ? *spread : running_scale(rows, *spread, call.real("eps"));
  const auto count = static_cast<float>(rows.count());

  const TensorForm slope = rows.of_sums(
      [&](LineWriter& line) { return weight ? line.read(*weight) * line.read(scale) : line.read(scale); });
  const TensorForm sum = rows.sum([&](auto at) { return at(gradient); });
  const TensorForm product = rows.sum([&](auto at) { return at(gradient) * (at(x) - at(*mean)); });
  if (call.wants(0) && trains) {
    const TensorForm k1 = rows.of_sums([&](LineWriter& line) { return line.read(sum) / count; });
    const TensorForm k2 = rows.of_sums([&](LineWriter& line) {
      return (line.read(product) / count) * (line.read(scale) * line.read(scale));
    });
    call.give(rows.map([&](LineWriter& line) {
      const Expression centred = line.read(gradient) - line.read(k1);
      return (centred - (line.read(x) - line.read(*mean)) * line.read(k2)) * line.read(slope);
    }));
  } else if (call.wants(0)) {
    call.give(rows.map([&](LineWriter& line) { return line.read(gradient) * line.read(slope); }));
  }
  call.give(rows.of_sums([&](LineWriter& line) { return line.read(product) * line.read(scale); }), 1);
  call.give(sum, 2);
}

/// The shape in which a group's numbers are the last two dimensions: [n, groups, channels / groups, numbers
/// per channel].
Shape grouped_shape(Call& call) {
  const std::int64_t groups = call.integer("group"), channels = call.integer("C");
  if (!call.require(groups >= 1 && channels % groups == 0, "channels that are not a multiple of the groups"))
    return {};
  return {call.integer("N"), groups, channels / groups, call.integer("HxW")};
}

TensorForm in_shape(Call& call, std::string_view name, const Shape& shape) {
  const TensorForm form = call.tensor(name);
  return call.ok() ? reshaped(call.builder(), call.provenance(), form, shape) : form;
}

std::optional<TensorForm> by_group(Call& call, std::string_view name, const Shape& grouped) {
  if (!call.given(name)) return std::nullopt;
  return in_shape(call, name, {1, grouped[1], grouped[2], 1});
}

void group_norm(Call& call) {
  const Shape shape = grouped_shape(call);
  if (!call.ok()) return;
  const TensorForm x = in_shape(call, "input", shape);
  const auto weight = by_group(call, "weight", shape), bias = by_group(call, "bias", shape);
  const Rows rows(call, shape, {2, 3});
  const Moments m = moments_of(rows, x, call.real("eps"));
  call.give(rows.map([&](LineWriter& line) {
    return with_affine(line, (line.read(x) - line.read(m.mean)) * line.read(m.scale), weight, bias);
  }));
  call.give(m.mean, 1);
  call.give(m.scale, 2);
}

/// ((q − Σq/n) − (x − μ) k) / σ with q = g γ and k = (Σ q (x − μ) / n) / σ².
void group_norm_backward(Call& call) {
  const Shape shape = grouped_shape(call);
  if (!call.ok()) return;
  const Shape each = {shape[0], shape[1], 1, 1};
  const TensorForm gradient = in_shape(call, "grad_out", shape), x = in_shape(call, "input", shape),
                   mean = in_shape(call, "mean", each), scale = in_shape(call, "rstd", each);
  const auto weight = by_group(call, "weight", shape);
  const Rows rows(call, shape, {2, 3});
  const auto count = static_cast<float>(rows.count());
  if (call.wants(0)) {
    const TensorForm q = rows.map([&](LineWriter& line) {
      return weight ? line.read(gradient) * line.read(*weight) : line.read(gradient);
    });
    const TensorForm sum = rows.sum([&](auto at) { return at(q); });
    const TensorForm product = rows.sum([&](auto at) { return at(q) * (at(x) - at(mean)); });
    const TensorForm k1 = rows.of_sums([&](LineWriter& line) { return line.read(sum) / count; });
    const TensorForm k2 = rows.of_sums([&](LineWriter& line) {
      return (line.read(product) / count) * (line.read(scale) * line.read(scale));
    });
    call.give(rows.map([&](LineWriter& line) {
      const Expression centred = line.read(q) - line.read(k1);
      return (centred - (line.read(x) - line.read(mean)) * line.read(k2)) * line.read(scale);
    }));
  }
  const Rows channels(call, shape, {0, 3});
  if (call.wants(1))
    call.give(channels.sum([&](auto at) { return at(gradient) * ((at(x) - at(mean)) * at(scale)); }), 1);
  if (call.wants(2)) call.give(channels.sum([&](auto at) { return at(gradient); }), 2);
}

/// Rows over the normalised dimensions, which are the last ones.
std::optional<Rows> normalised_rows(Call& call, const TensorForm& x) {
  const std::size_t inner = call.integers("normalized_shape").size();
  if (!call.ok() ||
      !call.require(inner >= 1 && inner <= x.shape.size(), "a normalised shape of another rank"))
    return std::nullopt;
  return Rows(call, x.shape, from_dimension(x.shape.size() - inner, x.shape.size()));
}

/// x / sqrt(Σx²/n + eps), times the weight.
void rms_norm(Call& call) {
  const TensorForm x = call.tensor("input");
  const auto rows = normalised_rows(call, x);
  if (!rows) return;
  const auto eps = static_cast<float>(call.number("eps", 0x1p-23));
  const TensorForm squares = rows->sum([&](auto at) { return at(x) * at(x); });
  const TensorForm scale = rows->of_sums([&](LineWriter& line) {
    return 1.0F / sqrt(line.read(squares) / static_cast<float>(rows->count()) + eps);
  });
  call.give(rows->map([&](LineWriter& line) {
    const Expression normal = line.read(x) * line.read(scale);
    return call.given("weight") ? normal * line.read(call.tensor("weight")) : normal;
  }));
  call.give(scale, 1);
}

/// (q − x (Σ q x / n) / σ²) / σ with q = g w.
void rms_norm_backward(Call& call) {
  const TensorForm gradient = call.tensor("grad_out"), x = call.tensor("input"), scale = call.tensor("rstd");
  const auto rows = normalised_rows(call, x);
  if (!rows) return;
  if (call.wants(0)) {
    const TensorForm q = rows->map([&](LineWriter& line) {
      return call.given("weight") ? line.read(gradient) * line.read(call.tensor("weight"))
                                  : line.read(gradient);
    });
    const TensorForm product = rows->sum([&](auto at) { return at(q) * at(x); });
    const TensorForm k = rows->of_sums([&](LineWriter& line) {
      return (line.read(product) / static_cast<float>(rows->count())) * (line.read(scale) * line.read(scale));
    });
    call.give(rows->map(
        [&](LineWriter& line) { return (line.read(q) - line.read(x) * line.read(k)) * line.read(scale); }));
  }
  if (!call.wants(1)) return;
  const Rows outer(call, x.shape,
                   from_dimension(0, x.shape.size() - call.integers("normalized_shape").size()));
  call.give(outer.sum([&](auto at) { return at(gradient) * (at(x) * at(scale)); }), 1);
}

/// Rows over all dimensions but the one that weight_norm keeps, the first or the last.
Rows weight_rows(Call& call, const TensorForm& v) {
  const std::size_t kept = call.dimension("dim", v.shape.size());
  Dimensions others;
  for (std::size_t n = 0; n < v.shape.size(); ++n) {
    if (n != kept) others.push_back(n);
  }
  return {call, v.shape, others};
}

/// v (g / |v|).
void weight_norm(Call& call) {
  const TensorForm v = call.tensor("v"), g = call.tensor("g");
  const Rows rows = weight_rows(call, v);
  if (!call.ok()) return;
  const TensorForm squares = rows.sum([&](auto at) { return at(v) * at(v); });
  const TensorForm norm = rows.of_sums([&](LineWriter& line) { return sqrt(line.read(squares)); });
  call.give(rows.map([&](LineWriter& line) { return line.read(v) * (line.read(g) / line.read(norm)); }));
  call.give(norm, 1);
}

/// With s = Σ d v: (d − v (s / |v|²)) (g / |v|), and s / |v| for g.
void weight_norm_backward(Call& call) {
  const TensorForm d = call.tensor("grad_w"), v = call.tensor("saved_v"), g = call.tensor("saved_g"),
                   norm = call.tensor("saved_norms");
  const Rows rows = weight_rows(call, v);
  if (!call.ok()) return;
  const TensorForm sum = rows.sum([&](auto at) { return at(d) * at(v); });
  call.give(rows.map([&](LineWriter& line) {
    const Expression n = line.read(norm);
    return (line.read(d) - line.read(v) * (line.read(sum) / (n * n))) * (line.read(g) / n);
  }));
  call.give(rows.of_sums([&](LineWriter& line) { return line.read(sum) / line.read(norm); }), 1);
}

/// Norms and their gradients.
constexpr LoweringRow kRows[] = {
    {"native_batch_norm", &batch_norm},       {"native_batch_norm_backward", &batch_norm_backward},
    {"native_group_norm", &group_norm},       {"native_group_norm_backward", &group_norm_backward},
    {"_fused_rms_norm", &rms_norm},           {"_fused_rms_norm_backward", &rms_norm_backward},
    {"_weight_norm_interface", &weight_norm}, {"_weight_norm_interface_backward", &weight_norm_backward},
};

}  // namespace

const std::span<const LoweringRow> kNormRows = kRows;

}  // namespace dgx::lowering
