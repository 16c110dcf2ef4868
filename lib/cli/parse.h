#pragma once

#include <string>
#include <vector>

#include "dgx/cli/command.h"
#include "dgx/cli/out.h"
#include "dgx/core/result.h"

namespace dgx::cli {

/// The options that ask a program about itself; they are answered before anything else.
struct Questions {
  bool help = false;
  bool version = false;
  std::optional<std::string> completion;

  [[nodiscard]] bool any() const { return help || version || completion.has_value(); }
};

/// Declares the options of every program, bound to `common` and `questions`.
void declare_common(Command& command, Common& common, Questions& questions);

/// Reads `arguments` into the command's variables and marks the rows that were given. kUsage for anything
/// wrong with them; if a question is asked, unknown options and bad values are let pass, so that a request
/// for help is answered.
[[nodiscard]] Status parse(Command& command, const Questions& questions, std::vector<std::string> arguments);

}  // namespace dgx::cli
