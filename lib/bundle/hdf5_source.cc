#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "h5.h"
#include "widen.h"

// Files of other people's programs: wider than our bundles (any superblock, byte order, deflate), as careful.
namespace dgx::bundle {
namespace {

/// Goes down link by link, so that no soft or external link is ever followed.
Result<h5::Handle> descend(const h5::Handle& file, const std::string& path) {
  DGX_TRY(h5::Handle here, h5::open_group(file, "/"));
  for (std::size_t begin = path.starts_with('/') ? 1 : 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty()) return usage_error(fmt::format("\"{}\" is not a path inside a file", path));
    if (h5::kind_of_object(here) != H5I_GROUP) return malformed(fmt::format("has no \"{}\"", path));
    DGX_TRY(const std::vector<h5::Link> links, h5::links_of(here, kMaxObjects));
    const auto link =
        std::find_if(links.begin(), links.end(), [&](const h5::Link& l) { return l.name == part; });
    if (link == links.end()) {
      return Error{ErrorCode::kMissing, fmt::format("has no \"{}\"", path), "h5dump -n lists what is there"};
    }
    if (!link->hard) return malformed(fmt::format("\"{}\" is a link to elsewhere", part));
    DGX_TRY(here, h5::open_object(here, part));
    begin = end + 1;
  }
  if (h5::kind_of_object(here) != H5I_DATASET) return malformed(fmt::format("\"{}\" is not a dataset", path));
  return here;
}

Result<NumberType> number_type(const h5::Handle& dataset) {
  DGX_TRY(const h5::Handle type,
          h5::make([&] { return H5Dget_type(dataset.id()); }, H5Tclose, "read a type"));
  NumberType out;
  out.bytes = h5::call([&] { return H5Tget_size(type.id()); });
  const H5T_class_t kind = h5::call([&] { return H5Tget_class(type.id()); });
  if (kind == H5T_INTEGER) {
    const H5T_sign_t sign = h5::call([&] { return H5Tget_sign(type.id()); });
    out.kind = sign == H5T_SGN_NONE ? NumberType::Kind::kUnsigned : NumberType::Kind::kSigned;
  } else if (kind == H5T_FLOAT) {
    out.kind = NumberType::Kind::kFloat;
  } else {
    return malformed("does not hold plain numbers");
  }
  // Only the types of C: no odd precision, offset or float layout.
  const bool plain = h5::call([&] {
    const std::array known{H5T_STD_U8LE,  H5T_STD_U16LE,  H5T_STD_U32LE,  H5T_STD_U64LE,  H5T_STD_I8LE,
                           H5T_STD_I16LE, H5T_STD_I32LE,  H5T_STD_I64LE,  H5T_STD_U8BE,   H5T_STD_U16BE,
                           H5T_STD_U32BE, H5T_STD_U64BE,  H5T_STD_I8BE,   H5T_STD_I16BE,  H5T_STD_I32BE,
                           H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    return std::any_of(known.begin(), known.end(), [&](hid_t id) { return H5Tequal(type.id(), id) > 0; });
  });
  if (!plain && !(kind == H5T_FLOAT && out.bytes == 2))
    return malformed("holds numbers of an unusual layout");
  return out;
}

/// HDF5 allocates a chunk before it looks at what is stored, and reads one that was never written as fill
/// values.
Status check_chunks(const h5::Handle& dataset, const h5::Handle& list, const Shape& shape) {
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank =
      h5::call([&] { return H5Pget_chunk(list.id(), static_cast<int>(dims.size()), dims.data()); });
  if (rank < 1 || static_cast<std::size_t>(rank) != shape.size())
    return malformed("has chunks of another rank");
  std::uint64_t numbers = 1;
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    numbers *= std::clamp<std::uint64_t>(dims[i], 1, kMaxChunkBytes + 1);
    if (numbers > kMaxChunkBytes)
      return malformed(fmt::format("has chunks of more than {} numbers", kMaxChunkBytes));
    expected *= (static_cast<std::uint64_t>(shape[i]) + dims[i] - 1) / dims[i];
  }
  hsize_t stored = 0;
  DGX_TRY(const h5::Handle space,
          h5::make([&] { return H5Dget_space(dataset.id()); }, H5Sclose, "read a shape"));
  DGX_CHECK(h5::check([&] { return H5Dget_num_chunks(dataset.id(), space.id(), &stored); }, "count chunks"));
  if (stored == expected) return {};
  return malformed(fmt::format("has {} of {} chunks: it was not written in full", stored, expected));
}

Status check_filters(const h5::Handle& list) {
  const int filters = h5::call([&] { return H5Pget_nfilters(list.id()); });
  for (int i = 0; i < filters; ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    unsigned config = 0;
    const H5Z_filter_t filter = h5::call([&] {
      return H5Pget_filter2(list.id(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr,
                            &config);
    });
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32 &&
        filter != h5::kZstdFilter) {
      return malformed(fmt::format("has filter {}", filter),
                       "deflate, shuffle, fletcher32 and zstd are read");
    }
  }
  return {};
}

Status check_storage(const h5::Handle& dataset, const Shape& shape, std::uint64_t size_bytes,
                     std::uint64_t file_bytes) {
  DGX_TRY(const h5::Handle list,
          h5::make([&] { return H5Dget_create_plist(dataset.id()); }, H5Pclose, "read a layout"));
  if (h5::call([&] { return H5Pget_external_count(list.id()); }) != 0) {
    return malformed("has its numbers in other files");
  }
  const H5D_layout_t layout = h5::call([&] { return H5Pget_layout(list.id()); });
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) {
    return malformed("is a virtual dataset");
  }
  DGX_CHECK(check_filters(list));
  if (layout == H5D_CHUNKED && size_bytes > 0) DGX_CHECK(check_chunks(dataset, list, shape));
  H5D_space_status_t status = H5D_SPACE_STATUS_NOT_ALLOCATED;
  DGX_CHECK(h5::check([&] { return H5Dget_space_status(dataset.id(), &status); }, "read a layout"));
  if (size_bytes > 0 && status != H5D_SPACE_STATUS_ALLOCATED && layout == H5D_CONTIGUOUS) {
    return malformed("was declared, but not written in full");
  }
  const bool plain = h5::call([&] { return H5Pget_nfilters(list.id()); }) == 0;
  if (plain && size_bytes > file_bytes) return malformed("declares more numbers than the file holds");
  return {};
}

/// How many of the outermost rows are read at once: whole chunks of them, as many as make a few MiB.
Result<std::int64_t> rows_at_once(const h5::Handle& dataset, const BulkTensor& tensor) {
  constexpr std::int64_t kAtOnce = std::int64_t{16} << 20;
  DGX_TRY(const h5::Handle list,
          h5::make([&] { return H5Dget_create_plist(dataset.id()); }, H5Pclose, "read a layout"));
  std::array<hsize_t, H5S_MAX_RANK> chunk{1};
  const bool chunked = h5::call([&] { return H5Pget_layout(list.id()); }) == H5D_CHUNKED;
  if (chunked)
    h5::call([&] { return H5Pget_chunk(list.id(), static_cast<int>(chunk.size()), chunk.data()); });
  const auto unit = static_cast<std::int64_t>(chunk[0]);
  const std::int64_t unit_bytes = static_cast<std::int64_t>(tensor.bytes().size()) / tensor.shape()[0] * unit;
  return unit * std::max<std::int64_t>(1, kAtOnce / unit_bytes);
}

/// Rows [first, first + count) of the outermost dimension. HDF5's conversion to a wider integer or another
/// byte order is exact.
Status read_rows(const h5::Handle& dataset, std::int64_t first, std::int64_t count, BulkTensor& tensor) {
  const std::vector<hsize_t> all(tensor.shape().begin(), tensor.shape().end());
  std::vector<hsize_t> start(all.size(), 0);
  std::vector<hsize_t> rows = all;
  start[0] = static_cast<hsize_t>(first);
  rows[0] = static_cast<hsize_t>(count);
  const std::size_t row_bytes = tensor.bytes().size() / static_cast<std::size_t>(all[0]);
  const std::size_t begin = row_bytes * static_cast<std::size_t>(first);
  const hid_t memory = h5::type_of(tensor.dtype());
  DGX_TRY(const h5::Handle from,
          h5::make([&] { return H5Dget_space(dataset.id()); }, H5Sclose, "read a shape"));
  DGX_TRY(const h5::Handle into, h5::dataspace_of([&] {
            Shape shape = tensor.shape();
            shape[0] = count;
            return shape;
          }()));
  DGX_CHECK(h5::check(
      [&] {
        if (H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, start.data(), nullptr, rows.data(), nullptr) < 0)
          return -1;
        return static_cast<int>(
            H5Dread(dataset.id(), memory, into.id(), from.id(), H5P_DEFAULT, tensor.bytes().data() + begin));
      },
      "read numbers"));
  release(tensor.view(), begin, row_bytes * static_cast<std::size_t>(count));
  return {};
}

Result<BulkTensor> read_numbers(const h5::Handle& dataset, std::uint64_t file_bytes,
                                std::uint64_t bulk_bytes) {
  DGX_TRY(NumberType type, number_type(dataset));
  DGX_TRY(const DType dtype, widened(type));
  DGX_TRY(const Shape shape, h5::shape_of(dataset));
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(*element_count(shape)) * size_of(dtype);
  if (size_bytes > kMaxTensorBytes) {
    return malformed(fmt::format("shape {} needs more than {} bytes", to_string(shape), kMaxTensorBytes));
  }
  DGX_CHECK(check_storage(dataset, shape, size_bytes / size_of(dtype) * type.bytes, file_bytes));
  DGX_TRY(BulkTensor tensor, BulkTensor::create(dtype, shape, bulk_bytes));
  if (size_bytes == 0) return tensor;
  if (shape.empty()) {
    const hid_t memory = h5::type_of(dtype);
    DGX_CHECK(h5::check(
        [&] { return H5Dread(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes().data()); },
        "read numbers"));
    return tensor;
  }
  DGX_TRY(const std::int64_t at_once, rows_at_once(dataset, tensor));
  for (std::int64_t first = 0; first < shape[0]; first += at_once) {
    DGX_CHECK(read_rows(dataset, first, std::min(at_once, shape[0] - first), tensor));
  }
  return tensor;
}

}  // namespace

Result<BulkTensor> read_hdf5(const std::string& file, const std::string& path, std::uint64_t bulk_bytes) {
  auto handle = h5::open_file(file, h5::Origin::kForeign);
  if (!handle.ok()) return within(file, std::move(handle).error());
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return Error{ErrorCode::kIo, fmt::format("{}: cannot open", file), {}};
  auto dataset = descend(*handle, path);
  if (!dataset.ok()) return within(file, std::move(dataset).error());
  auto tensor = read_numbers(*dataset, static_cast<std::uint64_t>(info.st_size), bulk_bytes);
  if (!tensor.ok()) return within(fmt::format("{}: \"{}\"", file, path), std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
