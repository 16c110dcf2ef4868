#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dgx/protocol/player.h"
#include "scenes.h"

namespace dgx::test {

/// One fault of a lying executor.
struct Fault {
  enum class Kind : std::uint8_t {
    kValue,        ///< element `element` of value `value` has bit `bit` flipped; inputs are values, too
    kNan,          ///< the element is a NaN other than 0x7FC00000
    kShape,        ///< the value has another shape, or more elements
    kType,         ///< the value's digest is that of another type
    kDigest,       ///< the value's digest is a digest of nothing
    kTable,        ///< all values from `value` on are the previous step's
    kEntry,        ///< entry `value` of the state after the step has bit `bit` of element `element` flipped
    kEntryDigest,  ///< the entry's digest is a digest of nothing
    kMissing,      ///< the entry is missing
    kExtra,        ///< after the entry comes another that the program does not have
    kTwice,        ///< the entry occurs twice
    kSwapped,      ///< the entry comes before its predecessor
    kRenamed,      ///< the entry has a name that no entry of the program has
    kState,        ///< the digest of the state after the step is a digest of nothing
  };
  Kind kind = Kind::kValue;
  std::int64_t step = 0;
  std::int64_t value = 0;
  std::int64_t element = 0;
  int bit = 0;
  /// True if everything computed afterwards follows from the fault; else it is what is right.
  bool consistent = true;
};
[[nodiscard]] std::string to_string(const Fault& fault);
/// A fault of any kind at any place of the scene's steps [first, end).
[[nodiscard]] Fault draw_fault(const Scene& scene, std::int64_t first, std::int64_t end, Dice& dice);

/// The state of a party's replay at one step.
struct StateRecord {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<const Tensor>> tensors;
  std::vector<Digest> digests;
  Digest digest;
  void hash();  ///< computes the state's digest from its entries', in their order, valid or not
};
struct StepRecord {
  kernels::ByValue<std::shared_ptr<const Tensor>> values;
  std::vector<Digest> digests;
};

/// A scene's training evaluated by kernels/ref, with faults; without faults it is the truth. Steps are
/// computed on demand and kept; those before the first fault are taken from `honest`, which must outlive it.
class TinyParty : public protocol::Party {
 public:
  explicit TinyParty(const Scene& scene, std::vector<Fault> faults = {}, TinyParty* honest = nullptr);

  Result<std::optional<std::int64_t>> non_finite_after() override;
  Result<Digest> state(std::int64_t step) override;
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) override;
  Result<std::vector<Digest>> values(std::int64_t step) override;
  Result<Tensor> value(std::int64_t step, kernels::ValueIndex value) override;
  Result<protocol::DataOpening> data(std::string_view field, std::int64_t element) override;
  Result<Tensor> entry(std::int64_t step, std::string_view name) override;
  Result<manifest::OpenedRow> row(std::int64_t segment) override;
  std::optional<manifest::OpenedRow> own_row;  ///< of the party's own verdict

  [[nodiscard]] const Scene& scene() const { return scene_; }
  [[nodiscard]] const StepRecord& step(std::int64_t step);
  [[nodiscard]] const StateRecord& state_record(std::int64_t step);
  /// Finds how far the segment that begins at `first` can be replayed: whether the state after some step
  /// before `end` is not finite.
  void look(std::int64_t first, std::int64_t end);
  /// True for a cheat who ignores non-finite numbers in the states after the step.
  bool ignores_non_finite = false;

 private:
  [[nodiscard]] std::vector<Fault> faults_at(std::int64_t step) const;
  [[nodiscard]] Tensor input(const kernels::Primitive& line, std::int64_t step);
  [[nodiscard]] StepRecord compute(std::int64_t step);
  [[nodiscard]] StateRecord after(std::int64_t step);

  const Scene& scene_;
  std::vector<Fault> faults_;
  TinyParty* honest_;
  std::int64_t shared_ = 0;  ///< steps before this one are the honest party's
  std::optional<std::int64_t> broken_;
  std::map<std::int64_t, StepRecord> steps_;
  std::map<std::int64_t, StateRecord> states_;
};

/// A party whose story changes: every answer is drawn from one of several.
class ChangingParty : public protocol::Party {
 public:
  ChangingParty(std::vector<protocol::Party*> parties, Dice& dice)
      : parties_(std::move(parties)), dice_(dice) {}

  Result<std::optional<std::int64_t>> non_finite_after() override { return one().non_finite_after(); }
  Result<Digest> state(std::int64_t step) override { return one().state(step); }
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t step) override { return one().entries(step); }
  Result<std::vector<Digest>> values(std::int64_t step) override { return one().values(step); }
  Result<Tensor> value(std::int64_t step, kernels::ValueIndex v) override { return one().value(step, v); }
  Result<protocol::DataOpening> data(std::string_view field, std::int64_t element) override {
    return one().data(field, element);
  }
  Result<Tensor> entry(std::int64_t step, std::string_view name) override { return one().entry(step, name); }

 private:
  protocol::Party& one() { return *dice_.pick(parties_); }
  std::vector<protocol::Party*> parties_;
  Dice& dice_;
};

}  // namespace dgx::test
