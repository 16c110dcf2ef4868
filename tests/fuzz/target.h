#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

/// A fuzz target: one source file per parser defines this function and seeds(). libFuzzer or replay.cc drives
/// it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dgx::fuzz {

/// Inputs to start from, most of them accepted. Made by code, so that they follow changes of the format.
[[nodiscard]] std::vector<std::string> seeds();

/// Ends the process if a property does not hold: both drivers treat that as a crash and keep the input.
inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", property);
  std::abort();
}

[[nodiscard]] inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace dgx::fuzz
