#pragma once

#include <cstddef>

#include "dgx/core/json.h"
#include "dgx/merkle/openings.h"

namespace dgx::manifest {

/// The most characters of an opened entry's name. States in bundles may have names that no program has.
inline constexpr std::size_t kMaxOpenedName = 512;

/// {"count","digest","index","name","path"}: dgx-dispute(7), "Evidence".
[[nodiscard]] json::Value entry_json(const merkle::EntryOpening& entry);
[[nodiscard]] merkle::EntryOpening read_entry(json::Fields& in);

}  // namespace dgx::manifest
