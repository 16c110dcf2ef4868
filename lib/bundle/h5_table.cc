#include "h5_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/bundle/format.h"
#include "h5_read.h"

// Describes files of other programs, which use more of the format than our bundles: any superblock, any chunk
// shape, either byte order, deflate. This runs in dgx-h5, where a crash does no harm.
namespace dgx::bundle {
namespace {

/// Descends link by link, so that no soft or external link is ever followed.
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
    if (!link->hard) return malformed(fmt::format("\"{}\" is a soft or external link", part));
    DGX_TRY(here, h5::open_object(here, part));
    begin = end + 1;
  }
  if (h5::kind_of_object(here) != H5I_DATASET) return malformed(fmt::format("\"{}\" is not a dataset", path));
  return here;
}

/// True for IEEE 754 binary16, which HDF5 1.10 has no name for: bfloat16, too, is a float of two bytes.
bool is_half(const h5::Handle& type) {
  return h5::call([&] {
    std::size_t sign = 0, exponent = 0, exponent_bits = 0, fraction = 0, fraction_bits = 0;
    return H5Tget_fields(type.id(), &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) >= 0 &&
           H5Tget_ebias(type.id()) == 15 && H5Tget_norm(type.id()) == H5T_NORM_IMPLIED && sign == 15 &&
           exponent == 10 && exponent_bits == 5 && fraction == 0 && fraction_bits == 10;
  });
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
  // Only C's types: no odd precision, offset or float layout.
  const bool plain = h5::call([&] {
    const std::array known{H5T_STD_U8LE,  H5T_STD_U16LE,  H5T_STD_U32LE,  H5T_STD_U64LE,  H5T_STD_I8LE,
                           H5T_STD_I16LE, H5T_STD_I32LE,  H5T_STD_I64LE,  H5T_STD_U8BE,   H5T_STD_U16BE,
                           H5T_STD_U32BE, H5T_STD_U64BE,  H5T_STD_I8BE,   H5T_STD_I16BE,  H5T_STD_I32BE,
                           H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    return std::any_of(known.begin(), known.end(), [&](hid_t id) { return H5Tequal(type.id(), id) > 0; });
  });
  if (!plain && !(kind == H5T_FLOAT && out.bytes == 2 && is_half(type)))
    return malformed("holds numbers in an unsupported layout");
  const bool big = h5::call([&] { return H5Tget_order(type.id()); }) == H5T_ORDER_BE;
  out.order = big ? NumberType::Order::kBig : NumberType::Order::kLittle;
  return out;
}

Status take_filters(const h5::Handle& list, Table& table) {
  const int filters = h5::call([&] { return H5Pget_nfilters(list.id()); });
  if (filters < 0 || static_cast<std::size_t>(filters) > kMaxFilters)
    return malformed(fmt::format("has {} filters", filters));
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
                       "supported filters are deflate, shuffle, fletcher32 and zstd");
    }
    table.filters.push_back(static_cast<unsigned>(filter));
  }
  return {};
}

/// The place of one chunk. HDF5 1.10's query for it takes time linear in the number of chunks; so HDF5 is
/// told to read the chunk, and the driver records the address instead of reading.
Result<TableChunk> locate(const h5::Handle& dataset, h5::Container& container,
                          const std::vector<hsize_t>& offset) {
  static Bytes buffer;
  hsize_t size = 0;
  DGX_CHECK(h5::check([&] { return H5Dget_chunk_storage_size(dataset.id(), offset.data(), &size); },
                      "find a chunk"));
  if (size == 0) return malformed("is missing: the dataset was not written in full");
  if (size > container.size_bytes || size > 16 * kMaxChunkBytes)
    return malformed(fmt::format("is too large with {} bytes", size));
  if (buffer.size() < size) buffer.resize(size);
  std::uint32_t skipped = 0;
  container.locating = true;
  container.numbers_at = kNowhere;
  const Status found = h5::check(
      [&] { return H5Dread_chunk(dataset.id(), H5P_DEFAULT, offset.data(), &skipped, buffer.data()); },
      "find a chunk");
  container.locating = false;
  DGX_CHECK(found);
  if (container.numbers_at >= container.size_bytes) return malformed("is not stored in the file");
  return TableChunk{{container.begin + container.numbers_at, size}, skipped};
}

Status take_chunks(const h5::Handle& dataset, const h5::Handle& list, h5::Container& container,
                   Table& table) {
  DGX_CHECK(take_filters(list, table));
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank =
      h5::call([&] { return H5Pget_chunk(list.id(), static_cast<int>(dims.size()), dims.data()); });
  if (rank < 1 || static_cast<std::size_t>(rank) != table.shape.size())
    return malformed("has chunks whose rank is not the dataset's");
  std::uint64_t numbers = 1;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < table.shape.size(); ++i) {
    numbers *= std::clamp<std::uint64_t>(dims[i], 1, kMaxChunkBytes + 1);
    if (dims[i] == 0 || numbers > kMaxChunkBytes)
      return malformed(fmt::format("has chunks of more than {} numbers", kMaxChunkBytes));
    const std::uint64_t along = (static_cast<std::uint64_t>(table.shape[i]) + dims[i] - 1) / dims[i];
    count *= std::min(along, kMaxTableChunks + 1);
    if (count > kMaxTableChunks) return malformed(fmt::format("has more than {} chunks", kMaxTableChunks));
    table.chunk.push_back(dims[i]);
  }
  std::vector<hsize_t> offset(table.shape.size(), 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto chunk = locate(dataset, container, offset);
    if (!chunk.ok()) return within(fmt::format("chunk {}", i), std::move(chunk).error());
    table.chunks.push_back(*chunk);
    for (std::size_t d = offset.size(); d-- > 0;) {
      offset[d] += table.chunk[d];
      if (offset[d] < static_cast<std::uint64_t>(table.shape[d])) break;
      offset[d] = 0;
    }
  }
  return {};
}

/// HDF5 accepts a header that states fewer bytes than the shape needs.
Status check_stored(const h5::Handle& dataset, std::uint64_t size_bytes) {
  const std::uint64_t stored = h5::call([&] { return H5Dget_storage_size(dataset.id()); });
  if (stored >= size_bytes) return {};
  return malformed(fmt::format("has {} bytes, its shape needs {}", stored, size_bytes));
}

Status take_contiguous(const h5::Handle& dataset, const h5::Container& container, std::uint64_t size_bytes,
                       Table& table) {
  table.layout = Table::Layout::kContiguous;
  if (size_bytes == 0) return {};
  const haddr_t at = h5::call([&] { return H5Dget_offset(dataset.id()); });
  if (at == HADDR_UNDEF) return malformed("was declared, but not written in full");
  table.contiguous = {container.begin + at, size_bytes};
  return check_stored(dataset, size_bytes);
}

/// Reads the numbers in the file's own type: nothing is converted here.
Status take_compact(const h5::Handle& dataset, std::uint64_t size_bytes, Table& table) {
  table.layout = Table::Layout::kCompact;
  if (size_bytes > kMaxCompactBytes) return malformed("declares more numbers than its header holds");
  DGX_CHECK(check_stored(dataset, size_bytes));
  table.compact.resize(size_bytes);
  if (size_bytes == 0) return {};
  DGX_TRY(const h5::Handle type,
          h5::make([&] { return H5Dget_type(dataset.id()); }, H5Tclose, "read a type"));
  return h5::check(
      [&] { return H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, table.compact.data()); },
      "read numbers");
}

Result<Table> table_of(const h5::Handle& dataset, h5::Container& container) {
  Table table;
  DGX_TRY(table.type, number_type(dataset));
  DGX_TRY(table.shape, h5::shape_of(dataset));
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(*element_count(table.shape)) * table.type.bytes;
  DGX_TRY(const h5::Handle list,
          h5::make([&] { return H5Dget_create_plist(dataset.id()); }, H5Pclose, "read a layout"));
  if (h5::call([&] { return H5Pget_external_count(list.id()); }) != 0) {
    return malformed("keeps its numbers in other files");
  }
  switch (h5::call([&] { return H5Pget_layout(list.id()); })) {
    case H5D_COMPACT: DGX_CHECK(take_compact(dataset, size_bytes, table)); return table;
    case H5D_CONTIGUOUS: DGX_CHECK(take_contiguous(dataset, container, size_bytes, table)); return table;
    case H5D_CHUNKED:
      table.layout = Table::Layout::kChunked;
      DGX_CHECK(take_chunks(dataset, list, container, table));
      return table;
    default: return malformed("is a virtual dataset");
  }
}

}  // namespace

Result<Table> read_table(h5::Container& container, const std::string& path) {
  DGX_TRY(const h5::Handle file, h5::open_container(container));
  DGX_TRY(const h5::Handle dataset, descend(file, path));
  auto table = table_of(dataset, container);
  if (!table.ok()) return within(fmt::format("\"{}\"", path), std::move(table).error());
  return table;
}

}  // namespace dgx::bundle
