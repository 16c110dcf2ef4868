// Archives of torch.export, whole: the zip, the program and the lists in it, the weights, and the walk over
// the calls, up to the model that is ready to run. Nothing runs, and no file is opened but the archive.

#include <algorithm>
#include <exception>

#include "exported.h"
#include "exported_text.h"
#include "opened_files.h"
#include "scratch.h"
#include "target.h"
#include "zip_text.h"

using namespace dgx;

namespace {

std::string member(const std::string& name, const std::string& bytes) {
  return "## net/" + name + "\n" + bytes + "\n";
}

/// An entry of a list: a float32 tensor of these sizes and strides, which are JSON.
std::string entry(const std::string& title, const std::string& file, const std::string& sizes,
                  const std::string& strides) {
  return "\"" + title + R"(":{"path_name":")" + file +
         R"(","is_param":true,"use_pickle":false,"tensor_meta":{"dtype":7,"sizes":)" + sizes +
         R"(,"requires_grad":true,"device":{"type":"cpu","index":null},"strides":)" + strides +
         R"(,"storage_offset":{"as_int":0},"layout":7}})";
}

std::string archive(const std::string& nodes, const std::string& weights, const std::string& rest = {}) {
  return member("archive_format", "pt2") + member("archive_version", "0") + member("byteorder", "little") +
         member("models/model.json", fuzz::program(nodes)) +
         member("data/weights/model_weights_config.json", R"({"config":{)" + weights + "}}") +
         member(
             "data/constants/model_constants_config.json",
             R"({"config":{)" + entry("c", "constant_0", R"([{"as_int":3}])", R"([{"as_int":1}])") + "}}") +
         "## net/data/weights/weight_0 size=24\nab\n## net/data/weights/weight_1 size=12\n" +
         "## net/data/constants/constant_0 size=12\n" + rest;
}

/// Refuses, by ending the process, what an accepted archive must not be.
void check(const Result<torch_bridge::Model>& model) {
  if (!model.ok()) return fuzz::require(!model.error().message.empty(), "a refusal says why");
  for (const torch_bridge::TakenField& input : model->inputs)
    fuzz::require(input.field < 2, "an input takes a field of the batch");
  for (const auto* const list : {&model->parameters, &model->buffers}) {
    for (const torch_bridge::NamedTensor& each : *list)
      fuzz::require(each.tensor.defined() && each.tensor.is_contiguous(), "a source has its numbers");
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string pair = R"([{"as_int":2},{"as_int":3}])", dense = R"([{"as_int":3},{"as_int":1}])";
  const std::string weights = entry("w", "weight_0", pair, dense) + "," +
                              entry("b", "weight_1", R"([{"as_int":3}])", R"([{"as_int":1}])");
  const std::string relu = node("torch.ops.aten.relu.default", input(tensor("x"), "self"), tensor("y"));
  const std::string some =
      node("torch.ops.aten.sym_size.int", input(tensor("x"), "self") + "," + input(R"({"as_int":0})", "dim"),
           R"({"as_sym_int":{"as_name":"n"}})") +
      "," +
      node("_operator.mul",
           input(R"({"as_sym_int":{"as_name":"n"}})", "") + "," + input(R"({"as_int":3})", ""),
           R"({"as_sym_int":{"as_name":"m"}})") +
      "," +
      node("torch.ops.aten.batch_norm.default",
           input(tensor("x"), "input") + "," + input(tensor("b"), "running_mean") + "," +
               input(R"({"as_bool":true})", "training"),
           tensor("h")) +
      "," +
      node("torch.ops.aten.dropout.default",
           input(tensor("h"), "input") + "," + input(R"({"as_float":0.5})", "p") + "," +
               input(R"({"as_bool":true})", "train"),
           tensor("d")) +
      "," +
      node("torch.ops.aten.linear.default", input(tensor("d"), "input") + "," + input(tensor("p"), "weight"),
           tensor("y"));
  const std::string inner = R"({"as_graph":{"name":"s","graph":)" + graph(relu) + "}}";
  const std::string wrapped =
      node("torch.ops.higher_order.wrap_with_set_grad_enabled",
           input(R"({"as_bool":false})") + "," + input(inner) + "," + input(tensor("x")),
           R"({"as_tensors":[{"name":"y"}]})");
  const std::string file =
      node("torch.ops.aten.from_file.default",
           input(R"({"as_string":"made"})", "filename") + "," + input(R"({"as_bool":true})", "shared"),
           tensor("y"));
  // Transposed, and b is tied to c's file by its name alone.
  const std::string odd = entry("w", "weight_0", pair, R"([{"as_int":1},{"as_int":2}])") + "," +
                          entry("b", "weight_0", R"([{"as_int":3}])", R"([{"as_int":0}])");
  return {archive(relu, weights),
          archive(some, weights),
          archive(wrapped, weights),
          archive(file, weights),
          archive(relu, odd),
          archive(relu, weights, member("models/model.json", "{}")),
          archive(relu, weights, "## net/data/x at=3 local=net/data/y\n!! -6 1\n"),
          archive(relu, weights, "## net/version method=8 bytes=268435456 crc=1\nab\n"),
          archive(relu, weights, member("models/other.json", fuzz::program(relu))),
          zip_of_text(archive(relu, weights)),
          "## serialized_exported_program.json\n{}\n## version\n5.3\n",
          member("data.pkl", "x") + member("constants.pkl", "x") + member("code/__torch__.py", "")};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::scratch().write("input.pt2", fuzz::zip_of_text(fuzz::text_of(data, size)));
  lowering::CaptureRequest request;
  request.model = path;
  request.fields = {{"x", {8, 3}}, {"y", {8}, DType::kI64}};
  const fuzz::OpenedFiles opened;
  try {
    for (const bool training : {true, false}) {
      request.training = training;
      check(torch_bridge::load_exported(request));
    }
    static_cast<void>(torch_bridge::describe_exported({path, {}}));
  } catch (const std::exception&) {
    // libtorch's exceptions pass through, and become errors in capture.cc.
  }
  const bool is_alone = std::ranges::all_of(opened.paths(), [&](const std::string& each) {
    // libtorch asks once what the CPU is, when a tensor is copied for the first time.
    return each == path || each == "/proc/cpuinfo" || each.starts_with("/sys/devices/system/cpu/");
  });
  fuzz::require(is_alone, "no file is opened but the archive");
  return 0;
}
