#include <algorithm>

#include "cpu/inputs.h"
#include "cpu/machine.h"
#include "dgx/exec/executor.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

struct Evaluator::Impl {
  std::shared_ptr<const program::Program> program;
  std::unique_ptr<Machine> machine;
  std::vector<std::pair<ValueIndex, Tensor>> inputs;

  Status set(ValueIndex value, Tensor& to, const TensorView& from, const std::string& what);
};

Evaluator::Evaluator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Evaluator::~Evaluator() = default;

Result<std::unique_ptr<Evaluator>> Evaluator::create(std::shared_ptr<const program::Program> program,
                                                     int threads, const std::vector<ValueIndex>& keep) {
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(program);
  auto team = std::make_shared<ThreadTeam>(std::max(threads, 1));
  DGX_CHECK(check_float_mode(*team));
  const auto& values = impl->program->values;
  std::vector<ValueIndex> results = keep;
  const ValueIndex first{std::max(0, to_number(values.next()) - 3)};
  for (const ValueIndex v : values.indices(first)) results.push_back(v);
  DGX_TRY(impl->machine, Machine::create(impl->program, Fusion::kFused, std::move(team), results));
  for (const ValueIndex v : values.indices()) {
    const Primitive& value = values[v];
    if (value.kind != Kind::kInput) continue;
    const bool constant = value.source.kind == Source::Kind::kConstant;
    impl->inputs.emplace_back(v, constant ? constant_tensor(value) : Tensor(value.dtype, value.shape));
    impl->machine->set_memory(v, impl->inputs.back().second.bytes().data());
  }
  return std::unique_ptr<Evaluator>(new Evaluator(std::move(impl)));
}

Status Evaluator::Impl::set(ValueIndex value, Tensor& to, const TensorView& from, const std::string& what) {
  if (from.dtype != to.dtype() || from.shape != to.shape()) {
    return malformed(what + " is " + std::string(name_of(from.dtype)) + to_string(from.shape) +
                     ", the evaluation program's value " + std::to_string(to_number(value)) + " is " +
                     std::string(name_of(to.dtype())) + to_string(to.shape()));
  }
  std::copy(from.bytes.begin(), from.bytes.end(), to.bytes().begin());
  return {};
}

Status Evaluator::load(const State& state) {
  for (auto& [value, tensor] : impl_->inputs) {
    const Source& source = impl_->program->values[value].source;
    if (source.kind != Source::Kind::kState) continue;
    const Entry* entry = find_entry(state, source.name);
    if (entry == nullptr) return malformed("the state has no entry " + source.name);
    DGX_CHECK(impl_->set(value, tensor, entry->tensor.view(), "entry " + source.name));
  }
  return {};
}

Status Evaluator::run(const std::map<std::string, TensorView, std::less<>>& batch) {
  for (auto& [value, tensor] : impl_->inputs) {
    const Source& source = impl_->program->values[value].source;
    if (source.kind != Source::Kind::kBatch) continue;
    const auto field = batch.find(source.name);
    if (field == batch.end()) return malformed("there is no field " + source.name + " to evaluate");
    DGX_CHECK(impl_->set(value, tensor, field->second, "batch " + source.name));
  }
  return impl_->machine->run([](int) {});
}

std::string Evaluator::explain() const { return exec::explain(impl_->machine->plan()); }

TensorView Evaluator::value(ValueIndex value) const { return impl_->machine->view(value); }

}  // namespace dgx::exec
