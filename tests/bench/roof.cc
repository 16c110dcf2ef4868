#include "roof.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "dgx/kernels/evaluate.h"
#include "dgx/program/cost.h"

namespace dgx::bench {
namespace {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;

double bytes_of(const Primitive& value) {
  return static_cast<double>(*element_count(value.shape)) * static_cast<double>(size_of(value.dtype));
}

bool is_state(const Primitive& value) {
  return value.kind == Kind::kInput && value.source.kind == kernels::Source::Kind::kState;
}

/// Index of the value that becomes the state entry `loss`: those before it are the forward pass.
ValueIndex loss_of(const program::Program& program) {
  for (const Primitive& value : program.values) {
    if (is_state(value) && value.source.name == "loss" && value.next) return *value.next;
  }
  return program.values.next();
}

}  // namespace

Least least_of(const program::Program& program, std::int64_t batch, std::int64_t row_bytes) {
  const ValueIndex loss = loss_of(program);
  Least out{0, static_cast<double>(batch * row_bytes)};
  std::set<ValueIndex> kept;
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& value = program.values[v];
    if (is_state(value)) out.bytes += 2 * bytes_of(value);
    if (value.kind == Kind::kDot)
      out.flop += 2 * static_cast<double>(*element_count(value.shape)) *
                  static_cast<double>(*element_count(value.fold));
    if (v <= loss) continue;
    for (const kernels::Access& access : value.accesses) {
      if (access.value < loss && program.values[access.value].kind != Kind::kInput) kept.insert(access.value);
    }
  }
  for (const ValueIndex v : kept) out.bytes += 2 * bytes_of(program.values[v]);
  return out;
}

double zero_terms(const program::Program& program, const kernels::ByValue<Tensor>& values) {
  // A dot of ones and zeros counts the terms that are not zero.
  kernels::ByValue<Tensor> ones;
  for (const Tensor& value : values) {
    ones.push_back(Tensor(value.dtype(), value.shape()));
    if (value.dtype() != DType::kF32) continue;
    std::transform(value.as<float>().begin(), value.as<float>().end(), ones.back().as<float>().begin(),
                   [](float x) { return x == 0 ? 0.0F : 1.0F; });
  }
  kernels::ByValue<TensorView> views;
  for (const Tensor& tensor : ones) views.push_back(tensor.view());
  kernels::ByValue<kernels::ValueType> types;
  for (const Primitive& value : program.values) types.push_back({value.dtype, value.shape});
  double all = 0, counted = 0;
  for (const Primitive& value : program.values) {
    if (program::role_of(value) != program::WorkRole::kMatrixProduct) continue;
    Tensor sums(value.dtype, value.shape);
    const auto compiled = kernels::compile(value, types);
    if (!compiled.ok() || !kernels::evaluate_all(*compiled, views, sums, 0, sums.count()).ok()) std::abort();
    for (const float sum : sums.as<float>()) counted += static_cast<double>(sum);
    all += static_cast<double>(sums.count()) * static_cast<double>(*element_count(value.fold));
  }
  return all > 0 ? 1 - counted / all : 0;
}

}  // namespace dgx::bench
