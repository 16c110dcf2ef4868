#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codec.h"
#include "container.h"
#include "dgx/core/parallel.h"
#include "layout.h"

namespace dgx::bundle {
namespace {

/// A dataset of a bundle, described but not read.
struct OpenDataset {
  std::string path;
  const Stored* stored = nullptr;
};

/// One dataset's jobs, one for each chunk: consecutive from `first_job` on.
struct ChunkJobs {
  std::size_t dataset = 0;
  std::uint64_t first_job = 0;
};

Result<const Stored*> stored_at(const Object& root, const std::string& path) {
  const Object* object = find_object(root, path);
  if (object == nullptr || !object->dataset) return malformed("is not a dataset of the file");
  return &*object->dataset;
}

Result<TensorInfo> info_of(const Object& root, const std::string& path) {
  DGX_TRY(const Stored* stored, stored_at(root, path));
  TensorInfo info{stored->dtype, stored->shape, stored->size_bytes, {}};
  const std::vector<Attribute>& attributes = find_object(root, path)->attributes;
  if (attributes.empty()) return info;
  if (attributes.size() != 1 || attributes[0].name != "digest")
    return malformed("has attributes other than \"digest\"");
  DGX_TRY(const std::string hex, text_of(*find_object(root, path), "digest"));
  DGX_TRY(info.digest, digest_from_hex(hex));
  return info;
}

Status read_chunk(const InputFile& file, const Stored& from, std::uint64_t index, BulkTensor& into) {
  const ChunkPlace place = place_of_chunk(*from.layout, from.shape, index);
  DGX_CHECK(unpack_chunk(file, from, index, into.bytes().subspan(place.begin, place.size)));
  release(into.view(), place.begin, place.size);
  return {};
}

Status read_contiguous(const InputFile& file, const Stored& from, BulkTensor& into) {
  if (from.pieces.empty()) return {};
  return for_each_piece(from.size_bytes, [&](std::uint64_t begin, std::uint64_t size) -> Status {
    DGX_CHECK(file.read(from.pieces[0].begin + begin, into.bytes().subspan(begin, size)));
    release(into.view(), begin, size);
    return {};
  });
}

Status read_chunks(const InputFile& file, const std::vector<OpenDataset>& datasets,
                   std::vector<BulkTensor>& tensors, int threads) {
  std::vector<ChunkJobs> plan;
  std::uint64_t jobs = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (!datasets[i].stored->layout) continue;
    plan.push_back({i, jobs});
    jobs += datasets[i].stored->pieces.size();
  }
  return for_each_index(jobs, threads, [&](std::size_t job) -> Status {
    const auto after = std::upper_bound(plan.begin(), plan.end(), job,
                                        [](std::size_t j, const ChunkJobs& p) { return j < p.first_job; });
    const ChunkJobs& piece = *(after - 1);
    const OpenDataset& from = datasets[piece.dataset];
    Status status = read_chunk(file, *from.stored, job - piece.first_job, tensors[piece.dataset]);
    if (status.ok()) return {};
    return within(fmt::format("\"{}\": chunk {}", from.path, job - piece.first_job),
                  std::move(status).error());
  });
}

}  // namespace

Status unpack_chunk(const InputFile& file, const Stored& from, std::uint64_t index,
                    std::span<std::uint8_t> numbers) {
  thread_local Scratch buffer;
  thread_local Scratch scratch;
  const Extent& piece = from.pieces[index];
  if (buffer.size() < piece.size) buffer.resize(piece.size);
  const std::span stored{buffer.data(), static_cast<std::size_t>(piece.size)};
  DGX_CHECK(file.read(piece.begin, stored));
  return decode_chunk(stored, size_of(from.dtype), from.layout->chunk_bytes(), numbers, scratch);
}

Result<Reader> Reader::open(const std::string& path, Kind kind) {
  auto file = InputFile::open(path);
  if (!file.ok()) return within(path, std::move(file).error());
  auto root = [&]() -> Result<Object> {
    DGX_TRY(const Object outside, read_root(*file));
    DGX_TRY(const Kind found, kind_in(outside));
    if (found != kind)
      return malformed(fmt::format("is a {} bundle, expected a {} bundle", name_of(found), name_of(kind)));
    return read_structure(*file);
  }();
  if (!root.ok()) return within(path, std::move(root).error());
  return Reader(path, std::move(file).value(), std::move(root).value());
}

Result<const Object*> Reader::group_at(const std::string& path) const {
  const Object* group = find_object(root_, path);
  if (group == nullptr || group->dataset) return in_file(malformed(fmt::format("has no group \"{}\"", path)));
  return group;
}

Result<std::string> Reader::text(const std::string& group, const char* name) const {
  DGX_TRY(const Object* object, group_at(group));
  auto value = text_of(*object, name);
  if (!value.ok()) return in_file(std::move(value).error());
  return value;
}

Result<std::int64_t> Reader::integer(const std::string& group, const char* name, std::int64_t low,
                                     std::int64_t high) const {
  DGX_TRY(const Object* object, group_at(group));
  const auto value = integer_of(*object, name);
  if (!value.ok()) return in_file(value.error());
  if (*value < low || *value > high) {
    return in_file(
        malformed(fmt::format("attribute \"{}\" is {}, must be {} to {}", name, *value, low, high)));
  }
  return value;
}

Result<Digest> Reader::digest(const std::string& group, const char* name) const {
  DGX_TRY(const std::string hex, text(group, name));
  const auto digest = digest_from_hex(hex);
  if (!digest.ok()) return in_file(within(fmt::format("attribute \"{}\"", name), digest.error()));
  return digest;
}

bool Reader::has_attribute(const std::string& group, std::string_view name) const {
  const Object* object = find_object(root_, group);
  return object != nullptr && std::any_of(object->attributes.begin(), object->attributes.end(),
                                          [&](const Attribute& attribute) { return attribute.name == name; });
}

Result<std::vector<std::string>> Reader::children(const std::string& group, std::size_t most) const {
  DGX_TRY(const Object* object, group_at(group));
  if (object->children.size() > most)
    return in_file(malformed(fmt::format("group \"{}\": has more than {} objects", group, most)));
  std::vector<std::string> names;
  for (const auto& [name, child] : object->children) names.push_back(name);
  return names;
}

Status Reader::expect_children(const std::string& group, const std::vector<std::string>& names) const {
  DGX_TRY(const std::vector<std::string> found, children(group));
  if (found == names) return {};
  return in_file(malformed(fmt::format("group \"{}\" holds {}, expected {}", group, fmt::join(found, ", "),
                                       fmt::join(names, ", "))));
}

Status Reader::expect_attributes(const std::string& group, std::vector<std::string> names) const {
  DGX_TRY(const Object* object, group_at(group));
  std::vector<std::string> found;
  for (const Attribute& attribute : object->attributes) found.push_back(attribute.name);
  if (group.empty()) names.insert(names.end(), {"dgx", "version"});
  std::sort(names.begin(), names.end());
  std::sort(found.begin(), found.end());
  if (found == names) return {};
  return in_file(malformed(fmt::format("group \"{}\" has attributes {}, expected {}", group,
                                       fmt::join(found, ", "), fmt::join(names, ", "))));
}

Status Reader::walk(const std::string& group, const std::string& prefix,
                    std::vector<std::string>& out) const {
  DGX_TRY(const Object* object, group_at(group));
  for (const auto& [name, child] : object->children) {
    if (child.dataset) {
      out.push_back(prefix + name);
      continue;
    }
    const std::string path = group + "/" + name;
    DGX_CHECK(expect_attributes(path, {}));
    DGX_CHECK(walk(path, prefix + name + "/", out));
  }
  return {};
}

Result<std::vector<std::string>> Reader::datasets_below(const std::string& group) const {
  std::vector<std::string> out;
  DGX_CHECK(walk(group, "", out));
  // Sorts by bytes: "a-b" comes before "a/b", but in a tree group "a" comes before "a-b".
  std::sort(out.begin(), out.end());
  return out;
}

Result<TensorInfo> Reader::info(const std::string& path) const {
  auto info = info_of(root_, path);
  if (!info.ok()) return in_file(within(fmt::format("\"{}\"", path), std::move(info).error()));
  return info;
}

Result<const Stored*> Reader::stored(const std::string& path) const {
  const auto found = stored_at(root_, path);
  if (!found.ok()) return in_file(within(fmt::format("\"{}\"", path), found.error()));
  return *found;
}

Result<std::vector<Tensor>> Reader::tensors(std::span<const std::string> paths, const Effort& effort) const {
  DGX_TRY(std::vector<BulkTensor> found,
          bulk_tensors(paths, {effort.threads, effort.max_bytes, kMaxTensorBytes + 1}));
  std::vector<Tensor> tensors;
  for (BulkTensor& tensor : found) tensors.push_back(std::move(tensor).take());
  return tensors;
}

Result<std::vector<BulkTensor>> Reader::bulk_tensors(std::span<const std::string> paths,
                                                     const Effort& effort) const {
  std::vector<OpenDataset> datasets;
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    const auto stored = stored_at(root_, path);
    if (!stored.ok()) return in_file(within(fmt::format("\"{}\"", path), stored.error()));
    // Each is below 2^56 and their number is bounded, so the sum cannot wrap before it is refused.
    total += (*stored)->size_bytes;
    if (total > effort.max_bytes) {
      return in_file(malformed(fmt::format("\"{}\": more than {} bytes of numbers", path, effort.max_bytes)));
    }
    datasets.push_back({path, *stored});
  }
  std::vector<BulkTensor> tensors;
  for (const OpenDataset& dataset : datasets) {
    DGX_TRY(BulkTensor tensor,
            BulkTensor::create(dataset.stored->dtype, dataset.stored->shape, effort.bulk_bytes));
    tensors.push_back(std::move(tensor));
    if (dataset.stored->layout) continue;
    const Status status = read_contiguous(file_, *dataset.stored, tensors.back());
    if (!status.ok()) return in_file(within(fmt::format("\"{}\"", dataset.path), status.error()));
  }
  Status status = read_chunks(file_, datasets, tensors, thread_count(effort.threads));
  if (!status.ok()) return in_file(std::move(status).error());
  return tensors;
}

Result<Tensor> Reader::tensor(const std::string& path, const Effort& effort) const {
  DGX_TRY(std::vector<Tensor> tensors, this->tensors({&path, 1}, effort));
  return std::move(tensors[0]);
}

Result<std::vector<Digest>> Reader::digests(const std::string& path, std::size_t most) const {
  DGX_TRY(const TensorInfo found, info(path));
  if (found.dtype != DType::kU8 || found.shape.size() != 2 || found.shape[1] != 32 ||
      static_cast<std::uint64_t>(found.shape[0]) > most) {
    return in_file(malformed(fmt::format("\"{}\" is {}{}, expected u8[n,32] with n at most {}", path,
                                         name_of(found.dtype), to_string(found.shape), most)));
  }
  DGX_TRY(const Tensor bytes, tensor(path, {1, most * 32}));
  std::vector<Digest> digests(static_cast<std::size_t>(found.shape[0]));
  if (!digests.empty()) std::memcpy(digests.data(), bytes.bytes().data(), bytes.bytes().size());
  return digests;
}

}  // namespace dgx::bundle
