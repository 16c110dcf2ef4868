// Programs and lists of torch.export: whatever is accepted is a program whose parts have the kinds that the
// header promises, and which the walk over its graphs ends with.

#include "dgx/lowering/exported.h"

#include "exported_text.h"
#include "target.h"

using namespace dgx;
using lowering::ExportedGraph;

namespace {

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
  const std::string outputs = tensor("y") + R"(,{"as_sym_int":{"as_name":"n"}},{"as_none":true})";
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
  const std::string inner = R"({"as_graph":{"name":"s","graph":)" +
                            graph(node("torch.ops.aten.relu.default", input(tensor("x")), outputs)) + "}}";
  return {program(node("torch.ops.aten.all.default", arguments, outputs)),
          program(node("torch.ops.higher_order.wrap_with_set_grad_enabled",
                       input(R"({"as_bool":false})") + "," + input(inner), outputs)),
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
