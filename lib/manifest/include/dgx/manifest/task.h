#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/core/tensor.h"
#include "dgx/manifest/policy.h"
#include "dgx/manifest/subject.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/specs.h"

namespace dgx::manifest {

inline constexpr std::size_t kMaxTaskBytes = 16 * 1024;

/// A line file bound by its RFC 6962 root (leaf i = line i) and number of lines.
struct ProgramReference {
  Digest root;
  std::int64_t lines = 0;
  bool operator==(const ProgramReference&) const = default;
};

/// The source of the initial state. Either way the digest decides.
enum class InitialSource { kSeed, kFile };
[[nodiscard]] std::string_view name_of(InitialSource source);

struct InitialState {
  Digest digest;
  InitialSource source = InitialSource::kSeed;
  bool operator==(const InitialState&) const = default;
};

/// Type and shape of one sample's field.
struct DatasetField {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const DatasetField&) const = default;
};

struct DatasetReference {
  Digest digest;
  std::int64_t samples = 0;
  /// By name: an x, perhaps a y, and others; at most merkle::kMaxFields.
  std::map<std::string, DatasetField, std::less<>> fields;

  /// The field, or nullptr.
  [[nodiscard]] const DatasetField* find(std::string_view name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? nullptr : &found->second;
  }
  bool operator==(const DatasetReference&) const = default;
};

/// The cost of the work, computed by protocol::estimate. Operations are weighted; money is in base units.
struct Estimate {
  std::int64_t step_operations = 0;
  std::int64_t train = 0;     ///< operations of all steps
  std::int64_t prove = 0;     ///< operations of hashing every committed state
  std::int64_t verify = 0;    ///< operations of replaying the policy's sample
  std::int64_t reward = 0;    ///< the solver's pay
  std::int64_t fee = 0;       ///< the verifier's pay, at most
  std::int64_t tax = 0;       ///< part paid to the jackpot
  std::int64_t treasury = 0;  ///< part paid to the treasury
  std::int64_t margin = 0;    ///< locked for contingencies
  std::int64_t escrow = 0;    ///< sum of the five above, locked when the task is posted
  bool operator==(const Estimate&) const = default;
};

/// The longest time that a task may cap a run at: 366 days.
inline constexpr std::int64_t kMaxMilliseconds = std::int64_t{366} * 86'400'000;

/// Upper bounds on any run of this task, checked by whoever would do the work.
struct Caps {
  std::int64_t steps = 0;
  std::int64_t bytes = 0;  ///< size of one state, exactly
  std::int64_t milliseconds = 0;
  std::int64_t constant_bytes = 0;  ///< size of the entries of a state that no step changes, exactly
  bool operator==(const Caps&) const = default;
};

/// A signed description of a training job (dgx-manifest(5), "Task"): everything a stranger needs to train,
/// and a verifier to replay, given the program, the data and the initial state that it binds. The payload has
/// at most kMaxTaskBytes.
struct Task {
  static constexpr Kind kKind = Kind::kTask;

  ProgramReference program;
  ProgramReference evaluation;
  InitialState initial;
  DatasetReference dataset;
  std::string model;  ///< the spec as given, for people
  program::LossSpec loss;
  program::OptimizerSpec optimizer;
  program::ScheduleSpec schedule;
  std::optional<double> clip_norm;  ///< above zero, finite
  program::UpdateSpec update;
  std::optional<program::CutSpec> cut;
  std::int64_t batch = 0;
  std::int64_t steps = 0;  ///< at least 2
  std::uint64_t seed = 0;
  std::int64_t checkpoint_every = 0;  ///< at least 2
  std::string numerics = "exact-1";
  Policy policy;
  std::int64_t price = 0;  ///< base units per 10^9 weighted operations
  Estimate estimate;
  Caps caps;
  /// Id of the ledger's first entry: the only market in which the task counts. Without it no ledger takes the
  /// task.
  std::optional<Digest> ledger;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Task read(json::Fields& in);
  /// program, evaluation, initial state, dataset.
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
