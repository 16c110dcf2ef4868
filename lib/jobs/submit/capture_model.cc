#include "submit/capture_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "dgx/core/text.h"
#include "task/torch_module.h"

namespace dgx::jobs {
namespace {

using lowering::BatchField;
using lowering::CapturedGraph;
using lowering::CaptureRequest;
using lowering::TrainingRecipe;

constexpr const char* kAuto = "auto";

/// Sets the type of a field by its name in --input.
Status set_type(BatchField& field, const std::string& type) {
  if (type == kAuto) return {};
  const std::vector<std::string> known = {kAuto, "bool", "f32", "i64", "u8"};
  if (std::ranges::find(known, type) == known.end())
    return usage_error(fmt::format("--input: '{}' is no type", printable(type)), hint_among(type, known));
  field.boolean = type == "bool";
  field.asked = true;
  if (field.boolean) return field.dtype = DType::kU8, Status();
  DGX_TRY(field.dtype, dtype_from_name(type));
  return {};
}

/// Reads --input: a type, which is x's, or FIELD=TYPE,….
Status set_types(const std::string& text, std::vector<BatchField>& fields) {
  std::vector<std::string> names;
  for (const BatchField& field : fields) names.push_back(field.name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = part.find('=');
    const std::string name = equals == std::string::npos ? "x" : part.substr(0, equals);
    const auto field = std::ranges::find(fields, name, &BatchField::name);
    if (field == fields.end())
      return usage_error(fmt::format("--input: the data has no field '{}'", printable(name)),
                         hint_among(name, names));
    if (field->asked) return usage_error(fmt::format("--input: a second type for {}", name));
    DGX_CHECK(set_type(*field, equals == std::string::npos ? part : part.substr(equals + 1)));
  }
  return {};
}

/// The type in which a model takes a field, unless it or the user says another: the images of x become
/// numbers; tokens, labels and masks stay integers.
DType usual_type(const std::string& name, DType stored, const TrainingRecipe& recipe) {
  if (stored == DType::kF32) return DType::kF32;
  if (name != "x") return DType::kI64;
  const bool is_scaled = recipe.scale != 1 || recipe.shift != 0;
  return stored == DType::kI64 && !is_scaled ? DType::kI64 : DType::kF32;
}

/// The type that a built-in model takes.
Result<DType> built_in_type(const std::string& model) {
  DGX_TRY(const program::ModelSpec spec, program::parse_model_spec(model));
  return program::decoder_of(spec) != nullptr ? DType::kI64 : DType::kF32;
}

Result<std::vector<BatchField>> batch_fields(const SubmitOptions& options, const std::string& model,
                                             const TrainingRecipe& recipe) {
  std::vector<BatchField> out;
  for (const auto& [name, field] : recipe.fields) {
    BatchField& each = out.emplace_back(BatchField{name, field.sample_shape});
    each.shape.insert(each.shape.begin(), recipe.batch);
    each.dtype = usual_type(name, field.dtype, recipe);
    if (name != "x" || !program::is_model_spec(model)) continue;
    DGX_TRY(each.dtype, built_in_type(model));
  }
  DGX_CHECK(set_types(options.input, out));
  return out;
}

/// kUsage for options that say what a built-in model or the loss leaves no choice about.
Status check_options(const SubmitOptions& options, const std::string& model, const TrainingRecipe& recipe) {
  const bool is_inside = recipe.loss.kind == program::LossKind::kOutput;
  if (is_inside && options.model_output)
    return usage_error("--model-output: with --loss output the loss is the output",
                       fmt::format("say --loss output={}", printable(*options.model_output)));
  if (options.model_output && options.model_output->empty())
    return usage_error("--model-output: names no output");
  if (!program::is_model_spec(model)) return {};
  const std::pair<const char*, bool> of_files[] = {{"--eval-model", options.evaluation_model.has_value()},
                                                   {"--inputs", options.inputs.has_value()},
                                                   {"--model-output", options.model_output.has_value()},
                                                   {"--loss output", is_inside}};
  for (const auto& [name, is_given] : of_files) {
    if (is_given)
      return usage_error(fmt::format("{} goes with a model file, not with a built-in model", name));
  }
  return {};
}

Result<CapturedGraph> capture(const CaptureRequest& request, const TrainingRecipe& recipe) {
  DGX_TRY(program::ModelReader* const module, open_torch_module());
  auto* const backend = static_cast<lowering::CaptureBackend*>(module);
  auto graph = backend->capture(request);
  const auto x = std::ranges::find(request.fields, "x", &BatchField::name);
  const bool are_numbers = x != request.fields.end() && x->dtype == DType::kF32 && !x->asked;
  if (graph.ok() || program::is_model_spec(request.model) || !are_numbers ||
      recipe.fields.find("x")->second.dtype == DType::kF32)
    return graph;
  Error error = std::move(graph).error();
  const bool ran = error.message.find("forward() of input") != std::string::npos;
  if (error.code == ErrorCode::kMalformed && error.hint.empty() && ran)
    error.hint = "use --input i64 if forward() takes tokens";
  return error;
}

/// kUsage if a graph for evaluation has parameters or buffers that the one for training does not have: then
/// it is of another model.
Status check_same_model(const SubmitOptions& options, const CapturedModel& model) {
  using Kind = lowering::AtenSource::Kind;
  const CapturedGraph& training = model.training;
  for (const lowering::AtenSource& source : model.evaluation.sources) {
    if (source.kind == Kind::kConstant) continue;
    const auto same = std::ranges::find_if(training.sources, [&](const lowering::AtenSource& each) {
      return each.kind == source.kind && each.name == source.name;
    });
    const lowering::AtenTensor& form = model.evaluation.form(source);
    const auto* const trained = same == training.sources.end() ? nullptr : &training.form(*same);
    if (trained && trained->shape == form.shape && trained->dtype == form.dtype) continue;
    return usage_error(fmt::format("--eval-model {}: has {} of shape {}, {} has {}",
                                   *options.evaluation_model, printable(source.name), to_string(form.shape),
                                   options.model, trained ? to_string(trained->shape) : "none"),
                       "export both from one model: model.train(), then model.eval()");
  }
  return {};
}

/// Makes `request` one for `model`, a file or a complete spec.
void set_model(const std::string& model, CaptureRequest& request) {
  const bool is_spec = program::is_model_spec(model);
  program::ModelFile file = is_spec ? program::ModelFile{model, {}} : program::model_file(model);
  request.model = std::move(file.path);
  request.program = std::move(file.program);
}

}  // namespace

std::map<std::string, lowering::DatasetField, std::less<>> fields_of(const bundle::Dataset& data) {
  std::map<std::string, lowering::DatasetField, std::less<>> out;
  for (const auto& [name, field] : data.fields) {
    const TensorView& numbers = field.numbers.view();
    out.emplace(name,
                lowering::DatasetField{numbers.dtype, Shape(numbers.shape.begin() + 1, numbers.shape.end())});
  }
  return out;
}

Result<CapturedModel> capture_model(const SubmitOptions& options, const std::string& model,
                                    const TrainingRecipe& recipe) {
  DGX_CHECK(check_options(options, model, recipe));
  CaptureRequest request;
  set_model(model, request);
  DGX_TRY(request.fields, batch_fields(options, model, recipe));
  if (options.inputs) {
    DGX_TRY(request.inputs, lowering::parse_input_map(*options.inputs));
  }
  const bool is_inside = recipe.loss.kind == program::LossKind::kOutput;
  request.loss_takes_y = !is_inside;
  request.output = is_inside ? recipe.loss.output : options.model_output.value_or("");
  CapturedModel out;
  request.cut_block = recipe.cut ? recipe.cut->block : 0;
  DGX_TRY(out.training, capture(request, recipe));
  request.training = false;
  request.cut_block = 0;
  set_model(options.evaluation_model.value_or(model), request);
  DGX_TRY(out.evaluation, capture(request, recipe));
  if (options.evaluation_model) DGX_CHECK(check_same_model(options, out));
  if (Status matched = lowering::match_sources(out.training, out.evaluation); !matched.ok())
    return within(options.evaluation_model.value_or(model), std::move(matched).error());
  return out;
}

}  // namespace dgx::jobs
