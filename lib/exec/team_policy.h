#pragma once

#include <cstdint>

namespace dgx::exec {

/// Decides run by run whether a team shares its work or the first member does all of it. Where other programs keep the CPUs busy, a
/// member waits at every barrier for one that is not running, and two threads take three times as long as one. Nobody can know beforehand
/// who else wants a CPU, so both ways are tried, seldom, and only once members had to sleep for each other.
class TeamPolicy {
 public:
  /// How the next run should be.
  [[nodiscard]] bool together() const { return state_ == State::kTogether || state_ == State::kTryTogether; }
  /// What that run took, and how much of it the first member slept for the others, in seconds.
  void note(double seconds, double slept);

 private:
  enum class State : std::uint8_t { kTogether, kTryAlone, kAlone, kTryTogether };

  void turn(State to);
  void stay(State in);

  State state_ = State::kTogether;
  int left_ = 0;         // runs before the state may change
  int patience_ = 16;    // runs between two trials that change nothing
  double together_ = 0;  // seconds of a run, lately
  double alone_ = 0;
};

}  // namespace dgx::exec
