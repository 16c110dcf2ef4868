#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dgx::bench {

/// One contender of a measurement: `run` is the whole work once. What another process does is timed by that process: `timed` gives
/// the seconds of so many runs.
struct Side {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  ///< of a run, a number a round
  std::function<double(int)> timed = {};
};

/// The time for which sides are measured. DGX_BENCH_CLOCK=cpu in the environment counts the process's time instead of the wall's
/// where one thread works, for a machine that does other work.
struct Effort {
  double budget = 4;     ///< seconds in all
  int least_rounds = 5;
  int threads = 1;
};

/// Rounds in which every side has its turn, so that whatever else the machine does hits them alike. A turn begins with a pause in
/// which the other sides' idle workers fall asleep, and a run that is not timed, unless that would take longer than half a second.
void measure_in_turns(std::vector<Side>& sides, const Effort& effort);

[[nodiscard]] double median(std::vector<double> numbers);
/// The middle half of the numbers, from quartile to quartile, as a share of their median.
[[nodiscard]] double spread(std::vector<double> numbers);

/// One figure beside a peer's. `ratio` is how many times as fast dgx is, whichever way the unit counts.
struct Row {
  std::string name;
  int threads = 1;
  std::string unit;
  bool more_is_better = false;
  double dgx = 0, dgx_spread = 0;
  std::string peer_name = {};  ///< empty: nothing to compare with
  double peer = 0, peer_spread = 0;
  std::optional<long long> dgx_bytes = {}, peer_bytes = {};  ///< peak memory
  std::optional<double> roof = {};   ///< the share of what the machine can do at most that dgx reaches
  std::optional<double> zeros = {};  ///< the share of the terms of its products that are zero
};

/// A row of one JSON object, or of text.
void print(const Row& row, bool json);

/// `sides[0]` is dgx; one row for each of the others, or one without a peer. Seconds become `work / seconds` where `work` is not 0,
/// and are multiplied by `factor`.
void print_rows(const std::string& name, const std::vector<Side>& sides, int threads, const std::string& unit, double factor,
                double work, bool json);

}  // namespace dgx::bench
