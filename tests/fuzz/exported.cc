// Programs and lists of torch.export: whatever is accepted is a program whose parts have the kinds that the
// header promises, and which the walk over its graphs ends with.

#include "dgx/lowering/exported.h"

#include "target.h"

using namespace dgx;
using lowering::ExportedGraph;

namespace {

constexpr const char* kForm =
    R"j({"dtype":7,"sizes":[{"as_expr":{"expr_str":"Symbol('s0', positive=True)","hint":{"as_int":2}}},)j"
    R"({"as_int":3}],"requires_grad":true,"device":{"type":"cpu","index":null},)"
    R"("strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7})";

std::string node(const std::string& target, const std::string& inputs) {
  return R"({"target":")" + target + R"(","inputs":[)" + inputs +
         R"(],"outputs":[{"as_tensor":{"name":"y"}},{"as_sym_int":{"as_name":"n"}},{"as_none":true}],)"
         R"("metadata":{"stack_trace":)"
         R"("File \"/a/net.py\", line 9, in forward\n  File \"/b/torch/nn.py\", line 2, in f"}})";
}

std::string input(const std::string& argument) { return R"({"name":"a","kind":1,"arg":)" + argument + "}"; }

std::string graph(const std::string& nodes) {
  return R"({"inputs":[{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"y"}}],"nodes":[)" +
         nodes + R"(],"tensor_values":{"x":)" + kForm + "}}";
}

std::string program(const std::string& nodes) {
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

std::size_t walk(const ExportedGraph& graph) {
  std::size_t calls = graph.nodes.size();
  for (const auto& each : graph.nodes) {
    for (const auto& [name, value] : each.inputs) {
      if (const auto* inside = std::get_if<std::shared_ptr<ExportedGraph>>(&value)) {
        fuzz::require(*inside != nullptr, "a graph inside is there");
        calls += walk(**inside);
      }
    }
  }
  return calls;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::string arguments;
  for (const char* each : {R"({"as_none":true})",
                           R"({"as_tensor":{"name":"x"}})",
                           R"({"as_tensors":[{"name":"x"},{"name":"p"}]})",
                           R"({"as_optional_tensors":[{"as_none":true},{"as_tensor":{"name":"x"}}]})",
                           R"({"as_int":-3})",
                           R"({"as_ints":[1,2]})",
                           R"({"as_sym_int":{"as_name":"n"}})",
                           R"({"as_sym_ints":[{"as_int":1},{"as_name":"n"}]})",
                           R"({"as_sym_bool":{"as_bool":true}})",
                           R"({"as_float":1.5})",
                           R"({"as_float":"-Infinity"})",
                           R"({"as_floats":[1.0,2e-3]})",
                           R"({"as_bool":false})",
                           R"({"as_bools":[true,false]})",
                           R"({"as_string":"tanh"})",
                           R"({"as_scalar_type":5})",
                           R"({"as_memory_format":2})",
                           R"({"as_layout":7})",
                           R"({"as_device":{"type":"cuda","index":0}})",
                           R"({"as_optional_tensor":{"as_tensor":{"name":"x"}}})"}) {
    arguments += (arguments.empty() ? "" : ",") + input(each);
  }
  const std::string inner =
      R"({"as_graph":{"name":"s","graph":)" +
      graph(node("torch.ops.aten.relu.default", input(R"({"as_tensor":{"name":"x"}})"))) + "}}";
  return {program(node("torch.ops.aten.all.default", arguments)),
          program(node("torch.ops.higher_order.wrap_with_set_grad_enabled",
                       input(R"({"as_bool":false})") + "," + input(inner))),
          std::string(
              R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)") +
              kForm + "}}}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto program = lowering::parse_exported_program(text);
  if (program.ok()) {
    walk(program->graph);
    for (const auto& input : program->inputs) {
      const bool is_user = input.kind == lowering::ExportedInput::Kind::kUser;
      fuzz::require(!is_user || !input.form.dtype.empty(), "an input has a form");
    }
    for (const auto& output : program->outputs) {
      const bool names = std::holds_alternative<lowering::ExportedName>(output.value);
      fuzz::require(output.buffer.empty() || names, "a buffer becomes a tensor");
    }
  } else {
    fuzz::require(!program.error().message.empty(), "a refusal says why");
  }
  const auto list = lowering::parse_exported_tensors(text);
  if (!list.ok()) return 0;
  for (const auto& [name, tensor] : *list)
    fuzz::require(!tensor.form.dtype.empty(), "a stored tensor has a form");
  return 0;
}
