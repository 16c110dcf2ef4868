#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// A place in an operator's store, relative to the folder of the signer's key id there: at most this many characters.
inline constexpr std::size_t kMaxLocation = 256;
/// Whether a text is a place that stays in its folder: parts of letters, digits, '.', '_' and '-' with '/' between them,
/// none of them empty, "." or "..".
[[nodiscard]] bool is_location(std::string_view text);
/// 1 to kMaxLocation characters of such a place.
[[nodiscard]] std::string read_location(json::Fields& in, std::string_view key);

/// A solver opens their proof (dgx-protocol(7), "OPENING"): the digests of all committed states and the drawn start states
/// lie in the operator's store. That the ledger has it means that its operator fetched and checked them.
struct Opening {
  static constexpr Kind kKind = Kind::kOpening;

  Digest task;
  Digest proof;  ///< id of the proof statement
  Digest after;  ///< id of the beacon; of the proof itself where no beacon can come any more
  std::string location;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Opening read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
