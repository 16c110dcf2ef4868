#include "dgx/bundle/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "container.h"
#include "dataset_parts.h"
#include "dgx/core/parallel.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/nodes.h"

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
/// The metadata that a dataset in memory has, but for its digest.
DatasetInfo info_of(const Dataset& dataset) {
  DatasetInfo out{dataset.samples(), {}, dataset.scale, dataset.shift, dataset.classes, dataset.channels, {}};
  for (const auto& [name, field] : dataset.fields)
    out.fields.emplace(name, FieldInfo{field.numbers.dtype(), field.numbers.shape(), field.range});
  return out;
}

/// The nodes of a tensor. Its parts are hashed in threads.
std::vector<Digest> nodes_of(const BulkTensor& tensor, int threads) {
  constexpr std::size_t kNodes = merkle::kTensorPartBytes / merkle::kTensorNodeBytes;
  const ByteView bytes = tensor.bytes();
  std::vector<Digest> nodes(merkle::tensor_node_count(bytes.size()));
  // The work never fails.
  static_cast<void>(for_each_index(ceil_div(nodes.size(), kNodes), threads, [&](std::size_t part) -> Status {
    for (std::size_t i = part * kNodes; i < std::min((part + 1) * kNodes, nodes.size()); ++i) {
      const std::size_t at = i * merkle::kTensorNodeBytes;
      nodes[i] =
          merkle::tensor_node(bytes.subspan(at, std::min(merkle::kTensorNodeBytes, bytes.size() - at)));
    }
    release(tensor.view(), part * merkle::kTensorPartBytes, merkle::kTensorPartBytes);
    return {};
  }));
  return nodes;
}

/// A dataset's digest, and on the way to it the nodes of its fields.
struct Hashed {
  Digest digest;
  std::map<std::string, std::vector<Digest>> nodes;  ///< by field
};

Result<Hashed> hash(const Dataset& dataset, int threads) {
  Hashed out;
  std::vector<merkle::NamedDigest> tensors;
  for (const auto& [name, field] : dataset.fields) {
    const std::vector<Digest>& nodes = out.nodes[name] = nodes_of(field.numbers, thread_count(threads));
    const Digest digest =
        merkle::tensor_digest(field.numbers.dtype(), field.numbers.shape(), merkle::root_of(nodes));
    tensors.push_back({name, digest});
  }
  DGX_TRY(out.digest, merkle::dataset_digest(tensors, recipe_of(info_of(dataset))));
  return out;
}

Status check_ranges(const Dataset& dataset) {
  for (const auto& [name, field] : dataset.fields) {
    DGX_TRY(const auto range, examine(name, field.numbers));
    if (range != field.range)
      return malformed(fmt::format("{}: the numbers do not have the range of the recipe", name));
  }
  return {};
}

/// Compares all that a bundle says of its numbers with the numbers.
Status check_numbers(const Reader& reader, const DatasetInfo& info, const Dataset& dataset, int threads) {
  if (Status ranges = check_ranges(dataset); !ranges.ok()) return reader.in_file(std::move(ranges).error());
  DGX_TRY(const Hashed ours, hash(dataset, threads));
  if (ours.digest != info.digest)
    return reader.in_file(malformed(
        fmt::format("the dataset has digest {}, recomputed {}", info.digest.brief(), ours.digest.brief())));
  for (const auto& [name, field] : info.fields) {
    DGX_TRY(const std::vector<Digest> stored, read_nodes(reader, name, field));
    const auto [theirs, mine] = std::ranges::mismatch(stored, ours.nodes.at(name));
    if (theirs == stored.end()) continue;
    return reader.in_file(malformed(
        fmt::format("{}: row {} is not the node of its numbers", nodes_path(name), theirs - stored.begin())));
  }
  return {};
}

}  // namespace

const Field* Dataset::find(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? nullptr : &found->second;
}

FieldRows Dataset::rows() const {
  FieldRows out;
  for (const auto& [name, field] : fields) out.emplace(name, field.numbers.view());
  return out;
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
  DGX_CHECK(check_named(info_of(out)));
  return out;
}

Result<Dataset> make_dataset(BulkTensor x, BulkTensor y, float scale, float shift,
                             std::vector<std::string> classes) {
  FieldNumbers fields;
  fields.emplace("x", std::move(x));
  fields.emplace("y", std::move(y));
  return make_dataset(std::move(fields), scale, shift, std::move(classes));
}

std::string dataset_recipe(const Dataset& dataset) { return recipe_of(info_of(dataset)); }

Result<Digest> dataset_digest(const Dataset& dataset) {
  DGX_TRY(const Hashed hashed, hash(dataset, 0));
  return hashed.digest;
}

StagedDataset::StagedDataset(std::unique_ptr<Writer> writer, const Digest& digest)
    : writer_(std::move(writer)), digest_(digest) {}
StagedDataset::StagedDataset(StagedDataset&&) noexcept = default;
StagedDataset::~StagedDataset() = default;

Status StagedDataset::commit() { return writer_->commit(); }

Result<StagedDataset> stage_dataset(AtomicFile target, const Dataset& dataset, Effort effort,
                                    Storage storage) {
  Shapes shapes;
  for (const auto& [name, field] : dataset.fields) shapes.emplace_back(name, &field.numbers.shape());
  DGX_CHECK(check_shapes(shapes));
  DGX_CHECK(check_scales(dataset.scale, dataset.shift));
  DGX_TRY(const Hashed hashed, hash(dataset, effort.threads));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kDataset, effort, storage));
  DGX_CHECK(writer.digest("", "digest", hashed.digest));
  DGX_CHECK(writer.text("", "recipe", recipe_of(info_of(dataset))));
  std::vector<NamedView> tensors;
  for (const auto& [name, field] : dataset.fields) {
    tensors.push_back({name, field.numbers.view(), {}});
    tensors.push_back({nodes_path(name), digests_view(hashed.nodes.at(name)), {}});
  }
  const Tensor classes = class_tensor(dataset.classes);
  const Tensor channels = channel_tensor(dataset.channels);
  if (!dataset.classes.empty()) tensors.push_back({std::string(kClasses), classes.view(), {}});
  if (!dataset.channels.empty()) tensors.push_back({std::string(kChannels), channels.view(), {}});
  DGX_CHECK(writer.tensors(tensors));
  return StagedDataset(std::make_unique<Writer>(std::move(writer)), hashed.digest);
}

Result<Digest> write_dataset(const std::string& path, const Dataset& dataset, Clobber clobber, Effort effort,
                             Storage storage) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  DGX_TRY(StagedDataset staged, stage_dataset(std::move(target), dataset, effort, storage));
  DGX_CHECK(staged.commit());
  return staged.digest();
}

namespace {

Result<StoredDataset> read_whole(const std::string& path, Check check, Effort effort) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kDataset));
  DGX_TRY(const DatasetInfo info, info_from(reader));
  std::vector<std::string> names;
  for (const auto& [name, field] : info.fields) names.push_back(name);
  DGX_TRY(std::vector<BulkTensor> tensors, reader.bulk_tensors(names, effort));
  Dataset dataset{{}, info.scale, info.shift, info.classes, info.channels};
  for (std::size_t i = 0; i < names.size(); ++i)
    dataset.fields.emplace(names[i], Field{std::move(tensors[i]), info.find(names[i])->range});
  if (check == Check::kDigests) DGX_CHECK(check_numbers(reader, info, dataset, effort.threads));
  return StoredDataset{std::move(dataset), info.digest};
}

}  // namespace

Result<Dataset> read_dataset(const std::string& path, Check check, Effort effort) {
  DGX_TRY(StoredDataset stored, read_whole(path, check, effort));
  return std::move(stored.data);
}

Result<StoredDataset> read_stored_dataset(const std::string& path, Effort effort) {
  return read_whole(path, Check::kDigests, effort);
}

Result<DatasetInfo> read_dataset_info(const std::string& path) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kDataset));
  return info_from(reader);
}

}  // namespace dgx::bundle
