#pragma once

#include <fmt/format.h>

#include <cmath>

#include "dgx/cli/out.h"
#include "dgx/program/number_text.h"

namespace dgx::tools {

/// A loss whose bits count, since proofs commit to them: in JSON with its hex, which is that of the proof.
[[nodiscard]] inline cli::Cell loss_cell(float loss) {
  return {json::Output::of_hex(std::isnan(loss) ? "nan" : program::hex_float(loss)),
          fmt::format("{}", static_cast<double>(loss))};
}

}  // namespace dgx::tools
