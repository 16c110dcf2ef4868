#pragma once

#include <string>

/// The JSON of torch.export programs, from its parts.
namespace dgx::fuzz {

/// The form of a float32 tensor [s0, 3].
inline constexpr const char* kForm =
    R"j({"dtype":7,"sizes":[{"as_expr":{"expr_str":"Symbol('s0', positive=True)","hint":{"as_int":2}}},)j"
    R"({"as_int":3}],"requires_grad":true,"device":{"type":"cpu","index":null},)"
    R"("strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7})";

inline std::string node(const std::string& target, const std::string& inputs, const std::string& outputs) {
  return R"({"target":")" + target + R"(","inputs":[)" + inputs + R"(],"outputs":[)" + outputs +
         R"(],"metadata":{"stack_trace":)"
         R"("File \"/a/net.py\", line 9, in forward\n  File \"/b/torch/nn.py\", line 2, in f"}})";
}

inline std::string input(const std::string& argument, const std::string& name = "a") {
  return R"({"name":")" + name + R"(","kind":1,"arg":)" + argument + "}";
}

/// An argument that is a tensor.
inline std::string tensor(const std::string& name) { return R"({"as_tensor":{"name":")" + name + R"("}})"; }

/// A graph with the input x and the output y.
inline std::string graph(const std::string& nodes) {
  return R"({"inputs":[)" + tensor("x") + R"(],"outputs":[)" + tensor("y") + R"(],"nodes":[)" + nodes +
         R"(],"tensor_values":{"x":)" + kForm + "}}";
}

/// A program with such a graph, a parameter p (called w), a buffer b, a constant c and a number k.
inline std::string program(const std::string& nodes) {
  return R"({"schema_version":{"major":8,"minor":17},"torch_version":"2.11.0","verifiers":["TRAINING"],)"
         R"("range_constraints":{"s0":{"min_val":1,"max_val":null}},"graph_module":{"graph":)" +
         graph(nodes) +
         R"(,"signature":{"input_specs":[{"parameter":{"arg":{"name":"p"},"parameter_name":"w"}},)"
         R"({"buffer":{"arg":{"name":"b"},"buffer_name":"b","persistent":true}},)"
         R"({"tensor_constant":{"arg":{"name":"c"},"tensor_constant_name":"c"}},)"
         R"({"constant_input":{"name":"k","value":{"as_int":3}}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)"
         R"("output_specs":[{"buffer_mutation":{"arg":{"name":"y"},"buffer_name":"b"}},)"
         R"({"user_output":{"arg":{"as_tensor":{"name":"y"}}}}]}}})";
}

}  // namespace dgx::fuzz
