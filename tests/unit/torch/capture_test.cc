#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "captured_text.h"

namespace {

using dgx::DType;
using dgx::ErrorCode;
using dgx::Shape;
using dgx::lowering::AtenCall;
using dgx::lowering::AtenSource;
using dgx::lowering::CapturedGraph;
using dgx::lowering::CaptureRequest;
using dgx::lowering::TensorId;

enum class Mode { kTraining, kEvaluation };

dgx::lowering::CaptureBackend& backend() {
  static auto* const opened = dgx::test::open_capture_backend(DGX_TORCH_MODULE);
  REQUIRE(opened != nullptr);
  return *opened;
}

dgx::Result<CapturedGraph> capture(const std::string& model, Mode mode = Mode::kTraining,
                                   const Shape& shape = {128, 1, 28, 28}, DType dtype = DType::kF32) {
  CaptureRequest request;
  request.model = model.starts_with("mlp:") ? model : DGX_TORCH_MODELS "/" + model + ".pt";
  request.fields = {{"x", shape, dtype}};
  request.training = mode == Mode::kTraining;
  return backend().capture(request);
}

CapturedGraph captured(const std::string& model, Mode mode = Mode::kTraining,
                       const Shape& shape = {128, 1, 28, 28}, DType dtype = DType::kF32) {
  auto graph = capture(model, mode, shape, dtype);
  if (!graph.ok()) FAIL(graph.error().message);
  INFO(dgx::test::captured_text(*graph));
  SUCCEED();
  return std::move(graph).value();
}

std::vector<std::string> names(const CapturedGraph& graph) {
  std::vector<std::string> list;
  for (const AtenCall& call : graph.calls) list.push_back(call.name.substr(std::string("aten::").size()));
  return list;
}

std::vector<std::string> source_names(const CapturedGraph& graph, AtenSource::Kind kind) {
  std::vector<std::string> list;
  for (const AtenSource& source : graph.sources) {
    if (source.kind == kind) list.push_back(source.name);
  }
  return list;
}

const Shape& shape_of(const CapturedGraph& graph, TensorId id) {
  return graph.tensors.at(static_cast<std::size_t>(id)).shape;
}

std::ptrdiff_t count(const CapturedGraph& graph, const std::string& name) {
  const auto list = names(graph);
  return std::count(list.begin(), list.end(), name);
}

/// Checks that every tensor is defined once, before its use, by the input, a source or a call.
void check_is_in_order(const CapturedGraph& graph) {
  std::set<TensorId> defined{graph.inputs.at(0).tensor};
  const auto define = [&](TensorId id) { CHECK(defined.insert(id).second); };
  if (graph.output_gradient) define(*graph.output_gradient);
  for (const AtenSource& source : graph.sources) {
    define(source.tensor);
    CHECK(source.has_numbers() == (graph.output_gradient || source.kind == AtenSource::Kind::kConstant));
    if (source.has_numbers()) CHECK(source.value.shape() == shape_of(graph, source.tensor));
  }
  for (const AtenCall& call : graph.calls) {
    CHECK(call.arguments.size() == call.argument_names.size());
    for (const auto& argument : call.arguments) {
      if (const auto* id = std::get_if<std::optional<TensorId>>(&argument); id && *id)
        CHECK(defined.contains(**id));
    }
    for (const auto& result : call.results) {
      if (result) define(*result);
    }
  }
  CHECK(defined.contains(graph.output));
  CHECK(defined.size() == graph.tensors.size());
}

}  // namespace

TEST_CASE("evaluation of a built-in model is its forward pass only") {
  const auto graph = captured("mlp:784-256-128-10", Mode::kEvaluation);
  CHECK(names(graph) ==
        std::vector<std::string>{"view", "t", "addmm", "relu", "t", "addmm", "relu", "t", "addmm"});
  CHECK(shape_of(graph, graph.inputs.at(0).tensor) == Shape{128, 1, 28, 28});
  CHECK(shape_of(graph, graph.output) == Shape{128, 10});
  CHECK_FALSE(graph.output_gradient);
  CHECK(graph.gradients.empty());
  check_is_in_order(graph);
}

TEST_CASE("training of a built-in model gives every parameter a gradient of its shape and the input none") {
  const auto graph = captured("mlp:784-256-128-10");
  CHECK(source_names(graph, AtenSource::Kind::kParameter) ==
        std::vector<std::string>{"0.bias", "0.weight", "2.bias", "2.weight", "4.bias", "4.weight"});
  REQUIRE(graph.gradients.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    REQUIRE(graph.gradients[i]);
    CHECK(shape_of(graph, *graph.gradients[i]) == shape_of(graph, graph.sources[i].tensor));
  }
  REQUIRE(graph.output_gradient);
  CHECK(shape_of(graph, *graph.output_gradient) == Shape{128, 10});
  // Three layers with two products each, less that for the input's gradient.
  CHECK(count(graph, "mm") == 5);
  CHECK(count(graph, "addmm") == 3);
  CHECK(count(graph, "threshold_backward") == 2);
  CHECK(graph.calls.back().place.starts_with("backward"));
  check_is_in_order(graph);
}

TEST_CASE("a decoder takes integers and gives every parameter a gradient, the tied head's weight one") {
  CaptureRequest request;
  request.model = "gpt:layers=2,width=8,heads=2,context=6,vocab=11,tied";
  request.fields = {{"x", {3, 6}, DType::kI64}};
  const auto graph = backend().capture(request);
  if (!graph.ok()) FAIL(graph.error().message);
  check_is_in_order(*graph);
  CHECK(shape_of(*graph, graph->output) == Shape{3, 6, 11});
  CHECK(source_names(*graph, AtenSource::Kind::kParameter).size() == 2 * 12 + 4);
  for (const auto& gradient : graph->gradients) CHECK(gradient.has_value());
  request.model = "gpt:layers=2,width=8,heads=2,context=6,vocab=11";
  CHECK(source_names(*backend().capture(request), AtenSource::Kind::kParameter).size() == 2 * 12 + 5);
  request.fields[0].shape = {3, 7};
  CHECK_THAT(backend().capture(request).error().message, Catch::Contains("a context of 6"));
  request.fields[0].dtype = DType::kF32;
  CHECK_THAT(backend().capture(request).error().message, Catch::Contains("takes tokens"));
}

TEST_CASE("a residual network of 20 layers has 19 convolutions and updates its running statistics") {
  for (const Shape& input : {Shape{2, 16, 19}, Shape{2, 5, 17, 16}}) {
    const auto graph = backend().capture({"resnet20:classes=7", {}, {{"x", input}}});
    if (!graph.ok()) FAIL(graph.error().message);
    check_is_in_order(*graph);
    CHECK(shape_of(*graph, graph->output) == Shape{2, 7});
    CHECK(count(*graph, "convolution") == 19);
    CHECK(graph->buffer_updates.size() == 2 * 19);
    for (const auto& gradient : graph->gradients) CHECK(gradient.has_value());
  }
  CHECK_THAT(backend().capture({"resnet20:classes=7", {}, {{"x", {2, 3, 15, 16}}}}).error().message,
             Catch::Contains("at least 16 by 16"));
}

TEST_CASE("a built-in model of rank 2 input needs no view") {
  const auto graph = captured("mlp:6-3", Mode::kEvaluation, {4, 6});
  CHECK(names(graph) == std::vector<std::string>{"t", "addmm"});
}

TEST_CASE("the same request gives the same graph twice") {
  for (const std::string model : {"mlp:784-32-10", "cnn"}) {
    CHECK(dgx::test::captured_text(captured(model)) == dgx::test::captured_text(captured(model)));
  }
}

TEST_CASE("each activation arrives as one call forward and one backward") {
  const auto [model, forward, backward] = GENERATE(table<std::string, std::string, std::string>({
      {"relu", "relu", "threshold_backward"},
      {"gelu", "gelu", "gelu_backward"},
      {"gelu_tanh", "gelu", "gelu_backward"},
      {"tanh", "tanh", "tanh_backward"},
      {"sigmoid", "sigmoid", "sigmoid_backward"},
  }));
  const auto graph = captured(model);
  CHECK(count(graph, forward) == 1);
  CHECK(count(graph, backward) == 1);
  CHECK(source_names(graph, AtenSource::Kind::kParameter) ==
        std::vector<std::string>{"fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"});
  check_is_in_order(graph);
}

TEST_CASE("a host number is a double argument, not a tensor") {
  const auto graph = captured("scaled", Mode::kEvaluation);
  const auto call = std::find_if(graph.calls.begin(), graph.calls.end(),
                                 [](const auto& c) { return c.name == "aten::mul"; });
  REQUIRE(call != graph.calls.end());
  CHECK(std::get<double>(call->arguments[1]) == 0.5);
}

TEST_CASE("buffers changed in place and running statistics are updates of the state") {
  const auto graph = captured("cnn");
  std::vector<std::string> updated;
  for (const auto& [source, tensor] : graph.buffer_updates) {
    updated.push_back(graph.sources[source].name);
    CHECK(shape_of(graph, tensor) == shape_of(graph, graph.sources[source].tensor));
  }
  CHECK(updated == std::vector<std::string>{"count", "mean", "var"});
  check_is_in_order(graph);
  CHECK(captured("cnn", Mode::kEvaluation).buffer_updates.empty());
}

TEST_CASE("a buffer that forward assigns is an update too") {
  const auto graph = captured("assigned");
  REQUIRE(graph.buffer_updates.size() == 1);
  CHECK(graph.sources[graph.buffer_updates[0].first].name == "total");
}

TEST_CASE("tied weights are one parameter with one gradient, an unused one has none") {
  const auto graph = captured("language", Mode::kTraining, {2, 8}, DType::kI64);
  CHECK(source_names(graph, AtenSource::Kind::kParameter) ==
        std::vector<std::string>{"qkv", "table", "unused"});
  REQUIRE(graph.gradients.size() == 3);
  CHECK(graph.gradients[1]);
  CHECK_FALSE(graph.gradients[2]);
  CHECK(count(graph, "bernoulli") == 1);
  check_is_in_order(graph);
}

TEST_CASE("writing into a view becomes calls that change nothing") {
  const auto graph = captured("in_place");
  for (const AtenCall& call : graph.calls) CHECK(call.name.back() != '_');
  CHECK(count(graph, "select_scatter") == 2);
  check_is_in_order(graph);
}

TEST_CASE("indexing with computed integers is captured") { CHECK(count(captured("rows"), "index") == 1); }

TEST_CASE("what cannot be captured is refused by name and place") {
  const auto [model, code, words] = GENERATE(table<std::string, ErrorCode, std::string>({
      {"nonzero", ErrorCode::kUsage, "forward (<string>:3): aten::nonzero depends on computed numbers"},
      {"item", ErrorCode::kUsage, "aten::_local_scalar_dense depends on computed numbers"},
      {"masked", ErrorCode::kUsage, "aten::index depends on computed numbers"},
      {"tolist", ErrorCode::kUsage, "forward() uses tolist"},
      {"half", ErrorCode::kUsage, "aten::_to_copy gives a tensor of float16"},
      {"float64", ErrorCode::kUsage, "fc1.weight is a tensor of float64"},
      {"host_state", ErrorCode::kUsage, "forward() sets the attribute calls"},
      {"clipped", ErrorCode::kUsage, "forward() changes the parameter fc.weight"},
      {"pair", ErrorCode::kUsage, "forward() returns 2 tensors: 0 and 1"},
      {"absent", ErrorCode::kMissing, "no such file"},
      {"mlp:784", ErrorCode::kUsage, "mlp: "},
      {"mlp:784-0-10", ErrorCode::kUsage, "mlp: layer size 0 is out of range"},
      {"mlp:784-x", ErrorCode::kUsage, "'x' is not a number"},
      {"mlp:783-10", ErrorCode::kUsage, "takes 783 numbers a sample, the input [128,1,28,28] has 784"},
  }));
  const auto graph = capture(model);
  REQUIRE_FALSE(graph.ok());
  CHECK_THAT(graph.error().message, Catch::Contains(words));
  CHECK(graph.error().code == code);
}

TEST_CASE("an input that the model cannot take is malformed, with libtorch's reason") {
  const auto graph = capture("relu", Mode::kTraining, {2, 9});
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.error().code == ErrorCode::kMalformed);
  CHECK_THAT(graph.error().message, Catch::Contains("cannot be multiplied (2x9 and 784x64)"));
  CHECK_FALSE(capture("relu", Mode::kTraining, {}).ok());
  CHECK_FALSE(capture("relu", Mode::kTraining, {0, 784}).ok());
}
