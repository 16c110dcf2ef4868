#pragma once

#include <cstddef>

#include "dgx/core/json.h"
#include "dgx/merkle/openings.h"

namespace dgx::manifest {

/// Of an entry that is opened. A state may have names that no program has: a bundle's.
inline constexpr std::size_t kMaxOpenedName = 512;

/// {"count","digest","index","name","path"}: dgx-dispute(7), "Evidence".
[[nodiscard]] json::Value entry_json(const merkle::EntryOpening& entry);
[[nodiscard]] merkle::EntryOpening read_entry(json::Fields& in);

}  // namespace dgx::manifest
