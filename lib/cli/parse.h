#pragma once

#include <string>
#include <vector>

#include "dgx/cli/command.h"
#include "dgx/cli/out.h"
#include "dgx/core/result.h"

namespace dgx::cli {

/// What a program is asked about itself, before anything else.
struct Questions {
  bool help = false;
  bool version = false;
  std::optional<std::string> completion;

  [[nodiscard]] bool any() const { return help || version || completion.has_value(); }
};

/// The options of every program, bound to the two.
void declare_common(Command& command, Common& common, Questions& questions);

/// Reads `arguments` into the command's variables and marks the rows that were given. kUsage for everything wrong with them,
/// but unknown options and bad values only if there is no question: whoever asks for help gets it.
[[nodiscard]] Status parse(Command& command, const Questions& questions, std::vector<std::string> arguments);

}  // namespace dgx::cli
