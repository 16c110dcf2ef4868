#include <fmt/format.h>

#include <algorithm>

#include "codec.h"
#include "container.h"
#include "dgx/core/parallel.h"
#include "layout.h"

namespace dgx::bundle {
namespace {

/// A dataset whose chunks are still to be written.
struct ChunkedDataset {
  h5::Handle dataset;
  const NamedView* tensor = nullptr;
  ChunkLayout layout;
  std::uint64_t first_job = 0;  ///< number of chunks of the datasets before it
};

Result<h5::Handle> creation_list(DType dtype, const Shape& shape, bool chunked) {
  DGX_TRY(h5::Handle list,
          h5::make([] { return H5Pcreate(H5P_DATASET_CREATE); }, H5Pclose, "set up", ErrorCode::kInternal));
  std::vector<hsize_t> dims;
  if (chunked) {
    const Shape chunk = chunk_shape(layout_for(dtype, shape), shape);
    dims.assign(chunk.begin(), chunk.end());
  }
  DGX_CHECK(h5::check(
      [&] {
        if (H5Pset_obj_track_times(list.id(), false) < 0) return -1;
        if (H5Pset_fill_time(list.id(), H5D_FILL_TIME_NEVER) < 0) return -1;
        if (!chunked) return 0;
        const unsigned level = kZstdLevel;
        if (H5Pset_chunk(list.id(), static_cast<int>(dims.size()), dims.data()) < 0) return -1;
        if (size_of(dtype) > 1 && H5Pset_shuffle(list.id()) < 0) return -1;
        return static_cast<int>(H5Pset_filter(list.id(), h5::kZstdFilter, H5Z_FLAG_MANDATORY, 1, &level));
      },
      "set up", ErrorCode::kInternal));
  return list;
}

Result<h5::Handle> create_dataset(const h5::Handle& file, const NamedView& tensor, bool chunked) {
  const std::string doing = fmt::format("write \"{}\"", tensor.path);
  DGX_TRY(const h5::Handle list, creation_list(tensor.view.dtype, tensor.view.shape, chunked));
  DGX_TRY(const h5::Handle space, h5::dataspace_of(tensor.view.shape));
  const hid_t type = h5::type_of(tensor.view.dtype);
  DGX_TRY(h5::Handle dataset, h5::make(
                                  [&] {
                                    return H5Dcreate2(file.id(), tensor.path.c_str(), type, space.id(),
                                                      H5P_DEFAULT, list.id(), H5P_DEFAULT);
                                  },
                                  H5Dclose, doing, ErrorCode::kIo));
  if (tensor.digest) DGX_CHECK(h5::put_text(dataset, "digest", tensor.digest->hex()));
  if (!chunked && !tensor.view.bytes.empty()) {
    DGX_CHECK(h5::check(
        [&] { return H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.view.bytes.data()); },
        doing, ErrorCode::kIo));
  }
  return dataset;
}

Status write_chunk(const ChunkedDataset& target, const ChunkPlace& place, ByteView stored) {
  const std::vector<hsize_t> offset(place.offset.begin(), place.offset.end());
  return h5::check(
      [&] {
        return H5Dwrite_chunk(target.dataset.id(), H5P_DEFAULT, 0, offset.data(), stored.size(),
                              stored.data());
      },
      fmt::format("write \"{}\"", target.tensor->path), ErrorCode::kIo);
}

/// Compresses chunks in threads and writes them in order: the file does not depend on the threads.
Status write_chunks(const std::vector<ChunkedDataset>& targets, std::uint64_t jobs, int threads,
                    const h5::WriteOutcome& outcome) {
  Turns turns;
  return for_each_index(jobs, threads, [&](std::size_t job) -> Status {
    const auto after =
        std::upper_bound(targets.begin(), targets.end(), job,
                         [](std::size_t j, const ChunkedDataset& t) { return j < t.first_job; });
    const ChunkedDataset& target = *(after - 1);
    const BulkView& view = target.tensor->view;
    const ChunkPlace place = place_of_chunk(target.layout, view.shape, job - target.first_job);
    thread_local Scratch scratch;
    thread_local Scratch out;
    auto stored = encode_chunk(view.bytes.subspan(place.begin, place.size), size_of(view.dtype),
                               target.layout.chunk_bytes(), scratch, out);
    release(view, place.begin, place.size);
    if (!stored.ok()) return turns.fail(std::move(stored).error());
    return turns.take(job, [&]() -> Status {
      DGX_CHECK(write_chunk(target, place, *stored));
      // Stops early: compressing the rest would be wasted.
      return outcome.reason == 0 ? Status() : system_error("write", outcome.reason);
    });
  });
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

Status check_name(std::string_view name) {
  constexpr std::size_t kMaxParts = 8;
  if (name.empty() || name.size() > kMaxNameBytes) {
    return malformed(fmt::format("a name has {} bytes, must have 1 to {}", name.size(), kMaxNameBytes));
  }
  std::size_t parts = 0;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool printable =
        std::all_of(part.begin(), part.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
    if (!printable) return malformed("a name has bytes that are not printable ASCII");
    if (part.empty() || part == "." || part == "..") {
      return malformed(fmt::format("name \"{}\" has an empty, \".\" or \"..\" part", name));
    }
    if (++parts > kMaxParts)
      return malformed(fmt::format("name \"{}\" has more than {} parts", name, kMaxParts));
    begin = end + 1;
  }
  return {};
}

TensorView digests_view(std::span<const Digest> digests) {
  static_assert(sizeof(Digest) == 32);
  const ByteView bytes{reinterpret_cast<const std::uint8_t*>(digests.data()), digests.size_bytes()};
  return {DType::kU8, {static_cast<std::int64_t>(digests.size()), 32}, bytes};
}

Result<Writer> Writer::create(AtomicFile target, Kind kind, Effort effort, Storage storage) {
  Writer writer(std::move(target), thread_count(effort.threads), storage);
  auto handle = h5::create_file(writer.target_.path(), writer.outcome_.get());
  if (!handle.ok()) return within(writer.name_, std::move(handle).error());
  writer.file_ = std::move(handle).value();
  DGX_CHECK(writer.text("", "dgx", name_of(kind)));
  DGX_CHECK(writer.integer("", "version", kVersion));
  return writer;
}

Status Writer::group(const std::string& path) {
  if (path.empty() || groups_.contains(path)) return {};
  DGX_CHECK(group(parent_of(path)));
  const auto created = h5::create_group(file_, path);
  if (!created.ok()) return within(name_, created.error());
  groups_.insert(path);
  return {};
}

Result<h5::Handle> Writer::open_group(const std::string& path) const {
  return h5::open_group(file_, path.empty() ? "/" : path);
}

Status Writer::text(const std::string& group, const char* name, std::string_view value) {
  DGX_TRY(const h5::Handle object, open_group(group));
  const Status status = h5::put_text(object, name, value);
  return status.ok() ? Status() : within(name_, status.error());
}

Status Writer::integer(const std::string& group, const char* name, std::int64_t value) {
  DGX_TRY(const h5::Handle object, open_group(group));
  const Status status = h5::put_integer(object, name, value);
  return status.ok() ? Status() : within(name_, status.error());
}

Status Writer::digest(const std::string& group, const char* name, const Digest& value) {
  return text(group, name, value.hex());
}

Status Writer::put_tensors(std::span<const NamedView> tensors) {
  std::vector<ChunkedDataset> targets;
  std::uint64_t jobs = 0;
  for (const NamedView& tensor : tensors) {
    const bool chunked = storage_ == Storage::kCompressed && is_chunked(tensor.view.dtype, tensor.view.shape);
    DGX_TRY(h5::Handle dataset, create_dataset(file_, tensor, chunked));
    if (!chunked) continue;
    const ChunkLayout layout = layout_for(tensor.view.dtype, tensor.view.shape);
    targets.push_back({std::move(dataset), &tensor, layout, jobs});
    jobs += layout.chunk_count();
  }
  return write_chunks(targets, jobs, threads_, *outcome_);
}

Status Writer::tensors(std::span<const NamedView> tensors) {
  for (const NamedView& tensor : tensors) DGX_CHECK(group(parent_of(tensor.path)));
  Status status = put_tensors(tensors);
  DGX_CHECK(landed());
  return status.ok() ? Status() : within(name_, std::move(status).error());
}

Status Writer::tensor(const std::string& path, const TensorView& view) {
  const NamedView tensor{path, view, std::nullopt};
  return tensors({&tensor, 1});
}

Status Writer::digests(const std::string& path, std::span<const Digest> digests) {
  return tensor(path, digests_view(digests));
}

Status Writer::landed() const {
  if (outcome_->reason == 0) return {};
  return within(name_, system_error("write", outcome_->reason));
}

Status Writer::commit() {
  // HDF5 buffers metadata until the end: a full disk may show only here.
  if (!file_.close()) return within(name_, h5::last_error("close", ErrorCode::kIo));
  DGX_CHECK(landed());
  return target_.commit();
}

}  // namespace dgx::bundle
