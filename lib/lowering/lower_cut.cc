#include "lower_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "dgx/program/check.h"
#include "lowering.h"

namespace dgx::lowering {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

constexpr std::string_view kProvenance = "cut ";

/// A quantised tensor: integers, and for each sample the number that half their range stands for.
struct Message {
  TensorForm codes;  ///< u8 [batch, numbers]
  TensorForm scale;  ///< f32 [batch]
};

/// The lines of one side of a cut, over a sample's numbers in one dimension.
class CutLines {
 public:
  CutLines(Builder& builder, const program::CutSpec& cut, std::int64_t batch, std::int64_t numbers)
      : builder_(builder),
        cut_(cut),
        provenance_(fmt::format("{}{}", kProvenance, cut.block)),
        batch_(batch),
        numbers_(numbers) {}

  /// The activation that the model goes on with instead of `activation`; sets the entry's update.
  [[nodiscard]] TensorForm forward(const TensorForm& activation, std::int64_t samples) {
    const TensorForm y = flat(activation);
    const TensorForm entry =
        value_form(builder_.state(program::message_entry(cut_), DType::kF32, {samples, numbers_}),
                   DType::kF32, {samples, numbers_});
    const TensorForm sample = value_form(
        builder_.batch(std::string(program::kSampleNumbers), DType::kI64, {batch_}), DType::kI64, {batch_});
    const TensorForm old = map([&](LineWriter& line) {
      const Expression number = line.read(sample, {output_index(0)});
      return line.pick(entry, {picked_index(number), output_index(1)});
    });
    const TensorForm difference = map([&](LineWriter& line) { return line.read(y) - line.read(old); });
    const Message message = quantised(difference, cut_.forward);
    const TensorForm received = going_on(y, old, message);
    keep(entry, sample, received, samples);
    return *reshape(received, activation.shape);
  }

  [[nodiscard]] TensorForm backward(const TensorForm& gradient) {
    const Message message = quantised(flat(gradient), cut_.backward);
    const TensorForm received = map([&](LineWriter& line) {
      return level(line, message, cut_.backward) * unit(line, message, cut_.backward);
    });
    return *reshape(received, gradient.shape);
  }

 private:
  [[nodiscard]] static float half(std::int64_t bits) {
    return static_cast<float>(std::int64_t{1} << static_cast<unsigned>(bits - 1));
  }

  template <class Formula>
  [[nodiscard]] TensorForm map(Formula formula, DType dtype = DType::kF32) {
    LineWriter line(builder_, provenance_, Shape{batch_, numbers_});
    return line.finish(dtype, formula(line));
  }

  [[nodiscard]] TensorForm flat(const TensorForm& form) {
    return reshaped(builder_, provenance_, without_splat(builder_, form), {batch_, numbers_});
  }

  /// Each number in `bits` bits, in units of a 2^(bits-1)th of the sample's largest magnitude.
  [[nodiscard]] Message quantised(const TensorForm& numbers, std::int64_t bits) {
    LineWriter largest(builder_, provenance_, Kind::kMax, {batch_}, {numbers_});
    const std::vector<kernels::Coordinate> at = {output_index(0), fold_index(0)};
    const TensorForm scale = largest.finish(DType::kF32, abs(largest.read(numbers, at)));
    const float h = half(bits);
    const TensorForm codes = map(
        [&](LineWriter& line) {
          const Expression a = line.read(scale, {output_index(0)});
          const Expression nearest = function(ScalarOp::kRint, line.read(numbers) / a * h);
          const Expression code = to_integer(min(max(nearest, -h), h - 1) + h);
          return select(compare(ScalarOp::kEq, a, 0.0F), static_cast<std::int64_t>(h), code);
        },
        DType::kU8);
    return {codes, scale};
  }

  [[nodiscard]] static Expression level(LineWriter& line, const Message& message, std::int64_t bits) {
    return to_float(line.read(message.codes)) - half(bits);
  }
  [[nodiscard]] static Expression unit(LineWriter& line, const Message& message, std::int64_t bits) {
    return line.read(message.scale, {output_index(0)}) / half(bits);
  }

  /// The activation as both sides of the cut know it.
  [[nodiscard]] TensorForm going_on(const TensorForm& y, const TensorForm& old, const Message& message) {
    const auto changed = [&](LineWriter& line) {
      return fma(level(line, message, cut_.forward), unit(line, message, cut_.forward), line.read(old));
    };
    if (cut_.first == 0) return map(changed);
    const TensorForm step = value_form(builder_.state("step", DType::kI64, {}), DType::kI64, {});
    const auto is_early = [&](LineWriter& line) {
      return compare(ScalarOp::kLt, line.read(step, {}), cut_.first);
    };
    const TensorForm plain =
        map([&](LineWriter& line) { return select(is_early(line), line.read(y), 0.0F); });
    return map([&](LineWriter& line) { return select(is_early(line), line.read(plain), changed(line)); });
  }

  /// The entry's update: of the samples in the batch their rows are replaced.
  void keep(const TensorForm& entry, const TensorForm& sample, const TensorForm& received,
            std::int64_t samples) {
    LineWriter positions(builder_, provenance_, Kind::kChain, {samples}, {batch_});
    const Expression is_named =
        compare(ScalarOp::kEq, positions.read(sample, {fold_index(0)}), positions.index(0));
    const Expression position = step(ScalarOp::kAdd, {positions.fold(0), std::int64_t{0}});
    const TensorForm place = positions.finish_chain(DType::kI64, position, is_named, std::int64_t{-1});
    LineWriter line(builder_, provenance_, entry.shape);
    const Expression at = line.read(place, {output_index(0)});
    const Expression row = line.pick(received, {picked_index(at), output_index(1)});
    const TensorForm next =
        line.finish(DType::kF32, select(compare(ScalarOp::kGe, at, std::int64_t{0}), row, line.read(entry)));
    builder_.set_next(entry.value, next.value);
  }

  Builder& builder_;
  const program::CutSpec& cut_;
  std::string provenance_;
  std::int64_t batch_, numbers_;
};

/// kUsage if all samples' messages are more than a program may hold.
Status check_entry(const program::CutSpec& cut, std::int64_t samples, std::int64_t numbers) {
  constexpr std::int64_t kMost = program::kMaxValueBytes / 4;
  const __int128 bytes = static_cast<__int128>(samples) * numbers * 4;
  if (bytes <= kMost) return {};
  return usage_error(
      fmt::format("--cut {}: keeps {} numbers of each of {} samples, which take {} bytes, at most {} allowed",
                  cut.block, numbers, samples,
                  static_cast<std::int64_t>(std::min<__int128>(bytes, std::int64_t{1} << 62)), kMost),
      "a cut is for fine-tuning on few samples");
}

/// A sample's numbers in a tensor [batch, …] of f32; kInternal if it is another.
Result<std::int64_t> numbers_of(const TensorForm& form, const TrainingRecipe& recipe) {
  const auto count = element_count(form.shape);
  if (!count || form.dtype != DType::kF32 || form.shape.empty() || form.shape[0] != recipe.batch)
    return internal_error("capture: what is cut is no f32 [batch, …]");
  return *count / recipe.batch;
}

}  // namespace

Status lower_cut_forward(LoweringState& state, const TrainingRecipe& recipe) {
  const AtenCut& at = *state.graph.cut;
  const TensorForm activation = state.form(at.activation);
  DGX_TRY(const std::int64_t numbers, numbers_of(activation, recipe));
  DGX_CHECK(check_entry(*recipe.cut, recipe.samples, numbers));
  CutLines lines(state.builder, *recipe.cut, recipe.batch, numbers);
  state.forms[static_cast<std::size_t>(at.message)] = lines.forward(activation, recipe.samples);
  return {};
}

Status lower_cut_backward(LoweringState& state, const TrainingRecipe& recipe) {
  const AtenCut& at = *state.graph.cut;
  const TensorForm gradient = state.form(at.gradient);
  DGX_TRY(const std::int64_t numbers, numbers_of(gradient, recipe));
  CutLines lines(state.builder, *recipe.cut, recipe.batch, numbers);
  state.forms[static_cast<std::size_t>(at.returned)] = lines.backward(gradient);
  return {};
}

bool is_of_cut(const kernels::Primitive& line) { return line.provenance.starts_with(kProvenance); }

}  // namespace dgx::lowering
