#pragma once

namespace dgx::crypto {

/// Initialises libsodium once per process, from any thread; false if the system gives it no random numbers.
[[nodiscard]] bool sodium_ready();

}  // namespace dgx::crypto
