#include "claims.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "dgx/core/checked.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/order.h"
#include "dgx/kernels/philox.h"
#include "dgx/kernels/position.h"
#include "dgx/kernels/schedule.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/line.h"
#include "dgx/program/specs.h"
#include "dgx/protocol/scalar_text.h"
#include "opened_values.h"

namespace dgx::protocol {

using kernels::Kind;
using kernels::Number;
using kernels::Source;

namespace {

Judgement fails(std::string words) { return {false, std::move(words), std::nullopt, std::nullopt}; }
Judgement fails(const Error& error) { return fails("the evidence proves nothing: " + error.message); }
Judgement proves(std::string words) { return {true, std::move(words), std::nullopt, std::nullopt}; }

/// The judged scalar of a number that is not computed: an input's, or a copy's.
manifest::JudgedScalar not_computed(std::string_view operation, const Number& right, const Number& claimed,
                                    DType dtype) {
  manifest::JudgedScalar out;
  out.operation = std::string(operation);
  out.result = bits_text(right, dtype);
  out.claimed = posted_text(claimed, dtype);
  return out;
}

Judgement compared(const std::string& what, const Number& right, const Number& claimed,
                   manifest::JudgedScalar scalar) {
  return {!is_posted(right, claimed), fmt::format("{}: {}", what, sentence(scalar)), std::move(scalar),
          std::nullopt};
}

}  // namespace

Result<kernels::Primitive> open_line(const OpenedLine& opened, const manifest::Task& task) {
  const std::string where = fmt::format("line {}", opened.index);
  const auto root = merkle::root_from_path(merkle::leaf_hash(as_bytes(opened.text)),
                                           static_cast<std::uint64_t>(opened.index),
                                           static_cast<std::uint64_t>(task.program.lines), opened.path);
  if (!root.ok()) return within(where, root.error());
  if (*root != task.program.root) return malformed(where + ": is not in the task's program");
  auto line = program::parse_line(opened.text, kernels::ValueIndex(opened.index));
  if (!line.ok()) return line;
  const auto count = element_count(line->shape);
  if (!count.ok() || *count == 0) return malformed(where + ": s: has no elements");
  return line;
}

Number number_at(DType dtype, ByteView bytes, std::size_t offset) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + offset, size_of(dtype));
  if (dtype == DType::kF32) return Number::of(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return Number::of(static_cast<std::int64_t>(bits));
}

Judgement judge_state_input(const Step& step, const StateInputClaim& claim, std::int64_t value,
                            const Digest& digest) {
  const auto line = open_line(claim.line, step.task);
  if (!line.ok()) return fails(line.error());
  if (claim.line.index != value)
    return fails(fmt::format("the line opened is {}, the value {}", claim.line.index, value));
  if (!is_state_input(*line)) return fails(fmt::format("line {} is not a state input", claim.line.index));
  if (line->source.name != claim.entry.name)
    return fails(fmt::format("line {} is the entry {}, not {}", claim.line.index, line->source.name,
                             claim.entry.name));
  const auto state = merkle::state_digest_of(claim.entry);
  if (!state.ok()) return fails(state.error());
  if (*state != step.before) return fails("the opened entry does not belong to the state before the step");
  if (claim.entry.tensor == digest)
    return fails(fmt::format("value {} is the entry {}", claim.line.index, claim.entry.name));
  return proves(fmt::format("value {} is {}, the entry {} of the state before the step is {}", value,
                            digest.hex(), claim.entry.name, claim.entry.tensor.hex()));
}

namespace {

/// Judges the claim that an entry of the program is missing from the state: it would have to come before
/// `shown`.
Judgement judge_missing(const Step& step, const OpenedLine& opened, const merkle::EntryOpening* before,
                        const EntryPost* shown) {
  const auto line = open_line(opened, step.task);
  if (!line.ok()) return fails(line.error());
  if (!is_state_input(*line) || !line->next) {
    return fails(fmt::format("line {} is not a state input", opened.index));
  }
  const std::string& name = line->source.name;
  if (before != nullptr && before->name >= name)
    return fails(fmt::format("{} does not come after {}", name, before->name));
  if (shown != nullptr && shown->name <= name)
    return fails(fmt::format("{} does not come before {}", name, shown->name));
  return proves(
      fmt::format("the state after the step has no entry {}, the input of line {}", name, opened.index));
}

Judgement judge_entry_digest(const Step& step, const EntryClaim& claim, const EntryPost& shown) {
  const auto line = open_line(shown.line, step.task);
  if (!line.ok()) return fails(line.error());
  const kernels::ValueIndex next = *line->next;
  const auto root =
      merkle::root_from_path(merkle::value_leaf(*claim.digest), static_cast<std::uint64_t>(next),
                             static_cast<std::uint64_t>(step.task.program.lines), *claim.path);
  if (!root.ok()) return fails(root.error());
  if (*root != step.table) return fails(fmt::format("the opened digest is not that of value {}", next));
  if (*claim.digest == shown.digest) return fails(fmt::format("entry {} is value {}", shown.name, next));
  return proves(fmt::format("entry {} of the state after the step is {}, value {}, which it becomes, is {}",
                            shown.name, shown.digest.hex(), next, claim.digest->hex()));
}

}  // namespace

Judgement judge_entry(const Step& step, const EntryClaim& claim, const EntryPost* shown, std::int64_t index,
                      std::int64_t count) {
  if (claim.digest) {
    return shown == nullptr ? fails("no entry was shown") : judge_entry_digest(step, claim, *shown);
  }
  if (claim.before) {
    const auto state = merkle::state_digest_of(*claim.before);
    if (!state.ok()) return fails(state.error());
    if (*state != step.after) return fails("the opened entry does not belong to the state after the step");
    const auto follows = static_cast<std::int64_t>(claim.before->index) + 1;
    if (follows != (shown == nullptr ? count : index)) return fails("the opened entry is not the one before");
    if (!claim.line) {
      if (shown == nullptr) return fails("no entry was shown");
      if (claim.before->name < shown->name) return fails("the names ascend");
      return proves(
          fmt::format("entry {} {} does not come after {}", index, shown->name, claim.before->name));
    }
  } else if (shown == nullptr || index != 0) {
    return fails("the entry before is not opened");
  }
  return judge_missing(step, *claim.line, claim.before ? &*claim.before : nullptr, shown);
}

namespace {

/// The number of the sample in row `row` of a step's batch.
Result<std::int64_t> sample_of(const manifest::Task& task, std::int64_t step, std::int64_t row) {
  DGX_TRY(const auto order, kernels::DataOrder::create(task.seed, task.dataset.samples, task.batch));
  const auto start = checked_mul(step, task.batch);
  if (!start || !checked_add(*start, task.batch))
    return malformed("the step is beyond the order of the data");
  return order.sample_at(*start + row);
}

}  // namespace

bool reads_data(const manifest::Task& task, const kernels::Primitive& line) {
  const bool is_numbers =
      line.source.name == program::kSampleNumbers && task.dataset.find(line.source.name) == nullptr;
  return line.source.kind == Source::Kind::kBatch && !is_numbers;
}

Result<std::int64_t> dataset_element(const manifest::Task& task, std::int64_t step,
                                     const kernels::Primitive& line, std::int64_t element) {
  const manifest::DatasetField* const field = task.dataset.find(line.source.name);
  if (field == nullptr) return malformed("the program's batch is no field of the task's dataset");
  Shape expected{task.batch};
  expected.insert(expected.end(), field->shape.begin(), field->shape.end());
  if (line.shape != expected || line.dtype != field->dtype)
    return malformed("the program's batch is not that of the task's dataset");
  DGX_TRY(const std::int64_t numbers, element_count(field->shape));
  DGX_TRY(const std::int64_t sample, sample_of(task, step, element / numbers));
  const auto first = checked_mul(sample, numbers);
  if (!first) return malformed("the dataset is too large");
  return *first + element % numbers;
}

namespace {

Result<Number> schedule_number(const Step& step, const kernels::Primitive& line, std::int64_t element) {
  DGX_TRY(const auto parameters, program::schedule_parameters(step.task.optimizer, step.task.schedule,
                                                              step.task.steps, step.task.update));
  DGX_TRY(const std::vector<float> numbers, kernels::schedule_scalars(line.source.of, parameters, step.step));
  if (element >= static_cast<std::int64_t>(numbers.size()))
    return malformed("the schedule has no such element");
  return Number::of(numbers[static_cast<std::size_t>(element)]);
}

Result<Number> constant_number(const kernels::Primitive& line, std::int64_t element) {
  if (element >= static_cast<std::int64_t>(line.source.of.size()))
    return malformed("the constant has no such element");
  const std::string& text = line.source.of[static_cast<std::size_t>(element)];
  DGX_TRY(const kernels::Literal literal, program::parse_literal(text));
  if (const float* real = std::get_if<float>(&literal)) return Number::of(*real);
  return Number::of(std::get<std::int64_t>(literal));
}

Result<Number> uniform_number(const Step& step, const kernels::Primitive& line, std::int64_t element) {
  std::uint32_t ordinal = 0;
  for (const char digit : line.source.name) ordinal = ordinal * 10 + static_cast<std::uint32_t>(digit - '0');
  return Number::of(
      kernels::uniform(step.task.seed, {kernels::StreamKind::kDropout, ordinal}, step.step, element));
}

Result<Number> batch_number(const Step& step, const kernels::Primitive& line, std::int64_t element,
                            const DataOpening& data) {
  DGX_TRY(const std::int64_t wanted, dataset_element(step.task, step.step, line, element));
  if (data.entry.name != line.source.name) return malformed("opens another field of the dataset");
  DGX_TRY(const Digest dataset, merkle::dataset_digest_of(data.entry, data.scales));
  if (dataset != step.task.dataset.digest)
    return malformed("the opened field does not belong to the task's dataset");
  DGX_CHECK(merkle::check_opening(data.tensor, data.entry.tensor));
  if (data.tensor.dtype != line.dtype) return malformed("the dataset's field has another type");
  const merkle::ElementPlace place = merkle::place_of(line.dtype, static_cast<std::uint64_t>(wanted));
  if (place.leaf != data.tensor.leaf || place.offset_bytes >= data.tensor.data.size()) {
    return malformed(
        fmt::format("element {} of the dataset's {} is not in the opened leaf", wanted, line.source.name));
  }
  return number_at(line.dtype, data.tensor.data, place.offset_bytes);
}

Result<Number> sample_number(const Step& step, const kernels::Primitive& line, std::int64_t element) {
  if (line.shape != Shape{step.task.batch} || line.dtype != DType::kI64)
    return malformed("the program's batch is not that of the samples' numbers");
  DGX_TRY(const std::int64_t sample, sample_of(step.task, step.step, element));
  return Number::of(sample);
}

Result<Number> input_number(const Step& step, const kernels::Primitive& line, std::int64_t element,
                            const InputClaim& claim) {
  if (reads_data(step.task, line) != claim.data.has_value())
    return malformed("data must be opened for a field of the batch, and for no other input");
  switch (line.source.kind) {
    case Source::Kind::kBatch:
      return claim.data ? batch_number(step, line, element, *claim.data) : sample_number(step, line, element);
    case Source::Kind::kSchedule: return schedule_number(step, line, element);
    case Source::Kind::kConstant: return constant_number(line, element);
    case Source::Kind::kUniform: return uniform_number(step, line, element);
    case Source::Kind::kState: break;
  }
  return malformed("this claim does not cover state inputs");
}

std::string element_text(kernels::ValueIndex value, std::int64_t element) {
  return fmt::format("value {} element {}", value, element);
}

}  // namespace

Judgement judge_input(const Step& step, const kernels::Primitive& line, std::int64_t element,
                      const Number& claimed, const InputClaim& claim) {
  const auto right = input_number(step, line, element, claim);
  if (!right.ok()) return fails(right.error());
  return compared(fmt::format("input element {} at step {}", element, step.step), *right, claimed,
                  not_computed("input", *right, claimed, line.dtype));
}

Judgement judge_element(const Step& step, const kernels::Primitive& line, kernels::ValueIndex value,
                        std::int64_t element, const Number& claimed, const OperationClaim& claim) {
  auto opened = OpenedValues::create(claim.operands, step.table, step.task.program.lines);
  if (!opened.ok()) return fails(opened.error());
  const auto compiled = kernels::compile(line, opened->types());
  if (!compiled.ok()) return fails(compiled.error());
  const kernels::ElementTrace trace = kernels::trace_element(*compiled, *opened, element, {});
  if (const auto& missing = opened->missing()) return fails(*missing);
  return compared(element_text(value, element), trace.result, claimed,
                  judged_scalar(trace, line, posted_text(claimed, line.dtype)));
}

Judgement judge_position(const Step& step, const kernels::Primitive& line, kernels::ValueIndex value,
                         std::int64_t element, const FoldLevels::Position& position,
                         const OperationClaim& claim) {
  auto opened = OpenedValues::create(claim.operands, step.table, step.task.program.lines);
  if (!opened.ok()) return fails(opened.error());
  const auto compiled = kernels::compile(line, opened->types());
  if (!compiled.ok()) return fails(compiled.error());
  const kernels::Running before =
      position.before ? *position.before : kernels::fold_start(*compiled, *opened, element);
  const kernels::PositionTrace trace =
      kernels::trace_position(*compiled, *opened, element, position.position, before);
  if (const auto& missing = opened->missing()) return fails(*missing);
  const bool is_argmax = line.kind == Kind::kArgmax;
  const bool same_best = trace.after.value == position.after.value;
  const Number right = is_argmax && same_best ? Number::of(trace.after.where) : trace.after.value;
  const Number claimed = is_argmax && same_best ? Number::of(position.after.where) : position.after.value;
  const std::string what = fmt::format("{} position {}", element_text(value, element), position.position);
  if (!trace.last) return compared(what, right, claimed, not_computed("copy", right, claimed, line.dtype));
  manifest::JudgedScalar scalar = judged_scalar(*trace.last, claimed);
  scalar.result = bits_text(right);
  if (trace.last->place == kernels::Place::kWhen) {  // the condition is false: nothing is computed
    scalar.operation = "keep";
    scalar.operands = {{bits_text(before.value), "accumulator"}};
  }
  return compared(what, right, claimed, std::move(scalar));
}

Judgement judge_non_finite(const Step& step, const NonFiniteClaim& claim) {
  const auto state = merkle::state_digest_of(claim.entry);
  if (!state.ok()) return fails(state.error());
  if (*state != step.after) return fails("the opened entry does not belong to the state after the step");
  if (const Status opens = merkle::check_opening(claim.tensor, claim.entry.tensor); !opens.ok())
    return fails(opens.error());
  if (claim.tensor.dtype != DType::kF32) return fails("the entry holds integers");
  for (std::size_t at = 0; at + 4 <= claim.tensor.data.size(); at += 4) {
    const Number number = number_at(DType::kF32, claim.tensor.data, at);
    if (std::isfinite(number.real)) continue;
    const std::uint64_t element = claim.tensor.leaf * (merkle::kTensorLeafBytes / 4) + at / 4;
    Judgement out =
        proves(fmt::format("element {} of entry {} of the state after the step is {}, which is not finite",
                           element, claim.entry.name, bits_text(number)));
    out.element = static_cast<std::int64_t>(element);
    return out;
  }
  return fails("all numbers of the leaf are finite");
}

}  // namespace dgx::protocol
