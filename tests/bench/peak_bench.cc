// The machine's peak, the upper bound for every other row: fused multiply-adds per second from registers, for
// each width of vectors, and bytes per second that a loop over doubles reads and writes in the second-level
// cache and in memory.
//
//   peak_bench [--json]
#include <string_view>

#include "machine.h"
#include "row.h"

namespace {

using namespace dgx;

void print(const bench::Limit& limit, int threads, const std::string& unit, bool json) {
  std::vector<bench::Side> sides{{"", limit.run}};
  bench::measure_in_turns(sides, {0.5, 5, threads});
  bench::print_rows("peak-" + limit.name, sides, threads, unit, 1e-9, limit.work, json);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  for (const int threads : {1, 2}) {
    for (const bench::Limit& limit : bench::multiply_adds(threads)) print(limit, threads, "GF/s", json);
    print(bench::scaling(std::size_t{256} << 10U, threads), threads, "GB/s", json);
    print(bench::scaling(bench::kMemoryBytes, threads), threads, "GB/s", json);
  }
}
