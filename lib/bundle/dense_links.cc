// Groups with many links: the links are objects of a fractal heap, and the B-tree over their names gives
// their places. HDF5 File Format Specification 3.0, "Fractal Heap" and "Version 2 B-trees", only with HDF5's
// parameters for groups.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "blocks.h"
#include "cursor.h"

namespace dgx::bundle {
namespace {

constexpr std::size_t kHeapIdBytes = 7;
constexpr std::uint64_t kTableWidth = 4;
constexpr std::uint64_t kFirstBlockBytes = 512;
constexpr std::uint64_t kMaxDirectBytes = 65536;
constexpr unsigned kHeapBits = 32;
constexpr std::uint64_t kMaxManagedBytes = 4096;
constexpr unsigned kDirectRows = 9;  ///< rows of blocks of 512, 512, 1024, ..., 65536 bytes
constexpr unsigned kMaxRows = 22;    ///< together they cover all 2^32 bytes
constexpr unsigned kChecksummed = 2;

/// A block of links: its offset in the heap, and its bytes.
struct HeapBlock {
  std::uint64_t offset = 0;
  Bytes bytes;
};

std::uint64_t block_bytes_of_row(unsigned row) { return kFirstBlockBytes << (row == 0 ? 0 : row - 1); }
std::uint64_t offset_of_row(unsigned row) { return row == 0 ? 0 : kTableWidth * block_bytes_of_row(row); }
/// Number of rows of an indirect block that covers `bytes`.
unsigned rows_of(std::uint64_t bytes) {
  return static_cast<unsigned>(std::bit_width(bytes / (kFirstBlockBytes * kTableWidth)));
}

Error not_ours(std::string_view what) {
  return malformed(fmt::format("has a {} of a kind that dgx does not write", what));
}

class Heap {
 public:
  Heap(Blocks& blocks, std::uint64_t address) : blocks_(blocks), address_(address) {}

  [[nodiscard]] Status read() {
    constexpr std::uint64_t kHeaderBytes = 146;
    DGX_TRY(const Bytes header, blocks_.checked(address_, kHeaderBytes, "FRHP"));
    Cursor in(header);
    const std::size_t id_bytes = in.u16();
    const std::size_t filter_bytes = in.u16();
    if (filter_bytes != 0) return malformed("has filters on its names");
    const unsigned flags = in.u8();
    const std::uint64_t max_managed = in.u32();
    in.bytes(16);  // huge objects: the next one's number, their B-tree's address
    in.bytes(40);  // free space, its manager's address, sizes, the next block's offset
    in.u64();      // number of objects, which the B-tree has too
    const bool all_managed = in.number(8) == 0 && in.number(8) == 0 && in.number(8) == 0 && in.number(8) == 0;
    const bool tables = in.u16() == kTableWidth && in.u64() == kFirstBlockBytes &&
                        in.u64() == kMaxDirectBytes && in.u16() == kHeapBits;
    in.u16();  // initial number of rows
    const std::uint64_t root = in.u64();
    const unsigned rows = in.u16();
    const bool ours = id_bytes == kHeapIdBytes && flags == kChecksummed && max_managed == kMaxManagedBytes;
    if (!in.done() || !ours || !all_managed || !tables || rows > kMaxRows) return not_ours("heap of names");
    if (root == kNowhere) return {};
    return rows == 0 ? read_direct(root, 0, kFirstBlockBytes) : read_indirect(root, 0, rows);
  }

  /// The object with heap id `id`.
  [[nodiscard]] Result<ByteView> object(ByteView id) const {
    Cursor in(id);
    const bool managed = in.u8() == 0;
    const std::uint64_t offset = in.u32();
    const std::uint64_t size = in.u16();
    // Blocks were read in ascending order of their offsets.
    const auto after = std::upper_bound(direct_.begin(), direct_.end(), offset,
                                        [](std::uint64_t o, const HeapBlock& b) { return o < b.offset; });
    if (!managed || !in.done() || after == direct_.begin()) return not_ours("name in a heap");
    const HeapBlock& block = *(after - 1);
    const std::uint64_t at = offset - block.offset;
    if (at < kPrefixBytes || at > block.bytes.size() || size > block.bytes.size() - at)
      return not_ours("name in a heap");
    return ByteView(block.bytes).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
  }

 private:
  static constexpr std::size_t kPrefixBytes = 21;

  [[nodiscard]] Status check_place(Cursor& in, std::uint64_t offset) const {
    if (in.u64() == address_ && in.u32() == offset && in.ok()) return {};
    return malformed("has a heap that holds a block of another heap");
  }

  Status read_direct(std::uint64_t address, std::uint64_t offset, std::uint64_t size) {
    constexpr std::size_t kChecksumAt = 17;
    DGX_TRY(Bytes block, blocks_.raw(address, size));
    Cursor in(block);
    if (as_text(in.bytes(5)) != std::string_view("FHDB\0", 5)) return not_ours("block of names");
    DGX_CHECK(check_place(in, offset));
    const std::uint32_t stated = in.u32();
    std::fill_n(block.begin() + kChecksumAt, 4, std::uint8_t{0});
    DGX_CHECK(blocks_.compare_sum(block, stated, "block of names"));
    direct_.push_back({offset, std::move(block)});
    return {};
  }

  /// The recursion is bounded: an indirect block has fewer rows than the one that contains it.
  Status read_indirect(std::uint64_t address, std::uint64_t offset, unsigned rows) {
    const std::uint64_t size = kPrefixBytes + 8 * kTableWidth * rows;
    DGX_TRY(const Bytes block, blocks_.checked(address, size, "FHIB"));
    Cursor in(block);
    DGX_CHECK(check_place(in, offset));
    for (unsigned row = 0; row < rows; ++row) {
      const std::uint64_t bytes = block_bytes_of_row(row);
      for (std::uint64_t column = 0; column < kTableWidth; ++column) {
        const std::uint64_t child = in.u64();
        const std::uint64_t at = offset + offset_of_row(row) + column * bytes;
        if (child == kNowhere) continue;
        DGX_CHECK(row < kDirectRows ? read_direct(child, at, bytes)
                                    : read_indirect(child, at, rows_of(bytes)));
      }
    }
    if (!in.done()) return not_ours("table of blocks");
    return {};
  }

  Blocks& blocks_;
  std::uint64_t address_;
  std::vector<HeapBlock> direct_;
};

/// The B-tree over names. A record is the name's hash, used only for searching, and a heap id.
class NameTree {
 public:
  NameTree(Blocks& blocks, const Heap& heap, std::size_t most) : blocks_(blocks), heap_(heap), most_(most) {}

  [[nodiscard]] Result<std::vector<Link>> read(std::uint64_t address) {
    constexpr std::uint64_t kHeaderBytes = 38;
    DGX_TRY(const Bytes header, blocks_.checked(address, kHeaderBytes, "BTHD"));
    Cursor in(header);
    const bool ours = in.u8() == kType && in.u32() == kNodeBytes && in.u16() == kRecordBytes;
    const unsigned depth = in.u16();
    in.u16();  // percentages at which nodes are split and merged
    const std::uint64_t root = in.u64();
    const std::uint64_t records = in.u16();
    const std::uint64_t total = in.u64();
    if (!in.done() || !ours || depth >= kMaxLevels) return not_ours("tree of names");
    if (total > most_) return malformed(fmt::format("has more than {} objects", most_));
    if (total > 0) DGX_CHECK(read_node(root, records, depth));
    if (links_.size() != total)
      return malformed(fmt::format("has {} names, its tree says {}", links_.size(), total));
    return std::move(links_);
  }

 private:
  static constexpr unsigned kType = 5;
  static constexpr std::uint64_t kNodeBytes = 512;
  static constexpr std::uint64_t kRecordBytes = 11;
  static constexpr std::uint64_t kOverheadBytes = 10;
  static constexpr unsigned kMaxLevels = 8;

  /// Limits of a node at this height: the most records it holds, the most that it and the nodes below hold,
  /// and the sizes in bytes of that number and of a child pointer.
  struct Level {
    std::uint64_t most = 0;
    std::uint64_t below = 0;
    std::size_t below_bytes = 0;
    std::uint64_t pointer_bytes = 0;
  };
  static std::size_t bytes_for(std::uint64_t limit) {
    return (static_cast<std::size_t>(std::bit_width(limit)) - 1) / 8 + 1;
  }
  static std::array<Level, kMaxLevels> levels() {
    std::array<Level, kMaxLevels> out;
    out[0].most = out[0].below = (kNodeBytes - kOverheadBytes) / kRecordBytes;
    for (std::size_t i = 1; i < kMaxLevels; ++i) {
      out[i].pointer_bytes = 8 + bytes_for(out[0].most) + out[i - 1].below_bytes;
      out[i].most =
          (kNodeBytes - kOverheadBytes - out[i].pointer_bytes) / (kRecordBytes + out[i].pointer_bytes);
      out[i].below = (out[i].most + 1) * out[i - 1].below + out[i].most;
      out[i].below_bytes = bytes_for(out[i].below);
    }
    return out;
  }

  Status take_records(Cursor& in, std::uint64_t records) {
    for (std::uint64_t i = 0; i < records; ++i) {
      if (links_.size() >= most_) return malformed(fmt::format("has more than {} objects", most_));
      in.u32();
      DGX_TRY(const ByteView object, heap_.object(in.bytes(kHeapIdBytes)));
      DGX_TRY(Link link, decode_link(object));
      links_.push_back(std::move(link));
    }
    return {};
  }

  Status read_node(std::uint64_t address, std::uint64_t records, unsigned depth) {
    const Level& level = levels_[depth];
    if (records == 0 || records > level.most) return not_ours("tree of names");
    const std::uint64_t size =
        kOverheadBytes + records * kRecordBytes + (depth == 0 ? 0 : (records + 1) * level.pointer_bytes);
    DGX_TRY(const Bytes node, blocks_.checked(address, size, depth == 0 ? "BTLF" : "BTIN"));
    Cursor in(node);
    if (in.u8() != kType) return not_ours("tree of names");
    DGX_CHECK(take_records(in, records));
    for (std::uint64_t i = 0; depth > 0 && i <= records; ++i) {
      const std::uint64_t child = in.u64();
      const std::uint64_t count = in.number(bytes_for(levels_[0].most));
      in.bytes(levels_[depth - 1].below_bytes);  // the subtree's number of records, which is counted instead
      DGX_CHECK(read_node(child, count, depth - 1));
    }
    if (!in.done()) return not_ours("tree of names");
    return {};
  }

  Blocks& blocks_;
  const Heap& heap_;
  std::size_t most_;
  std::array<Level, kMaxLevels> levels_ = levels();
  std::vector<Link> links_;
};

}  // namespace

Result<std::vector<Link>> read_dense_links(Blocks& blocks, const DenseLinks& dense, std::size_t most) {
  Heap heap(blocks, dense.heap);
  DGX_CHECK(heap.read());
  return NameTree(blocks, heap, most).read(dense.names);
}

}  // namespace dgx::bundle
