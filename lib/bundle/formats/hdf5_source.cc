#include <fmt/format.h>

#include <algorithm>

#include "child.h"
#include "dgx/bundle/format.h"
#include "dgx/bundle/sources.h"
#include "filters.h"
#include "input_file.h"
#include "table.h"
#include "widen.h"

// Reads files of other programs, which use more of the format than our bundles. dgx-h5 says where a dataset's
// numbers are; here they are read and unpacked with suspicion: the file may have made dgx-h5 say anything.
namespace dgx::bundle {
namespace {

bool lies_in(const Extent& extent, std::uint64_t file_bytes) {
  return extent.begin <= file_bytes && extent.size <= file_bytes - extent.begin;
}

/// Checks that no byte belongs to two chunks, so that a small file cannot be read as a large one.
Status check_places(const Table& table, std::uint64_t file_bytes) {
  if (!lies_in(table.contiguous, file_bytes)) return malformed("declares more numbers than the file holds");
  std::vector<Extent> places;
  for (const TableChunk& chunk : table.chunks) {
    if (chunk.at.size == 0 || !lies_in(chunk.at, file_bytes))
      return malformed(fmt::format("chunk {} is not in the file", places.size()));
    places.push_back(chunk.at);
  }
  std::sort(places.begin(), places.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].begin - places[i - 1].begin < places[i - 1].size)
      return malformed("has chunks that overlap");
  }
  return {};
}

/// True if widening changes no byte.
bool is_as_stored(const NumberType& type, DType dtype) {
  return type.order == NumberType::Order::kLittle && type.bytes == size_of(dtype);
}

Status read_contiguous(const InputFile& file, const Table& table, BulkTensor& tensor) {
  Bytes buffer;
  const std::size_t width = size_of(tensor.dtype());
  const auto numbers = static_cast<std::uint64_t>(tensor.count());
  return for_each_piece(numbers, [&](std::uint64_t first, std::uint64_t count) -> Status {
    const std::uint64_t begin = table.contiguous.begin + first * table.type.bytes;
    if (is_as_stored(table.type, tensor.dtype())) {
      DGX_CHECK(file.read(begin, tensor.bytes().subspan(first * width, count * width)));
    } else {
      buffer.resize(count * table.type.bytes);
      DGX_CHECK(file.read(begin, buffer));
      widen_piece(table.type, buffer, tensor, first);
    }
    release(tensor.view(), first * width, count * width);
    return {};
  });
}

/// One chunk's numbers, and the chunk's place in the tensor.
struct Placed {
  ByteView bytes;
  std::vector<std::uint64_t> origin;
};

/// Copies the rows of a chunk, along the last dimension, as far as they are in the tensor.
void scatter(const Table& table, const Placed& chunk, BulkTensor& tensor) {
  const std::size_t last = table.shape.size() - 1;
  const auto extent = [&](std::size_t d) { return static_cast<std::uint64_t>(table.shape[d]); };
  const std::size_t row = std::min(table.chunk[last], extent(last) - chunk.origin[last]);
  std::vector<std::uint64_t> inside(table.shape.size(), 0);
  for (;;) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    for (std::size_t d = 0; d <= last; ++d) {
      from = from * table.chunk[d] + inside[d];
      to = to * extent(d) + chunk.origin[d] + inside[d];
    }
    widen_piece(table.type, chunk.bytes.subspan(from * table.type.bytes, row * table.type.bytes), tensor, to);
    std::size_t d = last;
    while (d > 0 &&
           (++inside[d - 1] == table.chunk[d - 1] || chunk.origin[d - 1] + inside[d - 1] == extent(d - 1)))
      inside[--d] = 0;
    if (d == 0) return;
  }
}

/// Count of numbers in a whole chunk.
std::uint64_t chunk_numbers(const Table& table) {
  std::uint64_t numbers = 1;
  for (const std::uint64_t size : table.chunk) numbers *= size;
  return numbers;
}

/// Moves to the next chunk of the grid in row-major order; true when that begins a new row of the outermost
/// dimension.
bool advance(const Table& table, std::vector<std::uint64_t>& origin) {
  for (std::size_t d = origin.size(); d-- > 1;) {
    origin[d] += table.chunk[d];
    if (origin[d] < static_cast<std::uint64_t>(table.shape[d])) return false;
    origin[d] = 0;
  }
  origin[0] += table.chunk[0];
  return true;
}

Status read_chunk(const InputFile& file, const Table& table, const TableChunk& chunk, Bytes& buffer) {
  const std::uint64_t bytes = chunk_numbers(table) * table.type.bytes;
  // No filter makes that many bytes of this chunk.
  if (chunk.at.size > 2 * bytes + 4096)
    return malformed(fmt::format("is too large with {} bytes", chunk.at.size));
  buffer.resize(chunk.at.size);
  DGX_CHECK(file.read(chunk.at.begin, buffer));
  return undo_filters(table.filters, chunk.skipped, table.type.bytes, bytes, buffer);
}

Status read_chunks(const InputFile& file, const Table& table, BulkTensor& tensor) {
  Bytes buffer;
  std::vector<std::uint64_t> origin(table.shape.size(), 0);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < table.chunks.size(); ++i) {
    Status read = read_chunk(file, table, table.chunks[i], buffer);
    if (!read.ok()) return within(fmt::format("chunk {}", i), std::move(read).error());
    scatter(table, {buffer, origin}, tensor);
    if (!advance(table, origin)) continue;
    const std::uint64_t row_bytes = tensor.bytes().size() / static_cast<std::uint64_t>(table.shape[0]);
    const std::uint64_t end = std::min(origin[0] * row_bytes, std::uint64_t{tensor.bytes().size()});
    release(tensor.view(), done, end - done);
    done = end;
  }
  return {};
}

Result<BulkTensor> read_numbers(const InputFile& file, const Table& table, const Reading& reading) {
  DGX_TRY(const DType dtype, widened(table.type, reading.rounding));
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(*element_count(table.shape)) * size_of(dtype);
  if (size_bytes > kMaxTensorBytes) {
    return malformed(
        fmt::format("shape {} needs more than {} bytes", to_string(table.shape), kMaxTensorBytes));
  }
  DGX_CHECK(check_places(table, file.size_bytes()));
  DGX_TRY(BulkTensor tensor, BulkTensor::create(dtype, table.shape, reading.bulk_bytes));
  switch (table.layout) {
    case Table::Layout::kCompact: widen_piece(table.type, table.compact, tensor, 0); break;
    case Table::Layout::kContiguous: DGX_CHECK(read_contiguous(file, table, tensor)); break;
    case Table::Layout::kChunked: DGX_CHECK(read_chunks(file, table, tensor)); break;
  }
  return tensor;
}

}  // namespace

Result<BulkTensor> read_hdf5(const std::string& file, const std::string& path, const Reading& reading) {
  auto input = InputFile::open(file);
  if (!input.ok()) return within(file, std::move(input).error());
  auto table = ask_child(*input, path);
  if (!table.ok()) return within(file, std::move(table).error());
  auto tensor = read_numbers(*input, *table, reading);
  if (!tensor.ok()) return within(fmt::format("{}: \"{}\"", file, path), std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
