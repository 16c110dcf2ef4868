#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "codec.h"
#include "container.h"
#include "dgx/core/checked.h"
#include "layout.h"
#include "parallel.h"

namespace dgx::bundle {
namespace {

/// A dataset of a bundle, looked at but not read.
struct OpenDataset {
  std::string path;
  h5::Handle dataset;
  TensorInfo info;
  std::optional<ChunkLayout> layout;  ///< absent: contiguous
};

/// A piece of work for one thread: one chunk.
struct ChunkJobs {
  std::size_t dataset = 0;
  std::uint64_t first_job = 0;
};

Result<DType> dtype_of(const h5::Handle& dataset) {
  DGX_TRY(const h5::Handle type,
          h5::make([&] { return H5Dget_type(dataset.id()); }, H5Tclose, "read a type"));
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8}) {
    const hid_t ours = h5::type_of(dtype);
    if (h5::call([&] { return H5Tequal(type.id(), ours); }) > 0) return dtype;
  }
  return malformed("is not f32, i64 or u8, little-endian");
}

/// Exactly the filters that a writer uses: nothing else is ever run.
Status check_filters(const h5::Handle& list, DType dtype) {
  const int count = h5::call([&] { return H5Pget_nfilters(list.id()); });
  const bool shuffled = size_of(dtype) > 1;
  if (count != (shuffled ? 2 : 1)) return malformed(fmt::format("has {} filters", count));
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = h5::call([&] {
      return H5Pget_filter2(list.id(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr,
                            &config);
    });
    const H5Z_filter_t expected = shuffled && i == 0 ? H5Z_FILTER_SHUFFLE : h5::kZstdFilter;
    if (filter != expected) return malformed(fmt::format("has filter {}, expected {}", filter, expected));
  }
  return {};
}

/// The layout that a chunk shape stands for; kMalformed if a chunk would not be one range of the row-major
/// bytes.
Result<ChunkLayout> layout_from(const std::vector<hsize_t>& chunk, DType dtype, const Shape& shape) {
  const std::size_t rank = shape.size();
  const auto extent = [&](std::size_t i) { return static_cast<std::uint64_t>(shape[i]); };
  ChunkLayout layout;
  layout.row_bytes = size_of(dtype);
  std::size_t dimension = rank - 1;
  while (dimension > 0 && chunk[dimension] == extent(dimension)) layout.row_bytes *= extent(dimension--);
  layout.dimension = dimension;
  layout.extent = extent(dimension);
  layout.rows = chunk[dimension];
  for (std::size_t i = 0; i < dimension; ++i) {
    if (chunk[i] != 1) return malformed("has chunks that are not whole rows");
    layout.outer *= extent(i);
  }
  const auto bytes = checked_mul<std::uint64_t>(layout.rows, layout.row_bytes);
  if (layout.rows == 0 || layout.rows > layout.extent || !bytes || *bytes > kMaxChunkBytes) {
    return malformed(fmt::format("has chunks of more than {} bytes, or none", kMaxChunkBytes));
  }
  return layout;
}

Result<ChunkLayout> chunk_layout_of(const h5::Handle& list, const TensorInfo& info) {
  DGX_CHECK(check_filters(list, info.dtype));
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank =
      h5::call([&] { return H5Pget_chunk(list.id(), static_cast<int>(dims.size()), dims.data()); });
  if (rank < 1 || static_cast<std::size_t>(rank) != info.shape.size() || info.size_bytes == 0) {
    return malformed("has chunks of another rank than its own");
  }
  return layout_from({dims.begin(), dims.begin() + rank}, info.dtype, info.shape);
}

/// What is stored may not be elsewhere, and what is declared must fit what is there.
Result<std::optional<ChunkLayout>> storage_of(const h5::Handle& dataset, const TensorInfo& info,
                                              std::uint64_t file_bytes) {
  DGX_TRY(const h5::Handle list,
          h5::make([&] { return H5Dget_create_plist(dataset.id()); }, H5Pclose, "read a layout"));
  if (h5::call([&] { return H5Pget_external_count(list.id()); }) != 0) {
    return malformed("has its numbers in other files");
  }
  const std::uint64_t stored = h5::call([&] { return H5Dget_storage_size(dataset.id()); });
  switch (h5::call([&] { return H5Pget_layout(list.id()); })) {
    case H5D_CONTIGUOUS:
      if (h5::call([&] { return H5Pget_nfilters(list.id()); }) != 0)
        return malformed("has filters without chunks");
      if (info.size_bytes > file_bytes || (info.size_bytes > 0 && stored != info.size_bytes)) {
        return malformed(fmt::format("has {} bytes, its shape needs {}", stored, info.size_bytes));
      }
      return std::optional<ChunkLayout>();
    case H5D_CHUNKED: {
      DGX_TRY(const ChunkLayout layout, chunk_layout_of(list, info));
      if (layout.chunk_count() > file_bytes) return malformed("declares more chunks than the file has bytes");
      return std::optional(layout);
    }
    default:
      return malformed("is neither contiguous nor chunked", "virtual and compact datasets are not read");
  }
}

Result<TensorInfo> info_of(const h5::Handle& dataset) {
  TensorInfo info;
  DGX_TRY(info.dtype, dtype_of(dataset));
  DGX_TRY(info.shape, h5::shape_of(dataset));
  info.size_bytes = static_cast<std::uint64_t>(*element_count(info.shape)) * size_of(info.dtype);
  DGX_TRY(const std::vector<std::string> attributes, h5::attribute_names(dataset));
  if (attributes.empty()) return info;
  if (attributes.size() != 1 || attributes[0] != "digest")
    return malformed("has attributes other than \"digest\"");
  DGX_TRY(const std::string hex, h5::get_text(dataset, "digest"));
  DGX_TRY(info.digest, digest_from_hex(hex));
  return info;
}

Result<OpenDataset> open_dataset(const h5::Handle& file, const std::string& path, std::uint64_t file_bytes) {
  OpenDataset out{path, {}, {}, {}};
  DGX_TRY(out.dataset, h5::open_dataset(file, path));
  DGX_TRY(out.info, info_of(out.dataset));
  DGX_TRY(out.layout, storage_of(out.dataset, out.info, file_bytes));
  return out;
}

/// HDF5 gives a chunk's stored size before its bytes, so nothing is believed that has not been bounded.
Result<ByteView> read_stored(const OpenDataset& from, const ChunkPlace& place, Scratch& buffer) {
  const std::vector<hsize_t> offset(place.offset.begin(), place.offset.end());
  hsize_t size = 0;
  DGX_CHECK(h5::check([&] { return H5Dget_chunk_storage_size(from.dataset.id(), offset.data(), &size); },
                      "find a chunk"));
  if (size == 0 || size > max_stored_bytes(from.layout->chunk_bytes())) {
    return malformed(fmt::format("is missing, or too large with {} bytes", size));
  }
  if (buffer.size() < size) buffer.resize(size);
  std::uint32_t skipped = 0;
  DGX_CHECK(h5::check(
      [&] { return H5Dread_chunk(from.dataset.id(), H5P_DEFAULT, offset.data(), &skipped, buffer.data()); },
      "read a chunk"));
  if (skipped != 0) return malformed("was stored without its filters");
  return ByteView{buffer.data(), size};
}

Status read_chunk(const OpenDataset& from, std::uint64_t index, BulkTensor& into) {
  thread_local Scratch stored;
  thread_local Scratch scratch;
  const ChunkPlace place = place_of_chunk(*from.layout, from.info.shape, index);
  DGX_TRY(const ByteView bytes, read_stored(from, place, stored));
  DGX_CHECK(decode_chunk(bytes, size_of(from.info.dtype), from.layout->chunk_bytes(),
                         into.bytes().subspan(place.begin, place.size), scratch));
  release(into.view(), place.begin, place.size);
  return {};
}

Status read_contiguous(const OpenDataset& from, BulkTensor& into) {
  if (from.info.size_bytes == 0) return {};
  const hid_t type = h5::type_of(from.info.dtype);
  return h5::check(
      [&] { return H5Dread(from.dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, into.bytes().data()); },
      "read numbers");
}

Status read_chunks(const std::vector<OpenDataset>& datasets, std::vector<BulkTensor>& tensors, int threads) {
  std::vector<ChunkJobs> plan;
  std::uint64_t jobs = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (!datasets[i].layout) continue;
    plan.push_back({i, jobs});
    jobs += datasets[i].layout->chunk_count();
  }
  return for_each_index(jobs, threads, [&](std::size_t job) -> Status {
    const auto after = std::upper_bound(plan.begin(), plan.end(), job,
                                        [](std::size_t j, const ChunkJobs& p) { return j < p.first_job; });
    const ChunkJobs& piece = *(after - 1);
    const OpenDataset& from = datasets[piece.dataset];
    Status status = read_chunk(from, job - piece.first_job, tensors[piece.dataset]);
    if (status.ok()) return {};
    return within(fmt::format("\"{}\": chunk {}", from.path, job - piece.first_job),
                  std::move(status).error());
  });
}

}  // namespace

Result<Reader> Reader::open(const std::string& path, Kind kind) {
  DGX_TRY(const Kind found, kind_of(path));
  if (found != kind) {
    return malformed(
        fmt::format("{}: is a {} bundle, expected a {} bundle", path, name_of(found), name_of(kind)));
  }
  auto file = h5::open_file(path, h5::Origin::kBundle);
  if (!file.ok()) return within(path, std::move(file).error());
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno_error(path, "open");
  return Reader(path, std::move(file).value(), static_cast<std::uint64_t>(info.st_size));
}

Result<h5::Handle> Reader::group_at(const std::string& path) const {
  auto group = h5::open_group(file_, path.empty() ? "/" : path);
  if (!group.ok()) return in_file(std::move(group).error());
  return group;
}

Result<std::string> Reader::text(const std::string& group, const char* name) const {
  DGX_TRY(const h5::Handle object, group_at(group));
  auto value = h5::get_text(object, name);
  if (!value.ok()) return in_file(std::move(value).error());
  return value;
}

Result<std::int64_t> Reader::integer(const std::string& group, const char* name, std::int64_t low,
                                     std::int64_t high) const {
  DGX_TRY(const h5::Handle object, group_at(group));
  const auto value = h5::get_integer(object, name);
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

Result<std::vector<std::string>> Reader::children(const std::string& group, std::size_t most) const {
  DGX_TRY(const h5::Handle object, group_at(group));
  const auto links = h5::links_of(object, most);
  if (!links.ok()) return in_file(within(fmt::format("group \"{}\"", group), links.error()));
  std::vector<std::string> names;
  for (const h5::Link& link : *links) {
    const Status status = check_name(link.name);
    if (!status.ok()) return in_file(status.error());
    if (!link.hard) return in_file(malformed(fmt::format("\"{}\" is a link to elsewhere", link.name)));
    names.push_back(link.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status Reader::expect_children(const std::string& group, const std::vector<std::string>& names) const {
  DGX_TRY(const std::vector<std::string> found, children(group));
  if (found == names) return {};
  return in_file(malformed(fmt::format("group \"{}\" holds {}, expected {}", group, fmt::join(found, ", "),
                                       fmt::join(names, ", "))));
}

Status Reader::expect_attributes(const std::string& group, std::vector<std::string> names) const {
  DGX_TRY(const h5::Handle object, group_at(group));
  auto found = h5::attribute_names(object);
  if (!found.ok()) return in_file(found.error());
  if (group.empty()) names.insert(names.end(), {"dgx", "version"});
  std::sort(names.begin(), names.end());
  std::sort(found->begin(), found->end());
  if (*found == names) return {};
  return in_file(malformed(fmt::format("group \"{}\" has attributes {}, expected {}", group,
                                       fmt::join(*found, ", "), fmt::join(names, ", "))));
}

Status Reader::walk(const std::string& group, const std::string& prefix, std::size_t depth,
                    std::size_t& objects, std::vector<std::string>& out) const {
  if (depth > kMaxDepth) return in_file(malformed(fmt::format("group \"{}\" is too deep", group)));
  DGX_TRY(const std::vector<std::string> names, children(group));
  for (const std::string& name : names) {
    if (++objects > kMaxObjects)
      return in_file(malformed(fmt::format("has more than {} objects", kMaxObjects)));
    const std::string path = group + "/" + name;
    const auto object = h5::open_object(file_, path);
    if (!object.ok()) return in_file(object.error());
    if (h5::kind_of_object(*object) == H5I_DATASET) {
      out.push_back(prefix + name);
      continue;
    }
    DGX_CHECK(expect_attributes(path, {}));
    DGX_CHECK(walk(path, prefix + name + "/", depth + 1, objects, out));
  }
  return {};
}

Result<std::vector<std::string>> Reader::datasets_below(const std::string& group) const {
  std::vector<std::string> out;
  std::size_t objects = 0;
  DGX_CHECK(walk(group, "", 1, objects, out));
  // "a-b" comes before "a/b", but in a tree group "a" comes before "a-b".
  std::sort(out.begin(), out.end());
  return out;
}

Result<TensorInfo> Reader::info(const std::string& path) const {
  auto dataset = open_dataset(file_, path, size_bytes_);
  if (!dataset.ok()) return in_file(within(fmt::format("\"{}\"", path), std::move(dataset).error()));
  return std::move(dataset)->info;
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
    auto dataset = open_dataset(file_, path, size_bytes_);
    if (!dataset.ok()) return in_file(within(fmt::format("\"{}\"", path), std::move(dataset).error()));
    // Each is below 2^56 and their number is bounded, so the sum cannot wrap before it is refused.
    total += dataset->info.size_bytes;
    if (total > effort.max_bytes) {
      return in_file(malformed(fmt::format("\"{}\": more than {} bytes of numbers", path, effort.max_bytes)));
    }
    datasets.push_back(std::move(dataset).value());
  }
  std::vector<BulkTensor> tensors;
  for (const OpenDataset& dataset : datasets) {
    DGX_TRY(BulkTensor tensor, BulkTensor::create(dataset.info.dtype, dataset.info.shape, effort.bulk_bytes));
    tensors.push_back(std::move(tensor));
    if (dataset.layout) continue;
    const Status status = read_contiguous(dataset, tensors.back());
    if (!status.ok()) return in_file(within(fmt::format("\"{}\"", dataset.path), status.error()));
  }
  Status status = read_chunks(datasets, tensors, thread_count(effort.threads));
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
