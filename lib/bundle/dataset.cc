#include "dgx/bundle/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// kMalformed if there are names, and they cannot be those of y's classes.
Status check_named(const std::vector<std::string>& classes, const Shape& y,
                   const std::optional<IntegerRange>& range) {
  if (classes.empty()) return {};
  DGX_CHECK(check_classes(classes));
  if (y.size() != 1 || !range)
    return malformed("there are names of classes, y is not one integer per sample");
  if (range->low >= 0 && range->high < static_cast<std::int64_t>(classes.size())) return {};
  return malformed(
      fmt::format("there are {} classes, but y goes from {} to {}", classes.size(), range->low, range->high));
}

template <class HasScales>
std::string recipe_of(const HasScales& from) {
  json::Object ranges;
  if (from.x_range) ranges["x"] = json::Array{from.x_range->low, from.x_range->high};
  if (from.y_range) ranges["y"] = json::Array{from.y_range->low, from.y_range->high};
  json::Object recipe{
      {"ranges", std::move(ranges)}, {"scale", float_text(from.scale)}, {"shift", float_text(from.shift)}};
  if (!from.classes.empty()) recipe.emplace(kClasses, hex_digest(class_tensor(from.classes)));
  if (!from.channels.empty()) recipe.emplace(kChannels, hex_digest(channel_tensor(from.channels)));
  return json::Value(std::move(recipe)).dump();
}

Result<std::optional<IntegerRange>> parse_range(const json::Value& ranges, const char* field, DType dtype) {
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

/// Names of a bundle's tensors, ascending.
std::vector<std::string> children_of(const Recipe& recipe) {
  std::vector<std::string> names;
  if (!recipe.channels.empty()) names.emplace_back(kChannels);
  if (!recipe.classes.empty()) names.emplace_back(kClasses);
  names.insert(names.end(), {"x", "y"});
  return names;
}

/// Completes the metadata from the recipe. Accepts only what dataset_recipe() writes: writes it again and
/// compares.
Status take_recipe(const Recipe& recipe, const std::string& text, DatasetInfo& info) {
  info.scale = recipe.scale;
  info.shift = recipe.shift;
  DGX_TRY(info.x_range, parse_range(recipe.ranges, "x", info.x_dtype));
  DGX_TRY(info.y_range, parse_range(recipe.ranges, "y", info.y_dtype));
  DGX_CHECK(check_named(info.classes, info.y_shape, info.y_range));
  if (recipe_of(info) != text) return malformed("recipe: has unknown ranges");
  return {};
}

Result<DatasetInfo> info_from(const Reader& reader) {
  DGX_CHECK(reader.expect_attributes("", {"digest", "recipe"}));
  DGX_TRY(const std::string text, reader.text("", "recipe"));
  const auto recipe = parse_recipe(text);
  if (!recipe.ok()) return reader.in_file(recipe.error());
  DGX_CHECK(reader.expect_children("", children_of(*recipe)));
  DGX_TRY(TensorInfo x, reader.info("x"));
  DGX_TRY(TensorInfo y, reader.info("y"));
  DatasetInfo info;
  info.x_dtype = x.dtype;
  info.y_dtype = y.dtype;
  const Status shapes = check_fields(x.shape, y.shape);
  if (!shapes.ok()) return reader.in_file(shapes.error());
  info.samples = x.shape[0];
  info.x_shape = std::move(x.shape);
  info.y_shape = std::move(y.shape);
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
  const std::array<merkle::NamedDigest, 2> tensors{
      merkle::NamedDigest{"x", threaded_digest(dataset.x, thread_count(threads))},
      merkle::NamedDigest{"y", threaded_digest(dataset.y, thread_count(threads))}};
  return merkle::dataset_digest(tensors, recipe_of(dataset));
}

Status check_numbers(const Dataset& dataset, const Digest& digest, int threads) {
  DGX_TRY(const auto x_range, examine("x", dataset.x));
  DGX_TRY(const auto y_range, examine("y", dataset.y));
  if (x_range != dataset.x_range) return malformed("x: the numbers do not have the range of the recipe");
  if (y_range != dataset.y_range) return malformed("y: the numbers do not have the range of the recipe");
  DGX_TRY(const Digest ours, digest_of(dataset, threads));
  if (ours == digest) return {};
  return malformed(fmt::format("the dataset has digest {}, recomputed {}", digest.brief(), ours.brief()));
}

}  // namespace

Status check_fields(const Shape& x, const Shape& y) {
  for (const auto& [field, shape] : {std::pair{"x", &x}, std::pair{"y", &y}}) {
    if (shape->empty()) return malformed(fmt::format("{}: has no dimension of samples", field));
    if (*element_count(*shape) == 0) {
      return malformed(fmt::format("{}: shape {} has no numbers", field, to_string(*shape)));
    }
  }
  if (x[0] == y[0]) return {};
  return malformed(fmt::format("x has {} samples, y has {}", x[0], y[0]));
}

Result<Dataset> make_dataset(BulkTensor x, BulkTensor y, float scale, float shift,
                             std::vector<std::string> classes) {
  DGX_CHECK(check_scales(scale, shift));
  DGX_CHECK(check_fields(x.shape(), y.shape()));
  DGX_TRY(const auto x_range, examine("x", x));
  DGX_TRY(const auto y_range, examine("y", y));
  DGX_CHECK(check_named(classes, y.shape(), y_range));
  return Dataset{std::move(x), std::move(y), scale, shift, x_range, y_range, std::move(classes)};
}

std::string dataset_recipe(const Dataset& dataset) { return recipe_of(dataset); }

Result<Digest> dataset_digest(const Dataset& dataset) { return digest_of(dataset, 0); }

StagedDataset::StagedDataset(std::unique_ptr<Writer> writer, const Digest& digest)
    : writer_(std::move(writer)), digest_(digest) {}
StagedDataset::StagedDataset(StagedDataset&&) noexcept = default;
StagedDataset::~StagedDataset() = default;

Status StagedDataset::commit() { return writer_->commit(); }

Result<StagedDataset> stage_dataset(AtomicFile target, const Dataset& dataset, Effort effort) {
  DGX_CHECK(check_fields(dataset.x.shape(), dataset.y.shape()));
  DGX_CHECK(check_scales(dataset.scale, dataset.shift));
  DGX_TRY(const Digest digest, digest_of(dataset, effort.threads));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kDataset, effort));
  DGX_CHECK(writer.digest("", "digest", digest));
  DGX_CHECK(writer.text("", "recipe", recipe_of(dataset)));
  const Tensor classes = class_tensor(dataset.classes);
  const Tensor channels = channel_tensor(dataset.channels);
  std::vector<NamedView> tensors{{"x", dataset.x.view(), {}}, {"y", dataset.y.view(), {}}};
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
  const std::array<std::string, 2> paths{"x", "y"};
  DGX_TRY(std::vector<BulkTensor> tensors, reader.bulk_tensors(paths, effort));
  Dataset dataset{std::move(tensors[0]), std::move(tensors[1]), info.scale,   info.shift,
                  info.x_range,          info.y_range,          info.classes, info.channels};
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
