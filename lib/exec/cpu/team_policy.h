#pragma once

#include <cstdint>

namespace dgx::exec {

/// Decides, run by run, whether the team shares the work or member 0 does all of it. Where other programs
/// keep the CPUs busy, members wait at every barrier for one that is not running, and two threads take three
/// times as long as one. Other programs' load cannot be known beforehand, so both ways are tried: seldom, and
/// only once members had to sleep for each other.
///
/// A trial is a few runs the other way. If they are faster, the policy stays there; if not, it goes back, and
/// waits twice as many runs before it tries again. It also tries again while it runs alone: CPUs become free.
class TeamPolicy {
 public:
  /// True if the team should share the next run.
  [[nodiscard]] bool together() const { return state_ == State::kTogether || state_ == State::kTryTogether; }
  /// Records that run: the seconds it took, and how many of them member 0 slept waiting for the others.
  void note(double seconds, double slept);

 private:
  enum class State : std::uint8_t { kTogether, kTryAlone, kAlone, kTryTogether };

  void turn(State to);
  void stay(State in);

  State state_ = State::kTogether;
  int left_ = 0;         // runs before the state may change
  int patience_ = 16;    // runs from a trial that changed nothing to the next
  double together_ = 0;  // seconds of a run, a moving average
  double alone_ = 0;
};

}  // namespace dgx::exec
