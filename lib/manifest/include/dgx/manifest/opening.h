#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// The most characters of a file's place in an operator's store, relative to the folder there of the signer's
/// key id.
inline constexpr std::size_t kMaxPlace = 256;
/// The most characters of a place that a statement names. Below it lie an opening's files; /sample.h5 has the
/// longest name of them.
inline constexpr std::size_t kMaxLocation = kMaxPlace - std::string_view("/sample.h5").size();
/// True if a text is a place that stays in its folder: 1 to kMaxPlace characters, parts of letters, digits,
/// '.', '_' and '-' with '/' between them, none of them empty, "." or "..".
[[nodiscard]] bool is_place(std::string_view text);
/// True for a place that a statement may name: of at most kMaxLocation characters.
[[nodiscard]] bool is_location(std::string_view text);
/// Reads a location.
[[nodiscard]] std::string read_location(json::Fields& in, std::string_view key);

/// A solver's opening of their proof (dgx-protocol(7), "OPENING"): the digests of all committed states and
/// the drawn start states lie in the operator's store. Being in the ledger means that its operator fetched
/// and checked them.
struct Opening {
  static constexpr Kind kKind = Kind::kOpening;

  Digest task;
  Digest proof;  ///< id of the proof statement
  Digest after;  ///< id of the beacon, or of the proof itself if no beacon can come any more
  std::string location;

  [[nodiscard]] json::Object predicate() const;
  [[nodiscard]] static Opening read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

}  // namespace dgx::manifest
