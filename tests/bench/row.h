#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dgx::bench {

/// One contender of a measurement: `run` does the whole work once. Work of another process is timed there:
/// `timed` gives the seconds of that many runs.
struct Side {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  ///< of one run, a number for each round
  std::function<double(int)> timed = {};
};

/// The effort spent on measuring. With DGX_BENCH_CLOCK=cpu in the environment, one-threaded work counts
/// process time instead of wall time, for a machine that does other work.
struct Effort {
  double budget = 4;  ///< seconds in total
  int least_rounds = 5;
  int threads = 1;
};

/// Measures in rounds in which every side has a turn, so that other load hits them alike. A turn begins with
/// a pause in which the other sides' idle workers fall asleep, and an untimed run, unless that would take
/// longer than half a second.
void measure_in_turns(std::vector<Side>& sides, const Effort& effort);

[[nodiscard]] double median(std::vector<double> numbers);
/// The interquartile range of the numbers as a share of their median.
[[nodiscard]] double spread(std::vector<double> numbers);

/// One figure compared with a peer's. Its ratio is how many times as fast dgx is, whichever way the unit
/// counts.
struct Row {
  std::string name;
  int threads = 1;
  std::string unit;
  bool more_is_better = false;
  double dgx = 0, dgx_spread = 0;
  std::string peer_name = {};  ///< empty: nothing to compare with
  double peer = 0, peer_spread = 0;
  std::optional<long long> dgx_bytes = {}, peer_bytes = {};  ///< peak memory
  std::optional<double> roof = {};   ///< the share of the machine's peak that dgx reaches
  std::optional<double> zeros = {};  ///< the share of zero terms in its products
};

/// Prints a row as a JSON object, or as text.
void print(const Row& row, bool json);

/// Prints rows with `sides[0]`, which is dgx, against each of the others, or one row without a peer. If
/// `work` is not 0, seconds become `work / seconds`; the result is multiplied by `factor`.
void print_rows(const std::string& name, const std::vector<Side>& sides, int threads, const std::string& unit,
                double factor, double work, bool json);

}  // namespace dgx::bench
