#pragma once

#include <optional>
#include <string>

#include "bisect/dispute_files.h"
#include "dgx/core/files.h"
#include "dgx/protocol/game.h"

namespace dgx::jobs {

/// A demand for part `part` (a MiB, from 0) of entry `name`. kUsage if the program has no such entry, or the
/// entry no such part.
[[nodiscard]] Result<manifest::ChunkReference> chunk_reference(const program::Program& program,
                                                               const std::string& name, std::int64_t part);
/// The answer to such a demand, from the committed state: the part's root, and the location of its bytes,
/// which are written there if there is a store. kCannotCreate if other bytes lie there, unless forced.
[[nodiscard]] Result<protocol::Message> answer_chunk(const protocol::Game& game, const State& state,
                                                     const std::string& location,
                                                     const std::optional<std::string>& store,
                                                     Clobber clobber);

}  // namespace dgx::jobs
