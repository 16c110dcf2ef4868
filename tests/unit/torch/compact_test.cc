#include "compact.h"

#include <catch2/catch.hpp>

namespace {

using dgx::DType;
using dgx::lowering::AtenCall;
using dgx::lowering::AtenSource;
using dgx::lowering::CapturedGraph;
using dgx::lowering::TensorId;

AtenCall call(const std::string& name, std::vector<TensorId> arguments, std::vector<TensorId> results) {
  AtenCall made;
  made.name = name;
  made.place = "forward";
  for (const TensorId id : arguments) {
    made.argument_names.emplace_back("x");
    made.arguments.emplace_back(std::optional(id));
  }
  for (const TensorId id : results) made.results.emplace_back(id);
  return made;
}

AtenSource source(AtenSource::Kind kind, const std::string& name, TensorId tensor) {
  return {kind, name, tensor, dgx::Tensor(DType::kF32, {2})};
}

// Parameters b = 1 and a = 2, buffer s = 3, literals 4 and 5; input 0.
CapturedGraph raw() {
  CapturedGraph graph;
  graph.tensors.resize(9, {DType::kF32, {2}, false});
  graph.sources = {source(AtenSource::Kind::kParameter, "b", 1), source(AtenSource::Kind::kParameter, "a", 2),
                   source(AtenSource::Kind::kBuffer, "s", 3), source(AtenSource::Kind::kConstant, "", 4),
                   source(AtenSource::Kind::kConstant, "", 5)};
  graph.calls = {call("aten::unused", {0, 4}, {6}), call("aten::used", {0, 5}, {7, 8})};
  graph.inputs = {{"x", 0}};
  graph.output = 7;
  graph.gradients = {7, std::nullopt};
  graph.buffer_updates = {{2, 7}};
  return graph;
}

const std::vector<std::string> kAllSupported(9);

}  // namespace

TEST_CASE("calls and literals that nothing needs go, and what is left is numbered without gaps") {
  const auto graph = dgx::torch_bridge::compact(raw(), kAllSupported);
  REQUIRE(graph.ok());
  REQUIRE(graph->calls.size() == 1);
  CHECK(graph->calls[0].name == "aten::used");
  REQUIRE(graph->sources.size() == 4);
  CHECK(graph->sources[3].name == "constant.0");
  CHECK(graph->tensors.size() == 7);
  CHECK(graph->output == 5);
  CHECK(graph->calls[0].results[1] == std::optional<TensorId>(6));
}

TEST_CASE("gradients and buffer updates follow their sources when these are sorted") {
  const auto graph = dgx::torch_bridge::compact(raw(), kAllSupported);
  REQUIRE(graph.ok());
  CHECK(graph->sources[0].name == "a");
  CHECK_FALSE(graph->gradients[0]);
  CHECK(graph->gradients[1] == std::optional(graph->output));
  CHECK(graph->sources[graph->buffer_updates[0].first].name == "s");
}

TEST_CASE("an unsupported dtype is refused only where its numbers are needed") {
  auto unsupported = kAllSupported;
  unsupported[6] = "float64";  // of a call that is removed
  unsupported[8] = "float64";  // a second result that nothing reads
  const auto graph = dgx::torch_bridge::compact(raw(), unsupported);
  REQUIRE(graph.ok());
  CHECK_FALSE(graph->calls[0].results[1]);

  unsupported[7] = "complex64";
  const auto refused = dgx::torch_bridge::compact(raw(), unsupported);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "forward: aten::used gives a tensor of complex64, which cannot be captured");
}
