// Chunk addresses: HDF5 File Format Specification 3.0, "Fixed Array Index", for filtered chunks.
#include <fmt/format.h>

#include "blocks.h"
#include "cursor.h"
#include "dgx/core/checked.h"

namespace dgx::bundle {
namespace {

constexpr unsigned kFilteredChunks = 1;
constexpr std::size_t kChecksumBytes = 4;

struct ArrayHeader {
  std::size_t entry_bytes = 0;
  std::uint64_t page_entries = 0;
  std::uint64_t data = kNowhere;
};

Result<ArrayHeader> read_header(Blocks& blocks, std::uint64_t address, std::uint64_t count) {
  constexpr std::uint64_t kHeaderBytes = 28;
  DGX_TRY(const Bytes header, blocks.checked(address, kHeaderBytes, "FAHD"));
  Cursor in(header);
  ArrayHeader out;
  const unsigned client = in.u8();
  out.entry_bytes = in.u8();
  const unsigned page_bits = in.u8();
  const std::uint64_t entries = in.u64();
  out.data = in.u64();
  const bool sized = out.entry_bytes >= 13 && out.entry_bytes <= 20 && page_bits >= 1 && page_bits <= 15;
  if (!in.done() || client != kFilteredChunks || !sized)
    return malformed("has a chunk index of a kind that dgx does not write");
  if (entries != count)
    return malformed(fmt::format("has an index of {} chunks, expected {}", entries, count));
  out.page_entries = std::uint64_t{1} << page_bits;
  return out;
}

/// Adds the chunks that an array's entries describe: address, stored size in `entry_bytes` - 12 bytes, and
/// the filters skipped.
Status take_entries(ByteView bytes, std::size_t entry_bytes, std::vector<Extent>& out) {
  Cursor in(bytes);
  while (in.left() >= entry_bytes) {
    const std::uint64_t address = in.u64();
    const std::uint64_t size = in.number(entry_bytes - 12);
    const std::uint32_t skipped = in.u32();
    const auto chunk = [&] { return fmt::format("chunk {}", out.size()); };
    if (address == kNowhere || size == 0) return within(chunk(), malformed("is missing"));
    if (skipped != 0) return within(chunk(), malformed("was stored without its filters"));
    out.push_back({address, size});
  }
  return {};
}

/// Adds the chunks of an array in pages, which begin at `address` and follow each other. Bit p of `written`,
/// highest first, says that page p was written.
Status read_pages(Blocks& blocks, const ArrayHeader& header, std::uint64_t address, std::uint64_t count,
                  ByteView written, std::vector<Extent>& out) {
  for (std::uint64_t page = 0; page * header.page_entries < count; ++page) {
    if ((written[page / 8] & 0x80U >> page % 8) == 0)
      return within(fmt::format("chunk {}", page * header.page_entries), malformed("is missing"));
    const std::uint64_t entries = std::min(header.page_entries, count - page * header.page_entries);
    DGX_TRY(const Bytes block, blocks.raw(address, entries * header.entry_bytes + kChecksumBytes));
    DGX_CHECK(blocks.compare_sum(block, "page of chunks"));
    const ByteView content = ByteView(block).first(block.size() - kChecksumBytes);
    DGX_CHECK(take_entries(content, header.entry_bytes, out));
    address += block.size();
  }
  return {};
}

}  // namespace

Result<std::vector<Extent>> read_fixed_array(Blocks& blocks, std::uint64_t address, std::uint64_t count) {
  DGX_TRY(const ArrayHeader header, read_header(blocks, address, count));
  if (header.data == kNowhere) return within("chunk 0", malformed("is missing"));
  const std::uint64_t pages = ceil_div(count, header.page_entries);
  const bool paged = pages > 1;
  const std::uint64_t bitmap_bytes = paged ? ceil_div(pages, 8) : 0;
  const std::uint64_t entries_bytes = paged ? 0 : count * header.entry_bytes;
  const std::uint64_t size = 18 + bitmap_bytes + entries_bytes;
  DGX_TRY(const Bytes block, blocks.checked(header.data, size, "FADB"));
  Cursor in(block);
  const bool ours = in.u8() == kFilteredChunks && in.u64() == address;
  const ByteView written = in.bytes(bitmap_bytes);
  if (!in.ok() || !ours) return malformed("has a chunk index of a kind that dgx does not write");
  std::vector<Extent> out;
  DGX_CHECK(paged ? read_pages(blocks, header, header.data + size, count, written, out)
                  : take_entries(in.bytes(in.left()), header.entry_bytes, out));
  if (out.size() != count) return malformed("has a chunk index of a kind that dgx does not write");
  return out;
}

}  // namespace dgx::bundle
