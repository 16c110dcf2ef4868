// The specs of models, optimisers and schedules, as users type them and as tasks store them: values survive
// both forms.

#include "dgx/program/specs.h"
#include "dgx/program/cut_spec.h"

#include "target.h"

using namespace dgx;
using namespace dgx::program;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out = {
      "mlp:784-256-128-10",
      "mlp:4-3,activation=gelu-tanh",
      "resnet20:classes=10",
      "gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0.1,tied",
      "switch:experts=8,capacity=0.5,balance=0.01,every=3,layers=6,dropout=0.1,tied",
      "sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4",
      "adam:lr=1e-3,betas=0.9/0.999,eps=1e-8,weight-decay=0",
      "adamw:lr=0.01",
      "constant",
      "step:every=30,gamma=0.1",
      "cosine:warmup=100,min=0",
      "linear:warmup=100",
      "lion:lr=1e-4,betas=0.9/0.99,weight-decay=0",
      "rmsprop:lr=1e-2,alpha=0.99,eps=1e-8,momentum=0.9,centered",
      "adagrad:lr=1e-2,lr-decay=0.1,weight-decay=0,eps=1e-10,initial=0.1",
      "dgc:lr=0.1,momentum=0.9,density=0.001,warmup=400,clip=1,bits=8",
      "3:forward=2,backward=8,first=469",
      R"({"backward":8,"block":3,"first":469,"forward":2})",
      "cosine:cycles=4,warmup=5%",
      "polynomial:power=2.5,min=0",
      "inverse-sqrt:warmup=100",
      "wsd:decay=10%,min=0",
      "one-cycle:up=0.3,start=0.004,end=1e-6",
      "plateau:every=20,factor=0.5,patience=3,threshold=1e-3,cooldown=1,min=1e-6",
      "bce:pos-weights=1/2.5",
      "huber:delta=0.5",
      "cross-entropy:label-smoothing=0.1,ignore=255,weights=1/2/0.5"};
  const std::vector<std::string> texts = out;
  for (const std::string& text : texts) {
    if (const auto spec = parse_optimizer_spec(text); spec.ok()) out.push_back(to_json(*spec).dump());
    if (const auto spec = parse_schedule_text(text); spec.ok())
      out.push_back(to_json(*fix_schedule(*spec, 0.1, 1000)).dump());
    if (const auto spec = parse_loss_spec(text); spec.ok()) out.push_back(to_json(*spec).dump());
  }
  return out;
}

namespace {

/// A schedule that fits its task gives a rate from 0 up to the learning rate at every step, but for `step`,
/// whose gamma may be above 1.
void require_rates(const ScheduleSpec& spec, std::int64_t steps) {
  const auto parameters = schedule_parameters({}, spec, steps);
  if (!parameters.ok() || spec.kind == kernels::ScheduleKind::kStep) return;
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{1}, steps / 3, steps / 2, steps - 2, steps - 1}) {
    const double rate = kernels::learning_rate_at(*parameters, step);
    fuzz::require(rate >= 0 && rate <= parameters->learning_rate * 1.000001, "a rate is in range");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto spec = parse_model_spec(text); spec.ok()) {
    const auto again = parse_model_spec(print_model_spec(*spec));
    fuzz::require(again.ok() && *again == *spec, "a model spec survives its text");
    fuzz::require(is_model_spec(text), "an accepted model spec names a built-in model");
  }
  if (const auto spec = parse_optimizer_spec(text); spec.ok()) {
    const auto read = optimizer_from_json(to_json(*spec), "optimizer");
    fuzz::require(read.ok() && *read == *spec, "an optimiser spec survives JSON");
  }
  if (const auto typed = parse_schedule_text(text); typed.ok()) {
    for (const std::int64_t steps : {std::int64_t{2}, std::int64_t{1000}, std::int64_t{1} << 40}) {
      const auto spec = fix_schedule(*typed, 0.1, steps);
      if (!spec.ok()) continue;
      const auto read = schedule_from_json(to_json(*spec), "schedule");
      fuzz::require(read.ok() && *read == *spec, "a schedule spec survives JSON");
      require_rates(*spec, steps);
    }
  }
  if (const auto spec = parse_loss_spec(text); spec.ok()) {
    const auto read = loss_from_json(to_json(*spec), "loss");
    fuzz::require(read.ok() && *read == *spec, "a loss spec survives JSON");
  }
  if (const auto cut = parse_cut_spec(text); cut.ok()) {
    const json::Value value(to_json(cut->spec));
    json::Fields in(value, "cut");
    const CutSpec read = read_cut(in);
    fuzz::require(in.finish().ok() && read == cut->spec, "a cut survives JSON");
    fuzz::require(!check_cut(cut->spec, ModelSpec(ResNetSpec{})).ok(), "a residual network has no cut");
  }
  const auto value = json::parse_canonical(text);
  if (!value.ok()) return 0;
  if (value->as_object() != nullptr) {
    json::Fields in(*value, "cut");
    const CutSpec cut = read_cut(in);
    if (in.finish().ok())
      fuzz::require(json::Value(to_json(cut)).dump() == text, "an accepted cut re-encodes to itself");
  }
  if (const auto spec = optimizer_from_json(*value, "optimizer"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted optimiser re-encodes to itself");
  }
  if (const auto spec = schedule_from_json(*value, "schedule"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted schedule re-encodes to itself");
    require_rates(*spec, 1000);
  }
  if (const auto spec = loss_from_json(*value, "loss"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted loss re-encodes to itself");
  }
  return 0;
}
