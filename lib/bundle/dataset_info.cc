#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "class_names.h"
#include "dataset_parts.h"
#include "dgx/core/json.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/nodes.h"
#include "float_text.h"

namespace dgx::bundle {
namespace {

/// The end of the names of the datasets that hold nodes.
constexpr std::string_view kNodes = ".nodes";
constexpr std::size_t kMaxChannelBytes = std::size_t{1} << 24;

std::string hex_digest(const Tensor& tensor) { return merkle::tensor_digest(tensor.view()).hex(); }

}  // namespace

Tensor class_tensor(const std::vector<std::string>& classes) {
  const std::string text = class_text(classes);
  return TensorView{DType::kU8, {static_cast<std::int64_t>(text.size())}, as_bytes(text)};
}

Tensor channel_tensor(const std::vector<Affine>& channels) {
  Tensor out(DType::kF32, {static_cast<std::int64_t>(channels.size()), 2});
  for (std::size_t i = 0; i < channels.size(); ++i) {
    out.as<float>()[2 * i] = channels[i].scale;
    out.as<float>()[2 * i + 1] = channels[i].shift;
  }
  return out;
}

Status check_scales(float scale, float shift) {
  if (!std::isfinite(scale) || scale == 0) return usage_error("scale must be finite and not 0");
  if (!std::isfinite(shift)) return usage_error("shift must be finite");
  return {};
}

Status check_shapes(const Shapes& shapes) {
  const Shape* x = nullptr;
  for (const auto& [name, shape] : shapes) {
    if (!merkle::is_field_name(name))
      return malformed(fmt::format("\"{}\" is no name of a field", name),
                       "a lower-case letter and at most 31 more, digits or _, but not classes or channels");
    if (shape->empty()) return malformed(fmt::format("{}: has no dimension of samples", name));
    if (*element_count(*shape) == 0)
      return malformed(fmt::format("{}: shape {} has no numbers", name, to_string(*shape)));
    if (name == "x") x = shape;
  }
  if (x == nullptr) return malformed("there is no field x");
  if (shapes.size() > merkle::kMaxFields)
    return malformed(fmt::format("{} fields, at most {}", shapes.size(), merkle::kMaxFields));
  for (const auto& [name, shape] : shapes)
    if ((*shape)[0] != (*x)[0])
      return malformed(fmt::format("x has {} samples, {} has {}", (*x)[0], name, (*shape)[0]));
  return {};
}

Status check_named(const DatasetInfo& info) {
  const std::vector<std::string>& classes = info.classes;
  if (classes.empty()) return {};
  DGX_CHECK(check_classes(classes));
  const FieldInfo* const y = info.find("y");
  if (y == nullptr || y->shape.size() != 1 || !y->range)
    return malformed("there are names of classes, y is not one integer per sample");
  const std::optional<IntegerRange>& range = y->range;
  if (range->low >= 0 && range->high < static_cast<std::int64_t>(classes.size())) return {};
  return malformed(
      fmt::format("there are {} classes, but y goes from {} to {}", classes.size(), range->low, range->high));
}

std::string recipe_of(const DatasetInfo& info) {
  json::Object ranges;
  for (const auto& [name, field] : info.fields)
    if (field.range) ranges[name] = json::Array{field.range->low, field.range->high};
  json::Object recipe{
      {"ranges", std::move(ranges)}, {"scale", float_text(info.scale)}, {"shift", float_text(info.shift)}};
  if (!info.classes.empty()) recipe.emplace(kClasses, hex_digest(class_tensor(info.classes)));
  if (!info.channels.empty()) recipe.emplace(kChannels, hex_digest(channel_tensor(info.channels)));
  return json::Value(std::move(recipe)).dump();
}

namespace {

Result<std::optional<IntegerRange>> parse_range(const json::Value& ranges, const std::string& field,
                                                DType dtype) {
  const json::Object& object = *ranges.as_object();
  const auto found = object.find(field);
  if ((found != object.end()) != (dtype != DType::kF32)) {
    return malformed(
        fmt::format("recipe: a range of {} must be present if and only if it holds integers", field));
  }
  if (found == object.end()) return std::optional<IntegerRange>();
  const json::Array* pair = found->second.as_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].as_int() || !(*pair)[1].as_int() ||
      *(*pair)[0].as_int() > *(*pair)[1].as_int()) {
    return malformed(fmt::format("recipe: the range of {} is not two ascending integers", field));
  }
  return std::optional(IntegerRange{*(*pair)[0].as_int(), *(*pair)[1].as_int()});
}

/// Reads a tensor that the recipe names, and compares it with the digest there.
Result<Tensor> bound_tensor(const Reader& reader, std::string_view name, std::size_t max_bytes,
                            const std::string& digest) {
  DGX_TRY(Tensor tensor, reader.tensor(std::string(name), {.threads = 1, .max_bytes = max_bytes}));
  if (hex_digest(tensor) == digest) return tensor;
  return reader.in_file(malformed(fmt::format("{}: does not have the digest in the recipe", name)));
}

Result<std::vector<std::string>> read_classes(const Reader& reader, const std::string& digest) {
  if (digest.empty()) return std::vector<std::string>();
  DGX_TRY(const Tensor tensor, bound_tensor(reader, kClasses, kMaxClassTextBytes, digest));
  if (tensor.dtype() != DType::kU8 || tensor.shape().size() != 1)
    return reader.in_file(malformed("classes: is not u8[n]"));
  auto classes = classes_from_text(as_text(tensor.bytes()));
  if (!classes.ok()) return reader.in_file(within("classes", std::move(classes).error()));
  return classes;
}

Result<std::vector<Affine>> read_channels(const Reader& reader, const std::string& digest) {
  std::vector<Affine> channels;
  if (digest.empty()) return channels;
  DGX_TRY(const Tensor tensor, bound_tensor(reader, kChannels, kMaxChannelBytes, digest));
  const Shape& shape = tensor.shape();
  if (tensor.dtype() != DType::kF32 || shape.size() != 2 || shape[0] < 1 || shape[1] != 2)
    return reader.in_file(malformed("channels: is not f32[n,2]"));
  const auto numbers = tensor.as<float>();
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    if (!check_scales(numbers[i], numbers[i + 1]).ok())
      return reader.in_file(malformed(fmt::format("channels: row {} is not a scale and a shift", i / 2)));
    channels.push_back({numbers[i], numbers[i + 1]});
  }
  return channels;
}

/// A recipe's fields. `classes` and `channels` are hex digests, or empty.
struct Recipe {
  json::Value ranges;
  float scale = 1;
  float shift = 0;
  std::string classes, channels;
};

Result<Recipe> parse_recipe(const std::string& text) {
  DGX_TRY(const json::Value value, json::parse_canonical(text));
  json::Fields in(value, "recipe");
  Recipe recipe;
  recipe.ranges = in.value("ranges");
  const std::string scale = in.string("scale", 32);
  const std::string shift = in.string("shift", 32);
  if (in.has(kClasses)) recipe.classes = in.string(kClasses, 64);
  if (in.has(kChannels)) recipe.channels = in.string(kChannels, 64);
  DGX_CHECK(in.finish());
  if (recipe.ranges.as_object() == nullptr) return malformed("recipe: ranges is not an object");
  DGX_TRY(recipe.scale, float_from_text(scale));
  DGX_TRY(recipe.shift, float_from_text(shift));
  if (recipe.scale == 0) return malformed("recipe: scale is 0");
  return recipe;
}

/// Names of a bundle's fields, ascending: all its tensors but those that the recipe names and the nodes of
/// fields. They are not checked.
Result<std::vector<std::string>> field_names(const Reader& reader, const Recipe& recipe) {
  DGX_TRY(std::vector<std::string> names, reader.children(""));
  for (const auto& [name, digest] :
       {std::pair(kClasses, &recipe.classes), std::pair(kChannels, &recipe.channels)})
    if (!digest->empty()) std::erase(names, name);
  std::vector<std::string> fields;
  std::copy_if(names.begin(), names.end(), std::back_inserter(fields),
               [](const std::string& name) { return !name.ends_with(kNodes); });
  std::vector<std::string> expected = fields;
  for (const std::string& field : fields) expected.push_back(nodes_path(field));
  std::sort(expected.begin(), expected.end());
  if (names == expected) return fields;
  return reader.in_file(malformed(
      fmt::format("has the datasets {}, expected {}", fmt::join(names, ", "), fmt::join(expected, ", ")),
      "pack the data again"));
}

/// kMalformed unless a field's nodes are u8[n,32].
Status check_nodes_shape(const Reader& reader, const std::string& field, const FieldInfo& info) {
  DGX_TRY(const TensorInfo nodes, reader.info(nodes_path(field)));
  const auto bytes = static_cast<std::uint64_t>(*element_count(info.shape)) * size_of(info.dtype);
  const Shape expected{static_cast<std::int64_t>(merkle::tensor_node_count(bytes)), 32};
  if (nodes.dtype == DType::kU8 && nodes.shape == expected) return {};
  return reader.in_file(
      malformed(fmt::format("{}: is {}{}, expected u8{}", nodes_path(field), name_of(nodes.dtype),
                            to_string(nodes.shape), to_string(expected))));
}

/// Completes the metadata from the recipe. Accepts only what dataset_recipe() writes: writes it again and
/// compares.
Status take_recipe(const Recipe& recipe, const std::string& text, DatasetInfo& info) {
  info.scale = recipe.scale;
  info.shift = recipe.shift;
  for (auto& [name, field] : info.fields) {
    DGX_TRY(field.range, parse_range(recipe.ranges, name, field.dtype));
  }
  DGX_CHECK(check_named(info));
  if (recipe_of(info) != text) return malformed("recipe: has unknown ranges");
  return {};
}

}  // namespace

std::string nodes_path(std::string_view field) { return std::string(field).append(kNodes); }

Result<std::vector<Digest>> read_nodes(const Reader& reader, std::string_view field, const FieldInfo& info) {
  const auto bytes = static_cast<std::uint64_t>(*element_count(info.shape)) * size_of(info.dtype);
  return reader.digests(nodes_path(field), merkle::tensor_node_count(bytes));
}

Result<DatasetInfo> info_from(const Reader& reader) {
  DGX_CHECK(reader.expect_attributes("", {"digest", "recipe"}));
  DGX_TRY(const std::string text, reader.text("", "recipe"));
  const auto recipe = parse_recipe(text);
  if (!recipe.ok()) return reader.in_file(recipe.error());
  DGX_TRY(const std::vector<std::string> names, field_names(reader, *recipe));
  DatasetInfo info;
  Shapes shapes;
  for (const std::string& name : names) {
    DGX_TRY(TensorInfo field, reader.info(name));
    const auto [at, is_new] = info.fields.emplace(name, FieldInfo{field.dtype, std::move(field.shape)});
    shapes.emplace_back(at->first, &at->second.shape);
  }
  Status checked = check_shapes(shapes);
  if (!checked.ok()) return reader.in_file(std::move(checked).error());
  for (const auto& [name, field] : info.fields) DGX_CHECK(check_nodes_shape(reader, name, field));
  info.samples = info.x().shape[0];
  DGX_TRY(info.digest, reader.digest("", "digest"));
  DGX_TRY(info.classes, read_classes(reader, recipe->classes));
  DGX_TRY(info.channels, read_channels(reader, recipe->channels));
  const Status taken = take_recipe(*recipe, text, info);
  if (!taken.ok()) return reader.in_file(taken.error());
  return info;
}

}  // namespace dgx::bundle
