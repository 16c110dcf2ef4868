#include "worker_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "linear_line.h"
#include "worker_folds.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Coordinate;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;
using program::SampleClass;

namespace {

void count_indices_from_one(Coordinate& coordinate) {
  for (Term& term : coordinate.terms) {
    if (term.symbol == Term::Symbol::kIndex) ++term.index;
  }
}

void count_indices_from_one(std::vector<Step>& steps) {
  for (Step& step : steps) {
    for (Operand& operand : step.operands) {
      if (operand.kind == Operand::Kind::kIndex) ++operand.index;
    }
  }
}

/// The gradient seen in rows of workers: `value` has one in front of each of its dimensions.
TensorForm with_rows(TensorForm form, ValueIndex value, std::int64_t workers) {
  form.value = value;
  for (Shape* shape : {&form.shape, &form.value_shape, &form.base}) shape->insert(shape->begin(), workers);
  for (Coordinate& coordinate : form.coordinates) count_indices_from_one(coordinate);
  form.coordinates.insert(form.coordinates.begin(), output_index(0));
  return form;
}

/// The gradient as that of a single worker.
TensorForm as_one_row(const TensorForm& form) {
  Shape shape = form.shape;
  shape.insert(shape.begin(), 1);
  auto indices = output_indices(shape.size());
  indices.erase(indices.begin());
  return remap(form, std::move(shape), indices);
}

}  // namespace

Result<TensorForm> WorkerGradients::of(const std::string& name, const TensorForm& gradient) {
  if (gradient.shape.size() == kMaxRank)
    return usage_error(fmt::format(
        "dgc: {} has {} dimensions, so its workers' gradients have no room for one more", name, kMaxRank));
  if (workers_ == 1 || gradient.splat == kernels::Literal(0.0F)) {
    TensorForm row = as_one_row(gradient);
    if (gradient.splat) row.shape[0] = workers_;
    return row;
  }
  if (gradient.splat) return refusal(name, kernels::kNoValue);
  classify_new_lines();
  const bool adds_fill = gradient.fill && *gradient.fill != kernels::Literal(0.0F);
  if (divisions_[gradient.value] == Division::kNone || adds_fill || gradient.base.size() == kMaxRank)
    return refusal(name, gradient.value);
  return with_rows(gradient, rows_of(gradient.value), workers_);
}

void WorkerGradients::classify_new_lines() {
  const program::Program& program = builder_.program();
  for (std::size_t n = classes_.size(); n < program.values.size(); ++n) {
    const auto v = ValueIndex(n);
    classes_.push_back(class_by_reads(program, v, classes_, samples_));
    divisions_.push_back(division_of(program.values[v], classes_[v]));
    rows_.push_back(kernels::kNoValue);
  }
}

WorkerGradients::Division WorkerGradients::division_of(const Primitive& line, SampleClass of) const {
  if (of == SampleClass::kSharded) return Division::kNone;
  if (of == SampleClass::kCarried)
    return folds_of_workers(line, workers_) ? Division::kFolds : Division::kNone;
  const bool is_divided = is_linear(line, [&](ValueIndex v) { return divisions_[v] != Division::kNone; }) &&
                          is_within_caps(line_of_rows(line));
  return is_divided ? Division::kLinear : Division::kNone;
}

Primitive WorkerGradients::line_of_rows(const Primitive& line) const {
  Primitive out = line;
  out.shape.insert(out.shape.begin(), workers_);
  if (out.iteration) out.iteration->insert(out.iteration->begin(), workers_);
  count_indices_from_one(out.steps);
  count_indices_from_one(out.when);
  for (Access& access : out.accesses) {
    for (Coordinate& coordinate : access.coordinates) count_indices_from_one(coordinate);
    if (divisions_[access.value] == Division::kNone) continue;
    if (access.view) access.view->insert(access.view->begin(), workers_);
    access.coordinates.insert(access.coordinates.begin(), output_index(0));
    if (rows_[access.value] != kernels::kNoValue) access.value = rows_[access.value];
  }
  return out;
}

ValueIndex WorkerGradients::rows_of(ValueIndex value) {
  // The lines that it is made of come before it: found from the last, written from the first.
  std::vector<ValueIndex> needed;
  const auto end = static_cast<std::size_t>(value) + 1;
  kernels::ByValue<bool> is_needed(end, false);
  is_needed[value] = true;
  for (std::size_t n = end; n-- > 0;) {
    const auto v = ValueIndex(n);
    if (!is_needed[v] || rows_[v] != kernels::kNoValue) continue;
    needed.push_back(v);
    if (divisions_[v] != Division::kLinear) continue;
    for (const Access& access : builder_.values()[v].accesses)
      is_needed[access.value] = divisions_[access.value] != Division::kNone;
  }
  for (auto v = needed.rbegin(); v != needed.rend(); ++v) {
    const Primitive& line = builder_.values()[*v];
    Primitive rows =
        divisions_[*v] == Division::kFolds ? *folds_of_workers(line, workers_) : line_of_rows(line);
    rows_[*v] = builder_.append(std::move(rows));
  }
  return rows_[value];
}

Error WorkerGradients::refusal(const std::string& name, ValueIndex value) const {
  const std::string line = value == kernels::kNoValue ? "a number" : builder_.values()[value].provenance;
  return usage_error(
      fmt::format("dgc: the gradient of {} ({}) is no sum over the samples that {} workers could share", name,
                  line, workers_),
      "leave --workers out, freeze the parameter, or take another optimizer");
}

}  // namespace dgx::lowering
