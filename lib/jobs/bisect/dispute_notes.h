#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/json.h"
#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/program.h"
#include "task/work_keys.h"

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

/// kCannotCreate if the folder is a symbolic link: it may have come with a stranger's transcript, and notes
/// would be written wherever it leads.
[[nodiscard]] Status refuse_link(const std::string& folder);

/// One party's notes of one segment, in a folder: a cache, so that nothing is computed twice, in whatever
/// game. The folder may lie where strangers' files lie, and may be deleted at any time. So a note counts only
/// if its code was made under the party's work key and its identity is this one; any other is ignored, with a
/// warning. States and numbers have no code: they must have the digest found in a note or by a replay.
class DisputeNotes {
 public:
  /// `identity` distinguishes this party's replay from any other. Keys and progress must outlive the notes.
  DisputeNotes(std::string folder, json::Object identity, const WorkKeys& keys, Progress& progress)
      : folder_(std::move(folder)), identity_(std::move(identity)), keys_(keys), progress_(progress) {}

  [[nodiscard]] std::optional<SegmentNotes> segment() const;
  [[nodiscard]] std::optional<StepNotes> step(std::int64_t step) const;
  /// The steps whose states are noted.
  [[nodiscard]] std::vector<std::int64_t> states() const;
  /// The noted state at `step`, if it has that digest.
  [[nodiscard]] std::optional<State> state(const program::Program& program, std::int64_t step,
                                           const Digest& digest) const;
  [[nodiscard]] std::optional<Tensor> value(const program::Program& program, std::int64_t step,
                                            kernels::ValueIndex value, const Digest& digest) const;

  [[nodiscard]] Status keep(const SegmentNotes& notes) const;
  [[nodiscard]] Status keep(std::int64_t step, const StepNotes& notes) const;
  [[nodiscard]] Status keep(std::int64_t step, const State& state) const;
  [[nodiscard]] Status keep(std::int64_t step, kernels::ValueIndex value, const Tensor& tensor) const;

 private:
  /// nullopt if the note is not there, or not this party's.
  [[nodiscard]] std::optional<json::Object> read(const std::string& name) const;
  [[nodiscard]] Result<json::Object> read_own(const std::string& name) const;
  [[nodiscard]] Status write(const std::string& name, json::Object object) const;
  [[nodiscard]] Status make_folders() const;
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  json::Object identity_;
  const WorkKeys& keys_;
  Progress& progress_;
};

}  // namespace dgx::jobs
