#include "dgx/cli/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "dgx/core/process_limits.h"

namespace dgx::cli {
namespace {

/// The environment variable as a positive number, or `otherwise`. OMP_NUM_THREADS may be a list: its first
/// entry counts.
int positive_variable(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view view(text);
  int value = 0;
  std::from_chars(view.data(), view.data() + view.size(), value);
  return value > 0 ? value : otherwise;
}

}  // namespace

int default_threads() {
  const int cpus = cpu_limit();
  return std::min(
      {cpus, positive_variable("SLURM_CPUS_PER_TASK", cpus), positive_variable("OMP_NUM_THREADS", cpus)});
}

}  // namespace dgx::cli
