#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dgx/lowering/aten.h"
#include "dgx/program/specs.h"

namespace dgx::test {

/// Writes AtenCalls the way libtorch 2.11 dispatches a multilayer perceptron under functionalisation, so that
/// lowering and executor are tested without libtorch.
class MlpCapture {
 public:
  /// `sizes`: inputs, hidden …, outputs. `input_shape`: the batch's, batch first; a view flattens it if it is
  /// not [batch, inputs].
  /// `cut_block`: as in a CaptureRequest.
  MlpCapture(std::vector<std::int64_t> sizes, Shape input_shape, program::Activation activation,
             std::int64_t cut_block = 0)
      : sizes_(std::move(sizes)), activation_(activation), cut_block_(cut_block), batch_(input_shape[0]) {
    graph_.inputs = {{"x", tensor(std::move(input_shape))}};
  }

  [[nodiscard]] lowering::CapturedGraph training() {
    graph_.output_gradient = tensor({batch_, sizes_.back()});
    add_parameters();
    forward();
    backward();
    return std::move(graph_);
  }

  [[nodiscard]] lowering::CapturedGraph evaluation() {
    add_parameters();
    forward();
    return std::move(graph_);
  }

 private:
  using Id = lowering::TensorId;
  using Argument = lowering::AtenArgument;
  using Arguments = std::vector<std::pair<std::string, Argument>>;

  static Argument of(Id id) { return std::optional<Id>(id); }
  [[nodiscard]] std::size_t layers() const { return sizes_.size() - 1; }

  Id tensor(Shape shape) {
    graph_.tensors.push_back({DType::kF32, std::move(shape)});
    return static_cast<Id>(graph_.tensors.size() - 1);
  }

  Id call(const std::string& name, const std::string& overload, Arguments arguments, Shape result) {
    lowering::AtenCall call;
    call.name = "aten::" + name;
    call.overload = overload;
    for (auto& [key, argument] : arguments) {
      call.argument_names.push_back(std::move(key));
      call.arguments.push_back(std::move(argument));
    }
    const Id id = tensor(std::move(result));
    call.results = {id};
    call.place = place_;
    graph_.calls.push_back(std::move(call));
    return id;
  }

  Id transposed(Id id) {
    const Shape shape = graph_.tensors[static_cast<std::size_t>(id)].shape;
    return call("t", "", {{"self", of(id)}}, {shape[1], shape[0]});
  }

  /// Names parameters as torch's Sequential does: layers have even numbers, activations odd ones. Values are
  /// small and varied.
  void add_parameters() {
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      const std::string prefix = std::to_string(2 * layer);
      biases_.push_back(add_parameter(prefix + ".bias", {sizes_[layer + 1]}));
      weights_.push_back(add_parameter(prefix + ".weight", {sizes_[layer + 1], sizes_[layer]}));
    }
  }

  Id add_parameter(std::string name, const Shape& shape) {
    const Id id = tensor(shape);
    Tensor value(DType::kF32, shape);
    for (float& number : value.as<float>())
      number = static_cast<float>((counter_++ * 37) % 101 - 50) / 128.0F;
    graph_.sources.push_back({lowering::AtenSource::Kind::kParameter, std::move(name), id, std::move(value)});
    return id;
  }

  void forward() {
    place_ = "forward";
    Id x = graph_.inputs[0].tensor;
    if (graph_.tensors[static_cast<std::size_t>(x)].shape != Shape{batch_, sizes_[0]}) {
      x = call("view", "", {{"self", of(x)}, {"size", std::vector<std::int64_t>{batch_, sizes_[0]}}},
               {batch_, sizes_[0]});
    }
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      inputs_.push_back(x);
      transposed_.push_back(transposed(weights_[layer]));
      const Shape shape{batch_, sizes_[layer + 1]};
      x = call("addmm", "",
               {{"self", of(biases_[layer])},
                {"mat1", of(x)},
                {"mat2", of(transposed_.back())},
                {"beta", std::int64_t{1}},
                {"alpha", std::int64_t{1}}},
               shape);
      sums_.push_back(x);
      if (layer + 1 < layers()) x = activated(x, shape);
      activated_.push_back(x);
      if (static_cast<std::int64_t>(layer) + 1 != cut_block_) continue;
      x = copied(x, shape);
      graph_.cut = lowering::AtenCut{activated_.back(), x, 0, 0};
    }
    graph_.output = x;
  }

  Id copied(Id x, const Shape& shape) {
    return call("clone", "", {{"self", of(x)}, {"memory_format", std::monostate{}}}, shape);
  }

  Id activated(Id x, const Shape& shape) {
    switch (activation_) {
      case program::Activation::kRelu: return call("relu", "", {{"self", of(x)}}, shape);
      case program::Activation::kTanh: return call("tanh", "", {{"self", of(x)}}, shape);
      case program::Activation::kSigmoid: return call("sigmoid", "", {{"self", of(x)}}, shape);
      case program::Activation::kGelu:
        return call("gelu", "", {{"self", of(x)}, {"approximate", std::string("none")}}, shape);
      case program::Activation::kGeluTanh:
        return call("gelu", "", {{"self", of(x)}, {"approximate", std::string("tanh")}}, shape);
    }
    return x;
  }

  /// The gradient before the activation whose output is `layer`'s input.
  Id activation_gradient(Id gradient, std::size_t layer, const Shape& shape) {
    const Argument output = of(activated_[layer - 1]), input = of(sums_[layer - 1]);
    switch (activation_) {
      case program::Activation::kRelu:
        return call("threshold_backward", "",
                    {{"grad_output", of(gradient)}, {"self", output}, {"threshold", std::int64_t{0}}}, shape);
      case program::Activation::kTanh:
        return call("tanh_backward", "", {{"grad_output", of(gradient)}, {"output", output}}, shape);
      case program::Activation::kSigmoid:
        return call("sigmoid_backward", "", {{"grad_output", of(gradient)}, {"output", output}}, shape);
      case program::Activation::kGelu:
        return call("gelu_backward", "",
                    {{"grad_output", of(gradient)}, {"self", input}, {"approximate", std::string("none")}},
                    shape);
      case program::Activation::kGeluTanh:
        return call("gelu_backward", "",
                    {{"grad_output", of(gradient)}, {"self", input}, {"approximate", std::string("tanh")}},
                    shape);
    }
    return gradient;
  }

  void backward() {
    place_ = "backward";
    graph_.gradients.resize(graph_.sources.size());
    Id gradient = *graph_.output_gradient;
    for (std::size_t layer = layers(); layer-- > 0;) {
      const std::int64_t inputs = sizes_[layer], outputs = sizes_[layer + 1];
      Id below = gradient;
      if (layer > 0) {
        const Id weight = transposed(transposed_[layer]);
        below = call("mm", "", {{"self", of(gradient)}, {"mat2", of(weight)}}, {batch_, inputs});
      }
      const Id rows = transposed(gradient);
      const Id product =
          call("mm", "", {{"self", of(rows)}, {"mat2", of(inputs_[layer])}}, {outputs, inputs});
      const Id turned = transposed(product);
      const Id sum = call("sum", "dim_IntList",
                          {{"self", of(gradient)},
                           {"dim", std::vector<std::int64_t>{0}},
                           {"keepdim", true},
                           {"dtype", std::monostate{}}},
                          {1, outputs});
      graph_.gradients[2 * layer] =
          call("view", "", {{"self", of(sum)}, {"size", std::vector<std::int64_t>{outputs}}}, {outputs});
      graph_.gradients[2 * layer + 1] = transposed(turned);
      if (graph_.cut && static_cast<std::int64_t>(layer) == cut_block_) {
        graph_.cut->gradient = below;
        graph_.cut->returned = below = copied(below, {batch_, inputs});
      }
      if (layer > 0) gradient = activation_gradient(below, layer, {batch_, inputs});
    }
  }

  std::vector<std::int64_t> sizes_;
  program::Activation activation_;
  std::int64_t cut_block_;
  std::int64_t batch_;
  lowering::CapturedGraph graph_;
  std::string place_;
  std::int64_t counter_ = 0;
  std::vector<Id> weights_, biases_, transposed_, inputs_, sums_, activated_;
};

/// A training pass on inputs [batch, sizes[0]].
[[nodiscard]] inline lowering::CapturedGraph captured_mlp(
    std::vector<std::int64_t> sizes, std::int64_t batch,
    program::Activation activation = program::Activation::kRelu, std::int64_t cut_block = 0) {
  Shape input{batch, sizes[0]};
  return MlpCapture(std::move(sizes), std::move(input), activation, cut_block).training();
}

/// Only the forward pass.
[[nodiscard]] inline lowering::CapturedGraph captured_mlp_evaluation(
    std::vector<std::int64_t> sizes, std::int64_t batch,
    program::Activation activation = program::Activation::kRelu) {
  Shape input{batch, sizes[0]};
  return MlpCapture(std::move(sizes), std::move(input), activation).evaluation();
}

}  // namespace dgx::test
