#pragma once

#include <string_view>

#include "dgx/core/result.h"
#include "dgx/manifest/envelope.h"

namespace dgx::manifest {

/// The parts of parse_envelope(): first the envelope, whatever its payload is, then the payload. Statements
/// are read without the second, which would parse the payload once more: encoding what was read again shows
/// whether it was canonical.
[[nodiscard]] Result<Envelope> parse_frame(std::string_view text);
/// kMalformed, with the position, for a payload that is not canonical JSON.
[[nodiscard]] Status check_payload(std::string_view payload);

}  // namespace dgx::manifest
