#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dgx/protocol/player.h"
#include "scenes.h"

namespace dgx::test {

/// One thing that a lying executor does.
struct Fault {
  enum class Kind : std::uint8_t {
    kValue,        ///< element `element` of value `value` has bit `bit` flipped; inputs are values, too
    kNan,          ///< it is a NaN that is not 0x7FC00000
    kShape,        ///< the value has another shape, or more elements
    kType,         ///< the value's digest is that of another type
    kDigest,       ///< the value's digest is of nothing
    kTable,        ///< all values from `value` on are those of the step before
    kEntry,        ///< entry `value` of the state after the step has bit `bit` of element `element` flipped
    kEntryDigest,  ///< its digest is of nothing
    kMissing,      ///< it is not there
    kExtra,        ///< behind it there is another that the program does not have
    kTwice,        ///< it is there twice
    kSwapped,      ///< it stands before the one before it
    kRenamed,      ///< its name is none of the program's
    kState,        ///< the digest of the state after the step is of nothing
  };
  Kind kind = Kind::kValue;
  std::int64_t step = 0;
  std::int64_t value = 0;
  std::int64_t element = 0;
  int bit = 0;
  /// True if what is computed afterwards follows from the fault, else from what is right.
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
  void hash();  ///< the state's digest from those of its entries, in their order, good or not
};
struct StepRecord {
  std::vector<std::shared_ptr<const Tensor>> values;
  std::vector<Digest> digests;
};

/// A scene's training evaluated by kernels/ref, with faults. Without faults it is what is right. Steps are
/// computed when asked for and kept; those before the first fault are taken from `honest`, which must outlive
/// it.
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
  std::optional<manifest::OpenedRow> own_row;  ///< of the verdict that the party gave

  [[nodiscard]] const Scene& scene() const { return scene_; }
  [[nodiscard]] const StepRecord& step(std::int64_t step);
  [[nodiscard]] const StateRecord& state_record(std::int64_t step);
  /// Looks how far the segment that begins at `first` can be replayed: whether the state after some step
  /// before `end` is not finite.
  void look(std::int64_t first, std::int64_t end);
  /// True of a cheat who no longer looks at the states after the step for numbers that are not finite.
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

/// A party whose story changes: every answer is that of one of several, drawn anew.
class FickleParty : public protocol::Party {
 public:
  FickleParty(std::vector<protocol::Party*> parties, Dice& dice)
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
