#include "dgx/lowering/exported.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document_reader.h"
#include "exported_tree.h"

namespace dgx::lowering {
namespace {

constexpr int kMaxDepth = 64;  // of JSON; a graph inside a graph takes about ten
constexpr int kSchemaMajor = 8;

/// libtorch's names of the schema's numbers for element types.
Status read_dtype(const Document& value, const Place& place, std::string& out) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "",        "uint8",   "int8",      "int16",     "int32",      "int64", "float16",
      "float32", "float64", "complex32", "complex64", "complex128", "bool",  "bfloat16"};
  std::int64_t number = 0;
  DGX_CHECK(read(value, place, number));
  if (number < 1 || number >= static_cast<std::int64_t>(kNames.size()))
    return usage_error(
        fmt::format("{}: element type {} is not one that can be captured", place.text(), number));
  out = kNames[static_cast<std::size_t>(number)];
  return {};
}

/// The text of a symbol, "Symbol('s77', positive=True, integer=True)", as "s77"; other expressions as they
/// are.
std::string symbol_of(std::string expression) {
  constexpr std::string_view kBegin = "Symbol('";
  if (!expression.starts_with(kBegin)) return expression;
  const std::size_t end = expression.find('\'', kBegin.size());
  const std::size_t close = expression.find(')');
  if (end == std::string::npos || close != expression.size() - 1) return expression;
  return expression.substr(kBegin.size(), end - kBegin.size());
}

/// A size of a form: {"as_int": 3} or {"as_expr": {"expr_str": …}}.
Status read_size(const Document& value, const Place& place, ExportedInteger& out) {
  DGX_TRY(const Alternative size, alternative_of(value, place));
  const Place at = place.member(size.kind);
  if (size.kind == "as_int") return read(*size.value, at, out.emplace<std::int64_t>());
  if (size.kind != "as_expr") return place.error(fmt::format("unknown size {}", printable(size.kind)));
  std::string expression;
  DGX_CHECK(read_member(*size.value, "expr_str", at, expression));
  out = symbol_of(std::move(expression));
  return {};
}

Status read_form(const Document& value, const Place& place, ExportedForm& out) {
  DGX_TRY(const Document* const dtype, member_of(value, "dtype", place));
  DGX_CHECK(read_dtype(*dtype, place.member("dtype"), out.dtype));
  DGX_TRY(const Document* const sizes, member_of(value, "sizes", place));
  DGX_CHECK(read_list(*sizes, place.member("sizes"), out.sizes, read_size));
  DGX_TRY(const Document* const strides, member_of(value, "strides", place));
  DGX_CHECK(read_list(*strides, place.member("strides"), out.strides, read_size));
  DGX_TRY(const Document* const offset, member_of(value, "storage_offset", place));
  DGX_CHECK(read_size(*offset, place.member("storage_offset"), out.offset));
  DGX_CHECK(read_member(value, "requires_grad", place, out.requires_grad));
  std::int64_t layout = 0;
  DGX_CHECK(read_member(value, "layout", place, layout));
  constexpr std::int64_t kStrided = 7;
  if (layout != kStrided) return usage_error(place.text() + ": is a sparse tensor, which cannot be captured");
  return {};
}

Status read_name(const Document& value, const Place& place, ExportedName& out) {
  return read_member(value, "name", place, out.name);
}
Status read_optional_name(const Document& value, const Place& place, std::optional<ExportedName>& out) {
  DGX_TRY(const Alternative one, alternative_of(value, place));
  if (one.kind == "as_none") return out.reset(), Status();
  if (one.kind != "as_tensor") return place.error(fmt::format("unknown kind {}", printable(one.kind)));
  return read_name(*one.value, place, out.emplace());
}
/// An integer of a call: {"as_int": 3} or {"as_name": "sym_size_int"}.
Status read_integer(const Document& value, const Place& place, ExportedInteger& out) {
  DGX_TRY(const Alternative one, alternative_of(value, place));
  if (one.kind == "as_int") return read(*one.value, place, out.emplace<std::int64_t>());
  if (one.kind == "as_name") return read(*one.value, place, out.emplace<std::string>());
  return place.error(fmt::format("unknown kind {}", printable(one.kind)));
}
/// A truth value of a call: {"as_bool": true} or {"as_name": "ge"}; held as the integer 0 or 1.
Status read_truth(const Document& value, const Place& place, ExportedInteger& out) {
  DGX_TRY(const Alternative one, alternative_of(value, place));
  if (one.kind == "as_name") return read(*one.value, place, out.emplace<std::string>());
  bool truth = false;
  if (one.kind != "as_bool") return place.error(fmt::format("unknown kind {}", printable(one.kind)));
  DGX_CHECK(read(*one.value, place, truth));
  out = std::int64_t{truth};
  return {};
}
Status read_plain_integer(const Document& value, const Place& place, ExportedInteger& out) {
  return read(value, place, out.emplace<std::int64_t>());
}

Status read_memory_format(const Document& value, const Place& place, ExportedMemoryFormat& out) {
  static constexpr std::array<std::string_view, 5> kNames = {"", "contiguous", "channels_last",
                                                             "channels_last_3d", "preserve"};
  std::int64_t number = 0;
  DGX_CHECK(read(value, place, number));
  if (number < 1 || number >= static_cast<std::int64_t>(kNames.size()))
    return place.error(fmt::format("unknown memory format {}", number));
  out.name = kNames[static_cast<std::size_t>(number)];
  return {};
}

Status read_graph(const Document& value, const Place& place, ExportedGraph& out);

/// A reader of one kind of argument into its alternative.
using ReadArgument = Status (*)(const Document& value, const Place& place, ExportedArgument& out);

template <class T>
Status argument(const Document& value, const Place& place, ExportedArgument& out) {
  return read(value, place, out.emplace<T>());
}
template <class T, auto ReadOne>
Status argument_by(const Document& value, const Place& place, ExportedArgument& out) {
  return ReadOne(value, place, out.emplace<T>());
}
template <class T>
Status plain_list(const Document& value, const Place& place, ExportedArgument& out) {
  return read_plain_list(value, place, out.emplace<std::vector<T>>());
}
template <class T, auto ReadItem>
Status list_by(const Document& value, const Place& place, ExportedArgument& out) {
  return read_list(value, place, out.emplace<std::vector<T>>(), ReadItem);
}
Status no_argument(const Document&, const Place&, ExportedArgument& out) {
  out = std::monostate();
  return {};
}
Status device_argument(const Document&, const Place&, ExportedArgument& out) {
  out = ExportedDevice();
  return {};
}
Status dtype_argument(const Document& value, const Place& place, ExportedArgument& out) {
  return read_dtype(value, place, out.emplace<ExportedDtype>().name);
}
Status layout_argument(const Document& value, const Place& place, ExportedArgument& out) {
  std::int64_t number = 0;
  DGX_CHECK(read(value, place, number));
  if (number != 7) return usage_error(place.text() + ": only strided tensors can be captured");
  out = ExportedLayout();
  return {};
}
Status graph_argument(const Document& value, const Place& place, ExportedArgument& out) {
  DGX_TRY(const Document* const graph, member_of(value, "graph", place));
  auto& made = out.emplace<std::shared_ptr<ExportedGraph>>(std::make_shared<ExportedGraph>());
  return read_graph(*graph, place.member("graph"), *made);
}

Status optional_tensor_argument(const Document& value, const Place& place, ExportedArgument& out) {
  std::optional<ExportedName> name;
  DGX_CHECK(read_optional_name(value, place, name));
  name ? out = *name : out = std::monostate();
  return {};
}

struct ArgumentKind {
  std::string_view name;
  ReadArgument read;
};
constexpr ArgumentKind kArgumentKinds[] = {
    {"as_none", no_argument},
    {"as_tensor", argument_by<ExportedName, read_name>},
    {"as_tensors", list_by<ExportedName, read_name>},
    {"as_optional_tensor", optional_tensor_argument},
    {"as_optional_tensors", list_by<std::optional<ExportedName>, read_optional_name>},
    {"as_int", argument_by<ExportedInteger, read_plain_integer>},
    {"as_ints", list_by<ExportedInteger, read_plain_integer>},
    {"as_sym_int", argument_by<ExportedInteger, read_integer>},
    {"as_sym_ints", list_by<ExportedInteger, read_integer>},
    {"as_sym_bool", argument_by<ExportedInteger, read_truth>},
    {"as_float", argument<double>},
    {"as_floats", plain_list<double>},
    {"as_bool", argument<bool>},
    {"as_bools", plain_list<bool>},
    {"as_string", argument<std::string>},
    {"as_scalar_type", dtype_argument},
    {"as_memory_format", argument_by<ExportedMemoryFormat, read_memory_format>},
    {"as_layout", layout_argument},
    {"as_device", device_argument},
    {"as_graph", graph_argument},
};

Status read_argument(const Document& value, const Place& place, ExportedArgument& out) {
  DGX_TRY(const Alternative one, alternative_of(value, place));
  const auto* const kind = std::ranges::find(kArgumentKinds, one.kind, &ArgumentKind::name);
  if (kind == std::end(kArgumentKinds)) {
    return usage_error(
        fmt::format("{}: an argument of the kind {} cannot be captured", place.text(), printable(one.kind)));
  }
  return kind->read(*one.value, place.member(one.kind), out);
}

/// The user's line of a stack trace: the last frame outside torch's own folder, else the last one, as
/// "net.py:9". Frames are lines `File "…/net.py", line 9, in forward`.
std::string place_of(std::string_view trace) {
  std::string best;
  for (std::size_t at = trace.find("File \""); at != std::string_view::npos;) {
    const std::size_t next = trace.find("File \"", at + 1);
    const std::string_view frame =
        trace.substr(at + 6, next == std::string_view::npos ? next : next - at - 6);
    at = next;
    const std::size_t quote = frame.find('"');
    const std::size_t line = frame.find(", line ");
    if (quote == std::string_view::npos || line == std::string_view::npos || line < quote) continue;
    const std::string_view path = frame.substr(0, quote);
    const std::size_t digits = frame.find_first_not_of("0123456789", line + 7);
    const std::string_view number =
        frame.substr(line + 7, digits == std::string_view::npos ? digits : digits - line - 7);
    if (!best.empty() && path.find("/torch/") != std::string_view::npos) continue;
    best = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), number);
  }
  return printable(best);
}

Status read_named_argument(const Document& value, const Place& place,
                           std::pair<std::string, ExportedArgument>& out) {
  DGX_CHECK(read_member(value, "name", place, out.first));
  DGX_TRY(const Document* const given, member_of(value, "arg", place));
  return read_argument(*given, place, out.second);
}

Status read_node(const Document& value, const Place& place, ExportedNode& out) {
  DGX_CHECK(read_member(value, "target", place, out.target));
  DGX_TRY(const Document* const inputs, member_of(value, "inputs", place));
  DGX_CHECK(read_list(*inputs, place.member("inputs"), out.inputs, read_named_argument));
  DGX_TRY(const Document* const outputs, member_of(value, "outputs", place));
  DGX_CHECK(read_list(*outputs, place.member("outputs"), out.outputs, read_argument));
  const Document* const metadata = value.find("metadata");
  const Document* const trace = metadata ? metadata->find("stack_trace") : nullptr;
  if (trace && trace->as_string()) out.place = place_of(*trace->as_string());
  return {};
}

Status read_graph(const Document& value, const Place& place, ExportedGraph& out) {
  DGX_TRY(const Document* const inputs, member_of(value, "inputs", place));
  DGX_CHECK(read_list(*inputs, place.member("inputs"), out.inputs, read_argument));
  DGX_TRY(const Document* const outputs, member_of(value, "outputs", place));
  DGX_CHECK(read_list(*outputs, place.member("outputs"), out.outputs, read_argument));
  DGX_TRY(const Document* const nodes, member_of(value, "nodes", place));
  return read_list(*nodes, place.member("nodes"), out.nodes, read_node);
}

/// A parameter, buffer or constant: its name inside the program, and its dotted path under `key`.
Status read_stored(const Document& spec, const Place& place, std::string_view key, ExportedInput::Kind kind,
                   ExportedInput& out) {
  out.kind = kind;
  DGX_TRY(const Document* const given, member_of(spec, "arg", place));
  DGX_CHECK(read_member(*given, "name", place.member("arg"), out.name));
  return read_member(spec, key, place, out.title);
}

/// The form that the graph has for a tensor.
Status read_form_of(const std::string& name, const Document& forms, const Place& place, ExportedForm& out) {
  const Document* const form = forms.find(name);
  if (!form) return place.error("tensor_values has no " + printable(name));
  return read_form(*form, Place{nullptr, "tensor_values"}.member(name), out);
}

Status read_user_input(const Document& spec, const Place& place, const Document& forms, ExportedInput& out) {
  DGX_TRY(const Document* const given, member_of(spec, "arg", place));
  ExportedArgument argument;
  DGX_CHECK(read_argument(*given, place.member("arg"), argument));
  const auto* const tensor = std::get_if<ExportedName>(&argument);
  if (!tensor) return usage_error(place.text() + ": an input that is no tensor cannot be captured");
  out.kind = ExportedInput::Kind::kUser;
  out.name = out.title = tensor->name;
  return read_form_of(out.name, forms, place, out.form);
}

/// An argument of forward() that was no tensor when the program was exported: it has that value for good.
Status read_fixed_input(const Document& spec, const Place& place, ExportedInput& out) {
  out.kind = ExportedInput::Kind::kFixed;
  DGX_CHECK(read_member(spec, "name", place, out.name));
  out.title = out.name;
  DGX_TRY(const Document* const value, member_of(spec, "value", place));
  return read_argument(*value, place.member("value"), out.fixed);
}

Status read_input(const Document& value, const Place& place, const Document& forms, ExportedInput& out) {
  using Kind = ExportedInput::Kind;
  DGX_TRY(const Alternative one, alternative_of(value, place));
  const Place at = place.member(one.kind);
  if (one.kind == "parameter") return read_stored(*one.value, at, "parameter_name", Kind::kParameter, out);
  if (one.kind == "buffer") return read_stored(*one.value, at, "buffer_name", Kind::kBuffer, out);
  if (one.kind == "tensor_constant")
    return read_stored(*one.value, at, "tensor_constant_name", Kind::kConstant, out);
  if (one.kind == "user_input") return read_user_input(*one.value, at, forms, out);
  if (one.kind == "constant_input") return read_fixed_input(*one.value, at, out);
  return usage_error(
      fmt::format("{}: an input of the kind {} cannot be captured", place.text(), printable(one.kind)));
}

Status read_output(const Document& value, const Place& place, const Document& forms, ExportedOutput& out) {
  DGX_TRY(const Alternative one, alternative_of(value, place));
  const Place at = place.member(one.kind);
  DGX_TRY(const Document* const given, member_of(*one.value, "arg", at));
  if (one.kind == "user_output") {
    DGX_CHECK(read_argument(*given, at.member("arg"), out.value));
    const auto* const tensor = std::get_if<ExportedName>(&out.value);
    return tensor && forms.find(tensor->name) ? read_form_of(tensor->name, forms, place, out.form) : Status();
  }
  if (one.kind == "buffer_mutation" || one.kind == "loss_output") {
    DGX_CHECK(read_name(*given, at.member("arg"), out.value.emplace<ExportedName>()));
    return one.kind == "loss_output" ? Status() : read_member(*one.value, "buffer_name", at, out.buffer);
  }
  if (one.kind == "parameter_mutation" || one.kind == "user_input_mutation") {
    return usage_error(
        fmt::format("{}: forward() changes a {}, which cannot be captured", place.text(),
                    one.kind == "parameter_mutation" ? "parameter" : "tensor that it is given"));
  }
  return usage_error(
      fmt::format("{}: an output of the kind {} cannot be captured", place.text(), printable(one.kind)));
}

/// Gives the results their paths in forward()'s tree. A program without one has a list of results.
Status read_paths(const Document& module, const Place& top, ExportedProgram& out) {
  std::vector<ExportedOutput*> results;
  for (ExportedOutput& output : out.outputs) {
    if (output.buffer.empty()) results.push_back(&output);
  }
  for (std::size_t n = 0; n < results.size() && results.size() > 1; ++n)
    results[n]->path = {std::to_string(n), std::to_string(n)};
  const Document* const modules = module.find("module_call_graph");
  const Document::Array* const items = modules ? modules->as_array() : nullptr;
  const Document* const signature = items && !items->empty() ? items->front().find("signature") : nullptr;
  const Document* const tree = signature ? signature->find("out_spec") : nullptr;
  if (!tree) return {};
  const Place place = top.member("module_call_graph");
  if (!tree->as_string()) return wrong_type(place, "a string out_spec", *tree);
  auto paths = leaves_of_tree(*tree->as_string());
  if (!paths.ok()) return within(place.text(), std::move(paths).error());
  if (paths->size() != results.size())
    return place.error(
        fmt::format("out_spec has {} leaves, the program has {} results", paths->size(), results.size()));
  for (std::size_t n = 0; n < results.size(); ++n) results[n]->path = std::move((*paths)[n]);
  return {};
}

Status read_ranges(const Document& value, ExportedProgram& out) {
  const Place place{nullptr, "range_constraints"};
  const Document::Object* const members = value.as_object();
  if (!members) return wrong_type(place, "an object", value);
  for (const auto& [name, range] : *members) {
    ExportedRange& each = out.ranges[name];
    const Place at = place.member(name);
    DGX_TRY(const Document* const low, member_of(range, "min_val", at));
    DGX_TRY(const Document* const high, member_of(range, "max_val", at));
    if (!low->is_null()) DGX_CHECK(read(*low, at, each.low));
    if (!high->is_null()) DGX_CHECK(read(*high, at, each.high));
  }
  return {};
}

Status check_versions(const Document& root, ExportedProgram& out) {
  const Place place{nullptr, "schema_version"};
  DGX_TRY(const Document* const version, member_of(root, "schema_version", Place{nullptr, "program"}));
  std::int64_t major = 0;
  std::int64_t minor = 0;
  DGX_CHECK(read_member(*version, "major", place, major));
  DGX_CHECK(read_member(*version, "minor", place, minor));
  out.schema_version = fmt::format("{}.{}", major, minor);
  const Document* const torch = root.find("torch_version");
  if (torch && torch->as_string()) out.torch_version = printable(*torch->as_string());
  if (major != kSchemaMajor) {
    return usage_error(fmt::format("is of torch.export's schema {}, written by torch {}; schema {} is read",
                                   out.schema_version, out.torch_version, kSchemaMajor),
                       "export the model again with torch 2.9 or later");
  }
  DGX_TRY(const Document* const dialects, member_of(root, "verifiers", Place{nullptr, "program"}));
  std::vector<std::string> names;
  DGX_CHECK(read_plain_list(*dialects, Place{nullptr, "verifiers"}, names));
  for (const std::string& name : names) {
    if (name == "TRAINING" || name == "ATEN") continue;
    return usage_error(fmt::format("is in the dialect {}, not TRAINING or ATEN", printable(name)),
                       "save what torch.export.export returns, not what was made of it");
  }
  return {};
}

/// Parses a file's text, after counting what begins its values: a value takes up to 200 bytes of memory,
/// however short its text is.
Result<Document> parse_text(std::string_view text, std::size_t max_bytes) {
  const auto begins = [](char c) { return c == ',' || c == '[' || c == '{'; };
  const auto values = static_cast<std::size_t>(std::ranges::count_if(text, begins));
  if (values > kMaxExportedValues)
    return malformed(fmt::format("has {} values, at most {} are read", values, kMaxExportedValues));
  return json::parse_document(text, {max_bytes, kMaxDepth});
}

}  // namespace

Result<ExportedProgram> parse_exported_program(std::string_view text) {
  DGX_TRY(const Document root, parse_text(text, kMaxExportedProgramBytes));
  ExportedProgram out;
  DGX_CHECK(check_versions(root, out));
  const Place top{nullptr, "graph_module"};
  DGX_TRY(const Document* const module, member_of(root, "graph_module", Place{nullptr, "program"}));
  DGX_TRY(const Document* const graph, member_of(*module, "graph", top));
  DGX_CHECK(read_graph(*graph, Place{nullptr, "graph"}, out.graph));
  DGX_TRY(const Document* const forms, member_of(*graph, "tensor_values", Place{nullptr, "graph"}));
  DGX_TRY(const Document* const signature, member_of(*module, "signature", top));
  const Place place{nullptr, "signature"};
  DGX_TRY(const Document* const inputs, member_of(*signature, "input_specs", place));
  const auto read_one = [&](const Document& value, const Place& at, ExportedInput& input) {
    return read_input(value, at, *forms, input);
  };
  DGX_CHECK(read_list(*inputs, place.member("input_specs"), out.inputs, read_one));
  DGX_TRY(const Document* const outputs, member_of(*signature, "output_specs", place));
  const auto read_result = [&](const Document& value, const Place& at, ExportedOutput& output) {
    return read_output(value, at, *forms, output);
  };
  DGX_CHECK(read_list(*outputs, place.member("output_specs"), out.outputs, read_result));
  DGX_CHECK(read_paths(*module, top, out));
  if (const Document* const ranges = root.find("range_constraints")) DGX_CHECK(read_ranges(*ranges, out));
  return out;
}

Result<std::map<std::string, ExportedTensor, std::less<>>> parse_exported_tensors(std::string_view text) {
  DGX_TRY(const Document root, parse_text(text, kMaxExportedListBytes));
  const Place place{nullptr, "config"};
  DGX_TRY(const Document* const list, member_of(root, "config", Place{nullptr, "list"}));
  if (!list->as_object()) return wrong_type(place, "an object", *list);
  std::map<std::string, ExportedTensor, std::less<>> out;
  for (const auto& [name, entry] : *list->as_object()) {
    ExportedTensor& tensor = out[name];
    const Place at = place.member(name);
    DGX_CHECK(read_member(entry, "path_name", at, tensor.path));
    bool is_pickle = false;
    DGX_CHECK(read_member(entry, "use_pickle", at, is_pickle));
    if (is_pickle) {
      return usage_error(fmt::format("{} is stored as a pickle, which is never opened", printable(name)),
                         "load the file with torch.export.load in torch 2.9 or later, and save it again");
    }
    DGX_TRY(const Document* const form, member_of(entry, "tensor_meta", at));
    DGX_CHECK(read_form(*form, at.member("tensor_meta"), tensor.form));
  }
  return out;
}

}  // namespace dgx::lowering
