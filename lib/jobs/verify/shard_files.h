#pragma once

#include <string>

#include "dgx/core/result.h"
#include "dgx/protocol/shards.h"
#include "task/work_keys.h"

namespace dgx::jobs {

/// Reads a shard that was made under one of the keys, by this version. kUnauthorised for one that was not;
/// kMissing, kMalformed.
[[nodiscard]] Result<protocol::Shard> read_shard(const std::string& path, protocol::ShardRole role,
                                                 const WorkKeys& keys);

}  // namespace dgx::jobs
