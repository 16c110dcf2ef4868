#pragma once

#include <map>
#include <string>
#include <string_view>

#include "dgx/core/result.h"

namespace dgx::bundle {

/// The files of a sharded model by the names of their tensors, from the text of model.safetensors.index.json:
/// {"metadata":{…},"weight_map":{"NAME":"FILE.safetensors"}}. kMalformed with the position or the name, also
/// for a file that is not in the index's own folder.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_weight_map(std::string_view text);

}  // namespace dgx::bundle
