#pragma once

#include <cstdint>
#include <string_view>

namespace dgx {

/// Where long work says how far it is. The base class ignores everything: for tests and for callers who do not care.
/// Called from one thread; cheap enough for every step.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Work of `total` units begins ("training", steps). Ends the one before, if it is still there.
  virtual void start(std::string_view /*label*/, std::int64_t /*total*/) {}
  /// `done` of the total; `note` is a word about where it stands ("loss 0.31").
  virtual void update(std::int64_t /*done*/, std::string_view /*note*/ = {}) {}
  virtual void finish() {}
  /// A line for people about what happened; -q silences it.
  virtual void note(std::string_view /*text*/) {}
  /// A line about something the user should look at although the work goes on.
  virtual void warning(std::string_view /*text*/) {}
};

}  // namespace dgx
