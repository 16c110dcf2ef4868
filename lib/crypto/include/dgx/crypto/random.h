#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::crypto {

/// Fills `out` with the system's random bytes (nonces, beacon secrets); kInternal if there are none.
[[nodiscard]] Status random_bytes(std::span<std::uint8_t> out);

/// Erases buffers that held a key or passphrase; the optimiser cannot remove this.
void erase(std::span<std::uint8_t> bytes);
void erase(std::string& text);

}  // namespace dgx::crypto
