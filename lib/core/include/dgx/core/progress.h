#pragma once

#include <cstdint>
#include <string_view>

namespace dgx {

/// Progress reports of long work. The base class ignores them all: for tests and for callers who do not care.
/// Called from one thread; cheap enough for every step.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Begins work of `total` units ("training", steps). Ends the previous work, if it is not finished.
  virtual void start(std::string_view /*label*/, std::int64_t /*total*/) {}
  /// `done` units of the total are done; `note` is a word about the state ("loss 0.31").
  virtual void update(std::int64_t /*done*/, std::string_view /*note*/ = {}) {}
  virtual void finish() {}
  /// A line for people about what happened; -q silences it.
  virtual void note(std::string_view /*text*/) {}
  /// A line about a problem that the user should look at although the work goes on.
  virtual void warning(std::string_view /*text*/) {}
};

}  // namespace dgx
