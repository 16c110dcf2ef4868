#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/cli/tool.h"

namespace dgx::cli {

/// The option --expect, of commands whose exit code is an answer: the answers that a script relies on.
///
/// Scripts run under `set -e`, where a refutation, exit 1, would end them even if it is what they are about.
/// With `--expect refuted` that answer exits 0 and any other one does not, so that a script goes on exactly
/// if it was right. `--expect accepted,refuted` takes either. Errors keep their codes: none is ever taken for
/// an answer.
class Expected {
 public:
  /// Declares the option; `answers` are all that the command can give. This object outlives the parsing.
  void declare(Command& command, std::vector<std::string> answers);

  /// The exit code of `answer`, one of those declared. Without the option it is `usual`. With it, 0 for an
  /// answer that was expected; for another, with a warning that names both, `usual` or, where that is 0, 1.
  [[nodiscard]] Verdict judge(Out& out, std::string_view answer, Verdict usual) const;

 private:
  std::vector<std::string> expected_;  ///< empty: the option was not given
};

}  // namespace dgx::cli
