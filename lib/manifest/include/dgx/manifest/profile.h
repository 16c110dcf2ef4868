#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// One replay of the profile's segments, with its own instruction set and threads.
struct ProfileReplay {
  std::string instructions;  ///< "avx512", "avx2", "neon", "scalar"
  std::int64_t threads = 0;
  std::int64_t segments = 0;
  std::int64_t steps = 0;
  std::int64_t differing = 0;  ///< segments whose end state differs from the first replay's
  std::int64_t nanoseconds_per_step = 0;
  bool operator==(const ProfileReplay&) const = default;
};

/// A measurement, for deadlines and prices, of how far honest replays of an exact task differ (not at all),
/// of how far another seed ends up, and of rates. Rates and sizes are the measuring machine's.
struct Profile {
  static constexpr Kind kKind = Kind::kProfile;

  Digest task;
  std::vector<ProfileReplay> replays;  ///< 1 to 256
  double other_seed_distance = 0;  ///< relative L2 distance of another seed's parameters after the same steps
  std::int64_t operations_per_second = 0;
  std::int64_t memory_bytes = 0;
  /// Time in which the machine replays the task's longest segment; at least 1.
  std::int64_t segment_milliseconds = 0;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Profile read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
