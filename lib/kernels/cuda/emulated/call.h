#pragma once

#include <cstdint>

namespace dgx::kernels::cuda::emulated {

/// Runs a kernel for one thread. With DGX_TRANSLATED_KERNELS the kernels are not those of the .cuh files but
/// functions of the same names that tests/gpu/ptx made from nvcc's output: they take the addresses of their
/// arguments.
template <class... A>
void call(void (*kernel)(A...), const A&... arguments) {
#ifdef DGX_TRANSLATED_KERNELS
  const std::uint8_t* const all[] = {reinterpret_cast<const std::uint8_t*>(&arguments)...};
  reinterpret_cast<void (*)(const std::uint8_t* const*)>(reinterpret_cast<void (*)()>(kernel))(all);
#else
  kernel(arguments...);
#endif
}

/// call() for a generated kernel, whose one argument is a struct of addresses.
inline void call_generated(void (*kernel)(const void*), const void* addresses) {
#ifdef DGX_TRANSLATED_KERNELS
  kernel(&addresses);
#else
  kernel(addresses);
#endif
}

}  // namespace dgx::kernels::cuda::emulated
