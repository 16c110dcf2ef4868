#include <fmt/format.h>

#include <map>
#include <utility>

#include "dgx/lowering/lower.h"
#include "dgx/program/averages.h"
#include "dgx/program/initial.h"
#include "infinities.h"

namespace dgx::lowering {

Result<State> initial_state(const program::Program& program, CapturedGraph graph) {
  constexpr std::string_view kPrefix = "model/";
  std::map<std::string, Tensor*> values;
  for (AtenSource& source : graph.sources) values[std::string(kPrefix) + source.name] = &source.value;
  State state = program::zero_state(program);
  for (Entry& entry : state) {
    if (!entry.name.starts_with(kPrefix)) continue;
    const auto found = values.find(entry.name);
    if (found == values.end()) return malformed(fmt::format("{}: the model has no such tensor", entry.name));
    Tensor& tensor = *found->second;
    if (tensor.dtype() != entry.tensor.dtype() || tensor.shape() != entry.tensor.shape()) {
      return malformed(fmt::format("{}: the model's tensor is {} {}, the program's {} {}", entry.name,
                                   name_of(tensor.dtype()), to_string(tensor.shape()),
                                   name_of(entry.tensor.dtype()), to_string(entry.tensor.shape())));
    }
    entry.tensor = without_infinities(std::move(tensor));
  }
  program::start_averages(state);
  return state;
}

}  // namespace dgx::lowering
