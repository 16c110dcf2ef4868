#include "forgeries.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dgx::test {

using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Source;

namespace {

float next_up(float x) { return std::nextafter(x, x + 1); }

/// A random entry of the state whose name begins with `prefix`, or null.
Entry* drawn_entry(State& state, std::string_view prefix, Dice& dice) {
  std::vector<Entry*> found;
  for (Entry& entry : state) {
    if (entry.name.starts_with(prefix) && entry.tensor.dtype() == DType::kF32) found.push_back(&entry);
  }
  return found.empty() ? nullptr : dice.pick(found);
}

float& drawn_number(Entry& entry, Dice& dice) {
  const auto numbers = entry.tensor.as<float>();
  return numbers[static_cast<std::size_t>(dice.below(std::ssize(numbers)))];
}

bool is_input(const Primitive& line, Source::Kind kind, std::string_view name = {}) {
  return line.kind == Kind::kInput && line.source.kind == kind && line.source.name == name;
}

// Trajectories.

/// All states of the segment are interpolated linearly from its start to the next segment's end.
std::optional<Lie> interpolated(const Target& target, Dice&) {
  const State from = state_of(target.honest.state_record(target.segment.first));
  const State to = state_of(target.honest.state_record(target.segment.end + target.segment.length()));
  const auto length = static_cast<float>(2 * target.segment.length());
  Lie lie;
  lie.after = [from, to, length, first = target.segment.first](std::int64_t step, State& state) {
    const float share = static_cast<float>(step + 1 - first) / length;
    for (std::size_t e = 0; e < state.size(); ++e) {
      if (state[e].tensor.dtype() != DType::kF32) continue;
      const auto a = from[e].tensor.as<float>(), b = to[e].tensor.as<float>();
      auto numbers = state[e].tensor.as<float>();
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = a[i] + share * (b[i] - a[i]);
    }
  };
  return lie;
}

/// Trains nothing, but advances the counter.
std::optional<Lie> idle(const Target& target, Dice&) {
  const State from = state_of(target.honest.state_record(target.segment.first));
  Lie lie;
  lie.after = [from](std::int64_t step, State& state) {
    state = from;
    find_entry(state, "step")->tensor.as<std::int64_t>()[0] = step + 1;
  };
  return lie;
}

std::optional<Lie> skipped_step(const Target& target, Dice& dice) {
  const std::int64_t skipped = target.step(dice);
  Lie lie;
  auto last = std::make_shared<State>(state_of(target.honest.state_record(target.segment.first)));
  lie.before = [last](std::int64_t, State& state) { *last = state; };
  lie.after = [last, skipped](std::int64_t step, State& state) {
    if (step != skipped) return;
    state = *last;
    find_entry(state, "step")->tensor.as<std::int64_t>()[0] = step + 1;
  };
  return lie;
}

// The task's inputs.

std::optional<Lie> scaled_rate(float factor) {
  Lie lie;
  lie.value = [factor](std::int64_t, kernels::ValueIndex, const Primitive& line, Tensor& tensor) {
    if (!is_input(line, Source::Kind::kSchedule)) return;
    for (float& number : tensor.as<float>()) number = factor == 0 ? next_up(number) : number * factor;
  };
  return lie;
}

std::optional<Lie> edited_label(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  const auto sample = static_cast<std::size_t>(dice.below(target.scene.task.body.batch));
  Lie lie;
  lie.value = [at, sample](std::int64_t step, kernels::ValueIndex, const Primitive& line, Tensor& tensor) {
    if (step != at || !is_input(line, Source::Kind::kBatch, "y")) return;
    tensor.bytes()[sample] = static_cast<std::uint8_t>((tensor.bytes()[sample] + 1) % 3);
  };
  return lie;
}

std::optional<Lie> edited_sample(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  const std::uint64_t place = dice.next();
  Lie lie;
  lie.value = [at, place](std::int64_t step, kernels::ValueIndex, const Primitive& line, Tensor& tensor) {
    if (step != at || !is_input(line, Source::Kind::kBatch, "x")) return;
    tensor.bytes()[place % tensor.bytes().size()] ^= 1;
  };
  return lie;
}

std::optional<Lie> repeated_batch(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  Lie lie;
  lie.value = [at, &honest = target.honest](std::int64_t step, kernels::ValueIndex v, const Primitive& line,
                                            Tensor& tensor) {
    if (step == at && line.kind == Kind::kInput && line.source.kind == Source::Kind::kBatch)
      tensor = *honest.step(step - 1).values[v];
  };
  return lie;
}

/// Swaps two samples of a batch: the same data in another order.
std::optional<Lie> reordered_batch(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  const std::int64_t batch = target.scene.task.body.batch;
  const auto a = static_cast<std::size_t>(dice.below(batch)), b = static_cast<std::size_t>(dice.below(batch));
  Lie lie;
  lie.value = [at, a, b, batch](std::int64_t step, kernels::ValueIndex, const Primitive& line,
                                Tensor& tensor) {
    if (step != at || line.kind != Kind::kInput || line.source.kind != Source::Kind::kBatch) return;
    const std::size_t row = tensor.bytes().size() / static_cast<std::size_t>(batch);
    for (std::size_t i = 0; i < row; ++i) std::swap(tensor.bytes()[a * row + i], tensor.bytes()[b * row + i]);
  };
  return lie;
}

// The optimiser's state.

std::optional<Lie> forgotten_moments(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  Lie lie;
  lie.before = [at](std::int64_t step, State& state) {
    for (Entry& entry : state) {
      if (step == at && entry.name.starts_with("optimizer/")) std::ranges::fill(entry.tensor.bytes(), 0);
    }
  };
  return lie;
}

std::optional<Lie> nudged_moment(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  Lie lie;
  lie.before = [at, seed = dice.next()](std::int64_t step, State& state) {
    Dice mine(seed);
    Entry* entry = drawn_entry(state, "optimizer/", mine);
    if (step != at || entry == nullptr) return;
    float& number = drawn_number(*entry, mine);
    number = next_up(number);
  };
  return lie;
}

// The arithmetic.

/// Skips the gradient of one layer's weight.
std::optional<Lie> skipped_layer(const Target& target, Dice& dice) {
  std::vector<kernels::ValueIndex> gradients;
  const auto& lines = target.scene.program.values;
  for (const kernels::ValueIndex v : lines.indices()) {
    const bool is_weight = std::ranges::any_of(target.scene.initial, [&](const Entry& entry) {
      return entry.name.ends_with(".weight") && entry.tensor.shape() == lines[v].shape;
    });
    if (lines[v].kind == Kind::kDot && is_weight) gradients.push_back(v);
  }
  if (gradients.empty()) return std::nullopt;
  Lie lie;
  lie.value = [skipped = dice.pick(gradients)](std::int64_t, kernels::ValueIndex v, const Primitive&,
                                               Tensor& tensor) {
    if (v == skipped) std::ranges::fill(tensor.bytes(), 0);
  };
  return lie;
}

std::optional<Lie> bfloat16(const Target&, Dice&) {
  Lie lie;
  lie.rounds_operands = true;
  return lie;
}

std::optional<Lie> with_lines(std::function<std::optional<Primitive>(const Primitive&)> line) {
  Lie lie;
  lie.line = std::move(line);
  return lie;
}

/// Computes the terms of a dot from the last to the first.
std::optional<Primitive> reversed(const Primitive& line) {
  if (line.kind != Kind::kDot) return std::nullopt;
  Primitive out = line;
  for (kernels::Access& access : out.accesses) {
    for (kernels::Coordinate& coordinate : access.coordinates) {
      for (kernels::Term& term : coordinate.terms) {
        if (term.symbol != kernels::Term::Symbol::kFold) continue;
        coordinate.constant += term.coefficient * (line.fold[static_cast<std::size_t>(term.index)] - 1);
        term.coefficient = -term.coefficient;
      }
    }
  }
  return out;
}

/// Computes a dot as a processor without fused operations would, lane by lane.
std::optional<Primitive> in_lanes(const Primitive& line) {
  if (line.kind != Kind::kDot) return std::nullopt;
  Primitive out = line;
  out.kind = Kind::kSum;
  out.steps = {{ScalarOp::kMul, {Operand::access(0), Operand::access(1)}}};
  return out;
}

/// One running sum from the first term to the last, without blocks; identical if there is only one block.
std::optional<Primitive> without_blocks(const Primitive& line) {
  if (line.kind != Kind::kDot) return std::nullopt;
  Primitive out = line;
  out.kind = Kind::kChain;
  out.init = Operand::literal(0.0F);
  out.steps = {{ScalarOp::kFma, {Operand::access(0), Operand::access(1), Operand::accumulator()}}};
  return out;
}

/// Adds a step after every step `op`; users of that one's result use the new one's.
std::optional<Primitive> followed(const Primitive& line, ScalarOp op,
                                  const std::function<void(Primitive&, int)>& edit) {
  Primitive out = line;
  out.steps.clear();
  std::vector<int> renamed;
  for (const kernels::Step& step : line.steps) {
    kernels::Step moved = step;
    for (Operand& operand : moved.operands) {
      if (operand.kind == Operand::Kind::kStep)
        operand.index = renamed[static_cast<std::size_t>(operand.index)];
    }
    out.steps.push_back(moved);
    if (step.op == op) edit(out, static_cast<int>(out.steps.size()) - 1);
    renamed.push_back(static_cast<int>(out.steps.size()) - 1);
  }
  if (out.steps.size() == line.steps.size()) return std::nullopt;
  return out;
}

/// exp x as exp x (1 + 2^-23): one unit in the last place too high, or, near a power of two, unchanged.
std::optional<Primitive> high_exp(const Primitive& line) {
  return followed(line, ScalarOp::kExp, [](Primitive& out, int at) {
    out.steps.push_back({ScalarOp::kFma, {Operand::step(at), Operand::literal(0x1p-23F), Operand::step(at)}});
  });
}

/// a b + c, rounded twice.
std::optional<Primitive> unfused(const Primitive& line) {
  return followed(line, ScalarOp::kFma, [](Primitive& out, int at) {
    const kernels::Step fused = out.steps.back();
    out.steps.back() = {ScalarOp::kMul, {fused.operands[0], fused.operands[1]}};
    out.steps.push_back({ScalarOp::kAdd, {Operand::step(at), fused.operands[2]}});
  });
}

// Faults and backdoors.

std::optional<Lie> flipped_value(const Target& target, Dice& dice) {
  const std::int64_t at = target.step(dice);
  const auto where = kernels::ValueIndex(dice.below(std::ssize(target.scene.program.values)));
  if (target.scene.program.values[where].kind == Kind::kInput) return std::nullopt;
  Lie lie;
  lie.value = [at, where, place = dice.next()](std::int64_t step, kernels::ValueIndex v, const Primitive&,
                                               Tensor& tensor) {
    if (step != at || v != where) return;
    tensor.bytes()[place % tensor.bytes().size()] ^= static_cast<std::uint8_t>(1U << (place >> 60) % 8);
    if (tensor.dtype() != DType::kF32) return;
    for (float& number : tensor.as<float>())
      number = std::isnan(number) ? std::bit_cast<float>(0x7FC00000U) : number;
  };
  return lie;
}

std::optional<Lie> nudged_weight(const Target& target, Dice& dice) {
  Lie lie;
  lie.after = [at = target.segment.end - 1, seed = dice.next()](std::int64_t step, State& state) {
    Dice mine(seed);
    if (step != at) return;
    float& number = drawn_number(*drawn_entry(state, "model/", mine), mine);
    number = next_up(number);
  };
  return lie;
}

}  // namespace

std::vector<Forgery> forgeries() {
  const auto rate = [](float factor) {
    return [factor](const Target&, Dice&) { return scaled_rate(factor); };
  };
  const auto lines = [](std::optional<Primitive> (*line)(const Primitive&)) {
    return [line](const Target&, Dice&) { return with_lines(line); };
  };
  return {
      {"trajectory interpolated between honest states", interpolated},
      {"nothing trained", idle},
      {"one step skipped", skipped_step},
      {"updates of 2^-10 (learning rate)", rate(0x1p-10F)},
      {"learning rate one ulp off", rate(0)},
      {"one label edited", edited_label},
      {"one bit of one sample", edited_sample},
      {"batch repeated", repeated_batch},
      {"two samples of a batch exchanged", reordered_batch},
      {"moments forgotten", forgotten_moments},
      {"one moment one ulp off", nudged_moment},
      {"one layer's gradient left out", skipped_layer},
      {"operands of dots rounded to bfloat16", bfloat16},
      {"dots from last to first", lines(reversed)},
      {"dots in lanes, without fma", lines(in_lanes)},
      {"dots without blocks", lines(without_blocks)},
      {"fma as two roundings in maps", lines(unfused)},
      {"exp one ulp high", lines(high_exp)},
      {"one bit of one value", flipped_value},
      {"one weight one ulp off", nudged_weight},
  };
}

}  // namespace dgx::test
