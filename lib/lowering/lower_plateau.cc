#include "lower_optimizer.h"

namespace dgx::lowering {

using kernels::ScalarOp;
using kernels::ValueIndex;

/// The lines of one step, in the names of dgx-lowerings(7), "Plateau".
TensorForm lower_plateau(Builder& builder, const TrainingRecipe& recipe, const TensorForm& loss) {
  const std::string g = "plateau";
  const program::ScheduleSpec& spec = recipe.schedule;
  const std::int64_t accumulate = recipe.update.accumulate;
  const std::int64_t window = spec.every * accumulate, warmup = spec.warmup * accumulate;
  const auto entry_of = [&](const char* name, DType dtype) {
    return builder.state(std::string("optimizer/plateau/") + name, dtype, {});
  };
  const ValueIndex mean_entry = entry_of("mean", DType::kF32), best_entry = entry_of("best", DType::kF32),
                   factor_entry = entry_of("factor", DType::kF32), bad_entry = entry_of("bad", DType::kI64);
  const TensorForm step_number = form_at(builder, builder.state("step", DType::kI64, {}));
  const auto steps_since_warmup = [&](LineWriter& line) { return line.read(step_number) + (1 - warmup); };

  LineWriter mean_line(builder, g, Shape{});
  const auto share = static_cast<float>(1.0 / static_cast<double>(window));
  const Expression sum = fma(mean_line.read(loss), share, mean_line.read(form_at(builder, mean_entry)));
  const auto after_warmup = [&](LineWriter& line, const Expression& value, const Expression& before) {
    return warmup == 0
               ? value
               : select(compare(ScalarOp::kGt, steps_since_warmup(line), std::int64_t{0}), value, before);
  };
  const TensorForm mean = mean_line.finish(DType::kF32, after_warmup(mean_line, sum, 0.0F));

  LineWriter end_line(builder, g, Shape{});
  const Expression place = step(ScalarOp::kImod, {steps_since_warmup(end_line), window});
  const Expression completes = compare(ScalarOp::kEq, place, std::int64_t{0});
  const TensorForm ends = end_line.finish(DType::kI64, after_warmup(end_line, completes, std::int64_t{0}));

  LineWriter better_line(builder, g, Shape{});
  const Expression best = better_line.read(form_at(builder, best_entry));
  const Expression bound = fma(-static_cast<float>(spec.threshold), abs(best), best);
  const Expression is_below = compare(ScalarOp::kLt, better_line.read(mean), bound);
  const Expression is_first = compare(ScalarOp::kLe, steps_since_warmup(better_line), window);
  const TensorForm better = better_line.finish(DType::kI64, select(is_first, std::int64_t{1}, is_below));

  LineWriter bad_line(builder, g, Shape{});
  const Expression bad = bad_line.read(form_at(builder, bad_entry));
  const Expression one_more = bad + std::int64_t{1};
  const Expression counted = select(bad_line.read(better), std::int64_t{0}, one_more);
  const TensorForm count =
      bad_line.finish(DType::kI64, select(compare(ScalarOp::kLt, bad, std::int64_t{0}), one_more, counted));

  LineWriter factor_line(builder, g, Shape{});
  const Expression is_start = compare(ScalarOp::kEq, factor_line.read(step_number), std::int64_t{0});
  const TensorForm factor = factor_line.finish(
      DType::kF32, select(is_start, 1.0F, factor_line.read(form_at(builder, factor_entry))));

  // The entry becomes `changed` where a window ends.
  const auto become = [&](ValueIndex entry, const auto& changed, const TensorForm& kept) {
    LineWriter line(builder, g, Shape{});
    const Expression is_end = line.read(ends);
    const Expression value = changed(line), other = line.read(kept);
    builder.set_next(entry, line.finish(builder.values()[entry].dtype, select(is_end, value, other)).value);
  };
  const auto falls = [&](LineWriter& line) {
    return compare(ScalarOp::kGt, line.read(count), spec.patience);
  };
  become(
      mean_entry, [&](LineWriter&) { return Expression(0.0F); }, mean);
  become(
      best_entry,
      [&](LineWriter& line) {
        return select(line.read(better), line.read(mean), line.read(form_at(builder, best_entry)));
      },
      form_at(builder, best_entry));
  become(
      bad_entry, [&](LineWriter& line) { return select(falls(line), -spec.cooldown, line.read(count)); },
      form_at(builder, bad_entry));
  const auto least = static_cast<float>(spec.minimum / recipe.optimizer.learning_rate);
  become(
      factor_entry,
      [&](LineWriter& line) {
        const Expression now = line.read(factor);
        return select(falls(line), max(now * static_cast<float>(spec.factor), least), now);
      },
      factor);
  return factor;
}

}  // namespace dgx::lowering
