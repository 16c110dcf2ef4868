#pragma once

namespace dgx::crypto {

/// Prepares libsodium once per process, from any thread; false if the system gives it no random numbers.
[[nodiscard]] bool sodium_ready();

}  // namespace dgx::crypto
