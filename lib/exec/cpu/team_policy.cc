#include "cpu/team_policy.h"

#include <algorithm>

namespace dgx::exec {
namespace {

constexpr double kLate = 0.25;       // share of a run slept; less may be work that cannot be divided evenly
constexpr int kTrial = 3;            // runs
constexpr int kLeastPatience = 16;   // runs
constexpr int kMostPatience = 4096;  // runs
constexpr double kMostSeconds = 10;  // between trials, so that a CPU that becomes free is used by then
constexpr int kLeastBetweenTrials = 32;  // runs, however long they are

double lately(double before, double now) { return before == 0 ? now : 0.75 * before + 0.25 * now; }

}  // namespace

void TeamPolicy::turn(State to) {
  state_ = to;
  left_ = kTrial;
  (to == State::kTryAlone ? alone_ : together_) = 0;
}

/// Keeps to a state after a trial, and doubles the number of runs until the next one, within limits.
void TeamPolicy::stay(State in) {
  state_ = in;
  const double run = in == State::kAlone ? alone_ : together_;
  const double most =
      std::clamp(kMostSeconds / std::max(run, 1e-9), double{kLeastBetweenTrials}, double{kMostPatience});
  patience_ = std::min(2 * patience_, static_cast<int>(most));
  left_ = patience_;
}

void TeamPolicy::note(double seconds, double slept) {
  double& mean = together() ? together_ : alone_;
  mean = lately(mean, seconds);
  left_ = std::max(left_ - 1, 0);
  if (left_ > 0) return;
  switch (state_) {
    case State::kTogether:
      if (slept > kLate * seconds) turn(State::kTryAlone);
      break;
    case State::kAlone: turn(State::kTryTogether); break;
    case State::kTryAlone:
      if (alone_ > together_) return stay(State::kTogether);
      patience_ = kLeastPatience;
      stay(State::kAlone);
      break;
    case State::kTryTogether:
      if (together_ > alone_) return stay(State::kAlone);
      patience_ = kLeastPatience;
      state_ = State::kTogether;
      break;
  }
}

}  // namespace dgx::exec
