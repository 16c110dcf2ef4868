#include "row.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>

namespace dgx::bench {
namespace {

// Seconds timed at once: makes a clock's resolution and a wake-up negligible.
constexpr double kTurn = 0.02;
constexpr double kLongRun = 0.5;  // a run of at least this many seconds needs no warm-up
constexpr std::size_t kMostRounds = 200;

double wall() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double clock_of(int threads) {
  static const char* const chosen = std::getenv("DGX_BENCH_CLOCK");
  if (threads > 1 || chosen == nullptr || std::string_view(chosen) != "cpu") return wall();
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void warm(const Side& side) { side.timed ? static_cast<void>(side.timed(1)) : side.run(); }

double seconds_of(const Side& side, int count, int threads) {
  if (side.timed) return side.timed(count) / count;
  const double begin = clock_of(threads);
  for (int n = 0; n < count; ++n) side.run();
  return (clock_of(threads) - begin) / count;
}

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

std::string json_bytes(const char* key, const std::optional<long long>& bytes) {
  return bytes ? std::string(",\"") + key + "\":" + std::to_string(*bytes) : "";
}

std::string json_share(const char* key, const std::optional<double>& share) {
  char text[64] = "";
  if (share) std::snprintf(text, sizeof text, ",\"%s\":%.3f", key, *share);
  return text;
}

double ratio_of(const Row& row) { return row.more_is_better ? row.dgx / row.peer : row.peer / row.dgx; }

void print_json(const Row& row) {
  std::printf("{\"name\":\"%s\",\"dgx\":%.5g,\"dgx_spread\":%.3f", row.name.c_str(), row.dgx, row.dgx_spread);
  if (row.peer_name.empty()) {
    std::printf(",\"peer\":null,\"peer_name\":null,\"ratio\":null");
  } else {
    std::printf(",\"peer\":%.5g,\"peer_spread\":%.3f,\"peer_name\":\"%s\",\"ratio\":%.3f", row.peer,
                row.peer_spread, row.peer_name.c_str(), ratio_of(row));
  }
  std::printf(",\"threads\":%d,\"unit\":\"%s\"%s%s%s%s}\n", row.threads, row.unit.c_str(),
              json_bytes("dgx_bytes", row.dgx_bytes).c_str(),
              json_bytes("peer_bytes", row.peer_bytes).c_str(), json_share("roof", row.roof).c_str(),
              json_share("zeros", row.zeros).c_str());
}

void print_text(const Row& row) {
  std::printf("%-34s %d  dgx %9.4g %s ±%.0f%%", row.name.c_str(), row.threads, row.dgx, row.unit.c_str(),
              row.dgx_spread * 50);
  if (row.dgx_bytes) std::printf(" in %.1f MB", static_cast<double>(*row.dgx_bytes) * 1e-6);
  if (row.roof) std::printf(", %.2f of the roof", *row.roof);
  if (row.zeros) std::printf(", %.0f %% of terms zero", *row.zeros * 100);
  if (!row.peer_name.empty()) {
    std::printf("   %s %9.4g %s ±%.0f%%", row.peer_name.c_str(), row.peer, row.unit.c_str(),
                row.peer_spread * 50);
    if (row.peer_bytes) std::printf(" in %.1f MB", static_cast<double>(*row.peer_bytes) * 1e-6);
    std::printf("   ratio %.2f", ratio_of(row));
  }
  std::printf("\n");
}

}  // namespace

void measure_in_turns(std::vector<Side>& sides, const Effort& effort) {
  std::vector<int> counts;
  for (const Side& side : sides) {
    warm(side);
    warm(side);
    counts.push_back(std::clamp(static_cast<int>(kTurn / std::max(seconds_of(side, 1, 2), 1e-9)), 1, 100000));
  }
  const double end = wall() + effort.budget;
  for (int round = 0; round < effort.least_rounds || wall() < end; ++round) {
    for (std::size_t s = 0; s < sides.size(); ++s) {
      std::this_thread::sleep_for(std::chrono::milliseconds(effort.threads > 1 ? 10 : 0));
      const bool is_long = !sides[s].seconds.empty() && sides[s].seconds.back() > kLongRun;
      if (!is_long) warm(sides[s]);
      sides[s].seconds.push_back(seconds_of(sides[s], counts[s], effort.threads));
    }
    if (sides[0].seconds.size() >= kMostRounds) break;
  }
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return quantile(numbers, 0.5);
}

double spread(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return (quantile(numbers, 0.75) - quantile(numbers, 0.25)) / quantile(numbers, 0.5);
}

void print(const Row& row, bool json) {
  json ? print_json(row) : print_text(row);
  std::fflush(stdout);
}

void print_rows(const std::string& name, const std::vector<Side>& sides, int threads, const std::string& unit,
                double factor, double work, bool json) {
  const auto figure = [&](const Side& side) {
    const double seconds = median(side.seconds);
    return factor * (work == 0 ? seconds : work / seconds);
  };
  Row row{name, threads, unit, work != 0, figure(sides[0]), spread(sides[0].seconds)};
  if (sides.size() == 1) print(row, json);
  for (std::size_t s = 1; s < sides.size(); ++s) {
    row.peer_name = sides[s].name;
    row.peer = figure(sides[s]);
    row.peer_spread = spread(sides[s].seconds);
    print(row, json);
  }
}

}  // namespace dgx::bench
