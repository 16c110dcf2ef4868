// The specs of models, optimisers and schedules, as users type them and as tasks store them: values survive
// both forms.

#include "dgx/program/specs.h"

#include "target.h"

using namespace dgx;
using namespace dgx::program;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out = {"mlp:784-256-128-10",
                                  "mlp:4-3,activation=gelu-tanh",
                                  "resnet20:classes=10",
                                  "gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0.1,tied",
                                  "sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4",
                                  "adam:lr=1e-3,betas=0.9/0.999,eps=1e-8,weight-decay=0",
                                  "adamw:lr=0.01",
                                  "constant",
                                  "step:every=30,gamma=0.1",
                                  "cosine:warmup=100,min=0",
                                  "linear:warmup=100",
                                  "cross-entropy:label-smoothing=0.1,ignore=255,weights=1/2/0.5"};
  out.push_back(to_json(*parse_optimizer_spec(out[4])).dump());
  out.push_back(to_json(*parse_schedule_spec(out[9])).dump());
  out.push_back(to_json(*parse_loss_spec(out[11])).dump());
  return out;
}

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
  if (const auto spec = parse_schedule_spec(text); spec.ok()) {
    const auto read = schedule_from_json(to_json(*spec), "schedule");
    fuzz::require(read.ok() && *read == *spec, "a schedule spec survives JSON");
  }
  if (const auto spec = parse_loss_spec(text); spec.ok()) {
    const auto read = loss_from_json(to_json(*spec), "loss");
    fuzz::require(read.ok() && *read == *spec, "a loss spec survives JSON");
  }
  const auto value = json::parse_canonical(text);
  if (!value.ok()) return 0;
  if (const auto spec = optimizer_from_json(*value, "optimizer"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted optimiser re-encodes to itself");
  }
  if (const auto spec = schedule_from_json(*value, "schedule"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted schedule re-encodes to itself");
  }
  if (const auto spec = loss_from_json(*value, "loss"); spec.ok()) {
    fuzz::require(to_json(*spec).dump() == text, "an accepted loss re-encodes to itself");
  }
  return 0;
}
