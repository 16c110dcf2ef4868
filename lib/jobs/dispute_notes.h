#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/program.h"

namespace dgx::jobs {

/// The digests of a segment's states as one party has them: of the state before its first step, and after
/// each.
struct SegmentNotes {
  std::vector<Digest> states;
  std::optional<std::int64_t> broken;  ///< the step that gives a state that is not finite: no states after it
};

/// One step's digests.
struct StepNotes {
  std::vector<merkle::NamedDigest> before;  ///< the entries of the state that it starts from
  std::vector<Digest> values;
  std::vector<merkle::NamedDigest> after;
};

/// What a party has computed of one segment, in a folder: a cache, so that nothing is computed twice, in
/// whatever game. What is damaged, or of another task, start or drill, is as good as absent. The folder may
/// be deleted at any time.
class DisputeNotes {
 public:
  /// `identity` tells this party's replay from any other.
  DisputeNotes(std::string folder, json::Object identity)
      : folder_(std::move(folder)), identity_(std::move(identity)) {}

  [[nodiscard]] std::optional<SegmentNotes> segment() const;
  [[nodiscard]] std::optional<StepNotes> step(std::int64_t step) const;
  /// The steps whose states are there.
  [[nodiscard]] std::vector<std::int64_t> states() const;
  /// With that digest.
  [[nodiscard]] std::optional<State> state(const program::Program& program, std::int64_t step,
                                           const Digest& digest) const;
  [[nodiscard]] std::optional<Tensor> value(const program::Program& program, std::int64_t step,
                                            std::int64_t value, const Digest& digest) const;

  [[nodiscard]] Status keep(const SegmentNotes& notes) const;
  [[nodiscard]] Status keep(std::int64_t step, const StepNotes& notes) const;
  [[nodiscard]] Status keep(std::int64_t step, const State& state) const;
  [[nodiscard]] Status keep(std::int64_t step, std::int64_t value, const Tensor& tensor) const;

 private:
  [[nodiscard]] std::optional<json::Object> read(const std::string& name) const;
  [[nodiscard]] Status write(const std::string& name, json::Object object) const;
  [[nodiscard]] Status make_folders() const;
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  json::Object identity_;
};

}  // namespace dgx::jobs
