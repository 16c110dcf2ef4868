#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dgx/exec/executor.h"
#include "dgx/protocol/segments.h"
#include "disputes.h"

namespace dgx::test {

/// A trainer's departures from the task; each may be empty.
struct Lie {
  /// Edits the state from which a step is computed; the committed one stays as it was.
  std::function<void(std::int64_t step, State& state)> before;
  /// Edits the state after a step.
  std::function<void(std::int64_t step, State& state)> after;
  /// Edits a value once it is computed; what follows is computed from it.
  std::function<void(std::int64_t step, kernels::ValueIndex value, const kernels::Primitive&, Tensor&)> value;
  /// Replaces the line by which a value is computed; nullopt: keeps it.
  std::function<std::optional<kernels::Primitive>(const kernels::Primitive& line)> line;
  /// Rounds the operands of dots to bfloat16.
  bool rounds_operands = false;
};

/// A solver with the sources: trains a segment from its honest start with a lie, commits to the resulting
/// state, and defends it with their own numbers.
class LyingTrainer : public protocol::Party {
 public:
  /// Borrows all arguments.
  LyingTrainer(TinyParty& honest, const protocol::Segment& segment, const Lie& lie);

  /// The state in which the segment is claimed to end.
  [[nodiscard]] const Digest& end() const { return digests_.back(); }

  Result<std::optional<std::int64_t>> non_finite_after() override { return std::optional<std::int64_t>(); }
  Result<Digest> state(std::int64_t step) override { return digests_[at(step)]; }
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) override;
  Result<std::vector<Digest>> values(std::int64_t step) override;
  Result<Tensor> value(std::int64_t step, kernels::ValueIndex value) override;
  Result<protocol::DataOpening> data(std::string_view field, std::int64_t element) override {
    return honest_.data(field, element);
  }
  Result<Tensor> entry(std::int64_t step, std::string_view name) override;

 private:
  [[nodiscard]] std::size_t at(std::int64_t step) const {
    return static_cast<std::size_t>(step - segment_.first);
  }
  [[nodiscard]] kernels::ByValue<Tensor> compute(std::int64_t step, const State& from);
  [[nodiscard]] Tensor made(std::int64_t step, kernels::ValueIndex v, const State& from,
                            const kernels::ByValue<Tensor>& values);

  TinyParty& honest_;
  protocol::Segment segment_;
  const Lie& lie_;
  std::map<kernels::ValueIndex, kernels::CompiledPrimitive> other_lines_;
  std::vector<State> states_;
  std::vector<Digest> digests_;
  std::vector<kernels::ByValue<Tensor>> values_;
};

/// The state in a party's record.
[[nodiscard]] State state_of(const StateRecord& record);

/// The training of a small network as a scene: labels in range, initial weights from the seed.
struct Recipe {
  std::vector<std::int64_t> sizes = {5, 8, 3};
  program::Activation activation = program::Activation::kRelu;
  const char* optimizer = "sgd:lr=0.1,momentum=0.9";
  std::optional<double> clip_norm;
};
[[nodiscard]] Scene training_scene(const Recipe& recipe, std::int64_t steps, std::int64_t every,
                                   std::uint64_t seed);
/// The inputs of an executor for the scene's program; borrows the scene.
[[nodiscard]] exec::StepInputs inputs_of(const Scene& scene);

/// A dispute over a proof that commits to these states, unsigned.
[[nodiscard]] protocol::Dispute dispute_over(const Scene& scene, const std::vector<Digest>& states,
                                             std::int64_t segment, manifest::About about);

}  // namespace dgx::test
