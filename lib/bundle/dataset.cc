#include "dgx/bundle/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "class_names.h"
#include "container.h"
#include "dgx/core/json.h"
#include "dgx/core/parallel.h"
#include "dgx/merkle/digests.h"
#include "float_text.h"

namespace dgx::bundle {
namespace {

constexpr std::int64_t kMaxJsonInteger = std::int64_t{1} << 53;

/// The place of flat index `at` in a field: "x: sample 17, element 3".
std::string place(std::string_view field, const BulkTensor& tensor, std::size_t at) {
  const auto per_sample = static_cast<std::size_t>(tensor.count() / tensor.shape()[0]);
  return fmt::format("{}: sample {}, element {}", field, at / per_sample, at % per_sample);
}

/// Calls visit(numbers, index of the first of them) for successive pieces until it returns an error.
template <class T, class Visit>
Status visit_pieces(const BulkTensor& tensor, const Visit& visit) {
  return for_each_piece(tensor.as<T>().size(), [&](std::size_t begin, std::size_t count) -> Status {
    DGX_CHECK(visit(tensor.as<T>().subspan(begin, count), begin));
    release(tensor.view(), begin * sizeof(T), count * sizeof(T));
    return {};
  });
}

Status check_finite(std::string_view field, const BulkTensor& tensor) {
  return visit_pieces<float>(tensor, [&](std::span<const float> numbers, std::size_t begin) -> Status {
    const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float v) { return !std::isfinite(v); });
    if (bad == numbers.end()) return {};
    const auto at = begin + static_cast<std::size_t>(bad - numbers.begin());
    return malformed(fmt::format("{} is {}", place(field, tensor, at), std::isnan(*bad) ? "NaN" : "infinite"),
                     "a single non-finite number would make every loss non-finite");
  });
}

template <class T>
Result<IntegerRange> range_of(std::string_view field, const BulkTensor& tensor) {
  IntegerRange range{tensor.as<T>()[0], tensor.as<T>()[0]};
  DGX_CHECK(visit_pieces<T>(tensor, [&](std::span<const T> numbers, std::size_t begin) -> Status {
    const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
    for (const auto bad : {low, high}) {
      if (*bad >= -kMaxJsonInteger && *bad <= kMaxJsonInteger) continue;
      const auto at = begin + static_cast<std::size_t>(bad - numbers.begin());
      return malformed(fmt::format("{} is {}, beyond 2^53", place(field, tensor, at), *bad));
    }
    range = {std::min<std::int64_t>(range.low, *low), std::max<std::int64_t>(range.high, *high)};
    return {};
  }));
  return range;
}

/// Checks a field's numbers, and finds the range of integers.
Result<std::optional<IntegerRange>> examine(std::string_view field, const BulkTensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32: DGX_CHECK(check_finite(field, tensor)); return std::optional<IntegerRange>();
    case DType::kI64: {
      DGX_TRY(const IntegerRange range, range_of<std::int64_t>(field, tensor));
      return std::optional(range);
    }
    case DType::kU8: {
      DGX_TRY(const IntegerRange range, range_of<std::uint8_t>(field, tensor));
      return std::optional(range);
    }
  }
  return internal_error("unknown element type");
}

Status check_scales(float scale, float shift) {
  if (!std::isfinite(scale) || scale == 0) return usage_error("scale must be finite and not 0");
  if (!std::isfinite(shift)) return usage_error("shift must be finite");
  return {};
}

/// Names of tensors that a bundle has, besides x and y, only if they are not empty.
constexpr std::string_view kClasses = "classes";
constexpr std::string_view kChannels = "channels";
constexpr std::size_t kMaxChannelBytes = std::size_t{1} << 24;

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

std::string hex_digest(const Tensor& tensor) { return merkle::tensor_digest(tensor.view()).hex(); }

const Shape& shape_of(const Field& field) { return field.numbers.shape(); }
const Shape& shape_of(const FieldInfo& field) { return field.shape; }

/// kMalformed if there are names, and they cannot be those of y's classes.
/// `from` is a Dataset or a DatasetInfo.
template <class HasFields>
Status check_named(const HasFields& from) {
  const std::vector<std::string>& classes = from.classes;
  if (classes.empty()) return {};
  DGX_CHECK(check_classes(classes));
  const auto* const y = from.find("y");
  if (y == nullptr || shape_of(*y).size() != 1 || !y->range)
    return malformed("there are names of classes, y is not one integer per sample");
  const std::optional<IntegerRange>& range = y->range;
  if (range->low >= 0 && range->high < static_cast<std::int64_t>(classes.size())) return {};
  return malformed(
      fmt::format("there are {} classes, but y goes from {} to {}", classes.size(), range->low, range->high));
}

/// `from` is a Dataset or a DatasetInfo.
template <class HasFields>
std::string recipe_of(const HasFields& from) {
  json::Object ranges;
  for (const auto& [name, field] : from.fields)
    if (field.range) ranges[name] = json::Array{field.range->low, field.range->high};
  json::Object recipe{
      {"ranges", std::move(ranges)}, {"scale", float_text(from.scale)}, {"shift", float_text(from.shift)}};
  if (!from.classes.empty()) recipe.emplace(kClasses, hex_digest(class_tensor(from.classes)));
  if (!from.channels.empty()) recipe.emplace(kChannels, hex_digest(channel_tensor(from.channels)));
  return json::Value(std::move(recipe)).dump();
}

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

/// Names of a bundle's fields, ascending: all its tensors but those that the recipe names. They are not
/// checked.
Result<std::vector<std::string>> field_names(const Reader& reader, const Recipe& recipe) {
  DGX_TRY(std::vector<std::string> names, reader.children(""));
  for (const auto& [name, digest] :
       {std::pair(kClasses, &recipe.classes), std::pair(kChannels, &recipe.channels)})
    if (!digest->empty()) std::erase(names, name);
  return names;
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

/// Names and shapes of fields, by which all of them are checked.
using Shapes = std::vector<std::pair<std::string_view, const Shape*>>;

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
  info.samples = info.x().shape[0];
  DGX_TRY(info.digest, reader.digest("", "digest"));
  DGX_TRY(info.classes, read_classes(reader, recipe->classes));
  DGX_TRY(info.channels, read_channels(reader, recipe->channels));
  const Status taken = take_recipe(*recipe, text, info);
  if (!taken.ok()) return reader.in_file(taken.error());
  return info;
}

Digest threaded_digest(const BulkTensor& tensor, int threads) {
  std::vector<Digest> roots(merkle::tensor_part_count(tensor.bytes().size()));
  // The work never fails.
  static_cast<void>(for_each_index(roots.size(), threads, [&](std::size_t part) -> Status {
    roots[part] = merkle::tensor_part_root(tensor.bytes(), part);
    release(tensor.view(), part * merkle::kTensorPartBytes, merkle::kTensorPartBytes);
    return {};
  }));
  return merkle::tensor_digest(tensor.dtype(), tensor.shape(), merkle::root_of(roots));
}

Result<Digest> digest_of(const Dataset& dataset, int threads) {
  std::vector<merkle::NamedDigest> tensors;
  for (const auto& [name, field] : dataset.fields)
    tensors.push_back({name, threaded_digest(field.numbers, thread_count(threads))});
  return merkle::dataset_digest(tensors, recipe_of(dataset));
}

Status check_numbers(const Dataset& dataset, const Digest& digest, int threads) {
  for (const auto& [name, field] : dataset.fields) {
    DGX_TRY(const auto range, examine(name, field.numbers));
    if (range != field.range)
      return malformed(fmt::format("{}: the numbers do not have the range of the recipe", name));
  }
  DGX_TRY(const Digest ours, digest_of(dataset, threads));
  if (ours == digest) return {};
  return malformed(fmt::format("the dataset has digest {}, recomputed {}", digest.brief(), ours.brief()));
}

}  // namespace

const Field* Dataset::find(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? nullptr : &found->second;
}

const FieldInfo* DatasetInfo::find(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? nullptr : &found->second;
}

Status check_fields(const FieldNumbers& fields) {
  Shapes shapes;
  for (const auto& [name, numbers] : fields) shapes.emplace_back(name, &numbers.shape());
  return check_shapes(shapes);
}

Result<Dataset> make_dataset(FieldNumbers fields, float scale, float shift,
                             std::vector<std::string> classes) {
  DGX_CHECK(check_scales(scale, shift));
  DGX_CHECK(check_fields(fields));
  Dataset out{{}, scale, shift, std::move(classes)};
  for (auto& [name, numbers] : fields) {
    DGX_TRY(const auto range, examine(name, numbers));
    out.fields.emplace(name, Field{std::move(numbers), range});
  }
  DGX_CHECK(check_named(out));
  return out;
}

Result<Dataset> make_dataset(BulkTensor x, BulkTensor y, float scale, float shift,
                             std::vector<std::string> classes) {
  FieldNumbers fields;
  fields.emplace("x", std::move(x));
  fields.emplace("y", std::move(y));
  return make_dataset(std::move(fields), scale, shift, std::move(classes));
}

std::string dataset_recipe(const Dataset& dataset) { return recipe_of(dataset); }

Result<Digest> dataset_digest(const Dataset& dataset) { return digest_of(dataset, 0); }

StagedDataset::StagedDataset(std::unique_ptr<Writer> writer, const Digest& digest)
    : writer_(std::move(writer)), digest_(digest) {}
StagedDataset::StagedDataset(StagedDataset&&) noexcept = default;
StagedDataset::~StagedDataset() = default;

Status StagedDataset::commit() { return writer_->commit(); }

Result<StagedDataset> stage_dataset(AtomicFile target, const Dataset& dataset, Effort effort) {
  Shapes shapes;
  std::vector<NamedView> tensors;
  for (const auto& [name, field] : dataset.fields) {
    shapes.emplace_back(name, &field.numbers.shape());
    tensors.push_back({name, field.numbers.view(), {}});
  }
  DGX_CHECK(check_shapes(shapes));
  DGX_CHECK(check_scales(dataset.scale, dataset.shift));
  DGX_TRY(const Digest digest, digest_of(dataset, effort.threads));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kDataset, effort));
  DGX_CHECK(writer.digest("", "digest", digest));
  DGX_CHECK(writer.text("", "recipe", recipe_of(dataset)));
  const Tensor classes = class_tensor(dataset.classes);
  const Tensor channels = channel_tensor(dataset.channels);
  if (!dataset.classes.empty()) tensors.push_back({std::string(kClasses), classes.view(), {}});
  if (!dataset.channels.empty()) tensors.push_back({std::string(kChannels), channels.view(), {}});
  DGX_CHECK(writer.tensors(tensors));
  return StagedDataset(std::make_unique<Writer>(std::move(writer)), digest);
}

Result<Digest> write_dataset(const std::string& path, const Dataset& dataset, Clobber clobber,
                             Effort effort) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  DGX_TRY(StagedDataset staged, stage_dataset(std::move(target), dataset, effort));
  DGX_CHECK(staged.commit());
  return staged.digest();
}

Result<Dataset> read_dataset(const std::string& path, Check check, Effort effort) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kDataset));
  DGX_TRY(const DatasetInfo info, info_from(reader));
  std::vector<std::string> names;
  for (const auto& [name, field] : info.fields) names.push_back(name);
  DGX_TRY(std::vector<BulkTensor> tensors, reader.bulk_tensors(names, effort));
  Dataset dataset{{}, info.scale, info.shift, info.classes, info.channels};
  for (std::size_t i = 0; i < names.size(); ++i)
    dataset.fields.emplace(names[i], Field{std::move(tensors[i]), info.find(names[i])->range});
  if (check == Check::kNothing) return dataset;
  Status same = check_numbers(dataset, info.digest, effort.threads);
  if (!same.ok()) return reader.in_file(std::move(same).error());
  return dataset;
}

Result<DatasetInfo> read_dataset_info(const std::string& path) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kDataset));
  return info_from(reader);
}

}  // namespace dgx::bundle
