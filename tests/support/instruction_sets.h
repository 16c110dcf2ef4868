#pragma once

#include <catch2/catch.hpp>

#include "dgx/kernels/cpu/dispatch.h"

namespace dgx::test {

/// Runs `body(set)` under every instruction set that this processor has, and restores the one that was
/// chosen.
template <class Body>
void with_every_instruction_set(const Body& body) {
  const auto best = kernels::cpu::current_instruction_set();
  for (const auto set : kernels::cpu::available_instruction_sets()) {
    REQUIRE(kernels::cpu::force_instruction_set(set).ok());
    CAPTURE(name_of(set));
    body(set);
  }
  REQUIRE(kernels::cpu::force_instruction_set(best).ok());
}

}  // namespace dgx::test
