#include "structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "blocks.h"
#include "codec.h"
#include "cursor.h"
#include "dgx/bundle/format.h"

namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxAttributes = 16;
/// Enough for a tebibyte in chunks of the writer's size.
constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 20;
constexpr unsigned kShuffle = 2;
constexpr unsigned kZstd = 32015;

/// One message of an object header.
struct Message {
  unsigned type = 0;
  Bytes body;
};

enum MessageType : unsigned {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0a,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kAttributeInfo = 0x15,
};

/// A file whose structure is being read: the blocks that are taken, and what is limited over all objects.
struct Reading {
  Blocks blocks;
  std::size_t objects = 0;   ///< links found
  std::uint64_t chunks = 0;  ///< number of chunks of all datasets
};

/// Claims and checks the superblock: version 2 or 3 at offset 0, 8-byte addresses, no base address, no
/// extension, and an end of file that is the file's. Returns the address of the root group's header.
Result<std::uint64_t> read_superblock(Blocks& blocks) {
  constexpr std::uint64_t kBytes = 48;
  constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  if (blocks.file_bytes() < kBytes) return malformed("is not an HDF5 file");
  DGX_TRY(const Bytes head, blocks.raw(0, kBytes));
  Cursor in(head);
  if (!std::ranges::equal(in.bytes(kSignature.size()), kSignature)) return malformed("is not an HDF5 file");
  const unsigned version = in.u8();
  const bool wide = in.u8() == 8 && in.u8() == 8;
  const unsigned open_flags = in.u8();
  const std::uint64_t base = in.u64();
  const std::uint64_t extension = in.u64();
  const std::uint64_t end = in.u64();
  const std::uint64_t root = in.u64();
  if ((version != 2 && version != 3) || !wide || base != 0 || extension != kNowhere) {
    return malformed("is an HDF5 file, but not written by dgx: its superblock is not version 2 or 3",
                     "dgx-pack hdf5 reads HDF5 files from other programs");
  }
  DGX_CHECK(blocks.compare_sum(head, "superblock"));
  if (open_flags != 0) return malformed("was not closed by its writer");
  if (end != blocks.file_bytes()) {
    return malformed(fmt::format("has {} bytes, its header says {}: it is cut off or was added to",
                                 blocks.file_bytes(), end));
  }
  return root;
}

/// Checks that the filters are exactly those that a writer uses.
Status check_filters(const std::vector<unsigned>& filters, DType dtype) {
  const bool shuffled = size_of(dtype) > 1;
  if (filters.size() != (shuffled ? 2 : 1)) return malformed(fmt::format("has {} filters", filters.size()));
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const unsigned expected = shuffled && i == 0 ? kShuffle : kZstd;
    if (filters[i] != expected)
      return malformed(fmt::format("has filter {}, expected {}", filters[i], expected));
  }
  return {};
}

Status follow(Blocks& blocks, ByteView body, int nesting, std::vector<Message>& out);

/// Appends the messages in `bytes`: the content of an object header, or of a block that continues one and
/// lies within `nesting` others. Ends because no block can be claimed twice.
Status take_messages(Blocks& blocks, ByteView bytes, int nesting, std::vector<Message>& out) {
  constexpr std::size_t kHeadBytes = 4;
  constexpr unsigned kShared = 2;
  Cursor in(bytes);
  while (in.left() >= kHeadBytes) {
    const unsigned type = in.u8();
    const std::size_t size = in.u16();
    const unsigned flags = in.u8();
    const ByteView body = in.bytes(size);
    if (!in.ok()) return malformed("has a message that is cut off");
    if ((flags & kShared) != 0) return malformed("shares a message with another object");
    if (type == kNil) continue;
    if (type == kContinuation) {
      DGX_CHECK(follow(blocks, body, nesting, out));
    } else {
      out.push_back({type, Bytes(body.begin(), body.end())});
    }
  }
  return {};
}

/// Takes the messages of the continuation block whose place is in `body`.
Status follow(Blocks& blocks, ByteView body, int nesting, std::vector<Message>& out) {
  constexpr int kMostNested = 64;
  constexpr std::uint64_t kLeastBytes = 8;
  Cursor in(body);
  const std::uint64_t begin = in.u64();
  const std::uint64_t size = in.u64();
  if (!in.done() || size < kLeastBytes) return malformed("has a header that continues outside the file");
  if (nesting >= kMostNested) return malformed("has a header in too many pieces");
  DGX_TRY(const Bytes block, blocks.raw(begin, size));
  DGX_CHECK(blocks.compare_sum(block, "header"));
  if (!as_text(block).starts_with("OCHK")) return malformed("has a header that continues outside the file");
  return take_messages(blocks, ByteView(block).subspan(4, block.size() - kLeastBytes), nesting + 1, out);
}

/// The messages of an object header of version 2, without times.
Result<std::vector<Message>> read_header(Blocks& blocks, std::uint64_t address) {
  constexpr std::size_t kMostPrefixBytes = 14;
  DGX_TRY(const Bytes prefix, blocks.peek(address, kMostPrefixBytes));
  Cursor in(prefix);
  if (as_text(in.bytes(4)) != "OHDR" || in.u8() != 2)
    return malformed(fmt::format("has no object at {}", address));
  const unsigned flags = in.u8();
  if (flags > 3) return malformed("has a header with times or orders");
  const std::size_t width = std::size_t{1} << flags;
  const std::uint64_t size = in.number(width);
  if (!in.ok() || size > blocks.file_bytes()) return malformed("has a header that is cut off");
  DGX_TRY(const Bytes block, blocks.raw(address, 6 + width + size + 4));
  DGX_CHECK(blocks.compare_sum(block, "header"));
  std::vector<Message> messages;
  DGX_CHECK(
      take_messages(blocks, ByteView(block).subspan(6 + width, static_cast<std::size_t>(size)), 0, messages));
  return messages;
}

Status take_attributes(const std::vector<Message>& messages, Object& object) {
  for (const Message& message : messages) {
    if (message.type == kAttributeInfo) DGX_CHECK(check_attribute_info(message.body));
    if (message.type != kAttribute) continue;
    if (object.attributes.size() >= kMaxAttributes)
      return malformed(fmt::format("has more than {} attributes", kMaxAttributes));
    DGX_TRY(Attribute attribute, decode_attribute(message.body));
    for (const Attribute& other : object.attributes) {
      if (other.name == attribute.name)
        return malformed(fmt::format("has two attributes \"{}\"", other.name));
    }
    object.attributes.push_back(std::move(attribute));
  }
  return {};
}

/// The only message of a type, or null.
Result<const Message*> only(const std::vector<Message>& messages, MessageType type) {
  const Message* found = nullptr;
  for (const Message& message : messages) {
    if (message.type != type) continue;
    if (found != nullptr) return malformed(fmt::format("has two messages {}", message.type));
    found = &message;
  }
  return found;
}

Status check_types(const std::vector<Message>& messages, std::initializer_list<unsigned> known) {
  for (const Message& message : messages) {
    if (message.type == kExternalFiles) return malformed("keeps its numbers in other files");
    if (std::find(known.begin(), known.end(), message.type) != known.end()) continue;
    return malformed(fmt::format("has a message {} in its header, which no bundle has", message.type));
  }
  return {};
}

/// Claims the chunks of a dataset, none of which may be larger than its codec makes one.
Status claim_chunks(Blocks& blocks, const Stored& out) {
  const std::uint64_t most = max_stored_bytes(static_cast<std::size_t>(out.layout->chunk_bytes()));
  for (std::size_t i = 0; i < out.pieces.size(); ++i) {
    const Extent& piece = out.pieces[i];
    Status status = piece.size > most ? malformed(fmt::format("is too large with {} bytes", piece.size))
                                      : blocks.claim(piece.begin, piece.size);
    if (!status.ok()) return within(fmt::format("chunk {}", i), std::move(status).error());
  }
  return {};
}

Status place_chunks(Reading& in, const StoredLayout& stored, Stored& out) {
  if (stored.chunk.size() != out.shape.size() || out.size_bytes == 0)
    return malformed("has chunks whose rank is not the dataset's");
  DGX_TRY(out.layout, layout_from(stored.chunk, out.dtype, out.shape));
  const std::uint64_t count = out.layout->chunk_count();
  if (count > in.blocks.file_bytes()) return malformed("declares more chunks than the file has bytes");
  in.chunks += count;
  if (in.chunks > kMaxChunks)
    return malformed(fmt::format("brings the file to more than {} chunks", kMaxChunks));
  const bool single = stored.kind == StoredLayout::Kind::kSingleChunk;
  if (single && count != 1) return malformed(fmt::format("has one chunk of {}", count));
  if (stored.address == kNowhere) return within("chunk 0", malformed("is missing"));
  if (single && stored.filter_mask != 0)
    return within("chunk 0", malformed("was stored without its filters"));
  if (single) {
    out.pieces.push_back({stored.address, stored.size_bytes});
  } else {
    DGX_TRY(out.pieces, read_fixed_array(in.blocks, stored.address, count));
  }
  return claim_chunks(in.blocks, out);
}

/// Finds and claims the numbers of a dataset whose type and shape are known.
Status place(Reading& in, ByteView layout, const std::vector<unsigned>& filters, Stored& out) {
  constexpr std::uint8_t kChunked = 2;
  const bool chunked = layout.size() > 1 && layout[1] == kChunked;
  if (chunked) DGX_CHECK(check_filters(filters, out.dtype));
  DGX_TRY(const StoredLayout stored, decode_layout(layout, size_of(out.dtype)));
  if (chunked) return place_chunks(in, stored, out);
  if (!filters.empty()) return malformed("has filters without chunks");
  const std::uint64_t size = stored.address == kNowhere ? 0 : stored.size_bytes;
  if (size != out.size_bytes)
    return malformed(fmt::format("has {} bytes, its shape needs {}", size, out.size_bytes));
  if (size == 0) return {};
  out.pieces.push_back({stored.address, size});
  return in.blocks.claim(stored.address, size);
}

Result<std::optional<Stored>> read_dataset(Reading& in, const std::vector<Message>& messages,
                                           ByteView layout) {
  DGX_CHECK(check_types(messages,
                        {kDataspace, kDatatype, kFillValue, kLayout, kFilters, kAttribute, kAttributeInfo}));
  DGX_TRY(const Message* space, only(messages, kDataspace));
  DGX_TRY(const Message* type, only(messages, kDatatype));
  DGX_TRY(const Message* fill, only(messages, kFillValue));
  DGX_TRY(const Message* pipeline, only(messages, kFilters));
  if (space == nullptr || type == nullptr) return malformed("has no shape or type");
  Stored out;
  DGX_TRY(out.dtype, decode_datatype(type->body));
  DGX_TRY(out.shape, decode_dataspace(space->body));
  out.size_bytes = static_cast<std::uint64_t>(*element_count(out.shape)) * size_of(out.dtype);
  if (fill != nullptr) DGX_CHECK(check_fill_value(fill->body));
  std::vector<unsigned> filters;
  if (pipeline != nullptr) {
    DGX_TRY(filters, decode_filters(pipeline->body));
  }
  DGX_CHECK(place(in, layout, filters, out));
  return std::optional(std::move(out));
}

Result<std::vector<Link>> read_links(Reading& in, const std::vector<Message>& messages, ByteView link_info) {
  DGX_CHECK(check_types(messages, {kLinkInfo, kLink, kGroupInfo, kAttribute, kAttributeInfo}));
  DGX_TRY(const DenseLinks dense, decode_link_info(link_info));
  std::vector<Link> links;
  for (const Message& message : messages) {
    if (message.type != kLink) continue;
    DGX_TRY(Link link, decode_link(message.body));
    links.push_back(std::move(link));
  }
  if (dense.heap != kNowhere) {
    if (!links.empty()) return malformed("keeps its links in two ways");
    DGX_TRY(links, read_dense_links(in.blocks, dense, kMaxObjects));
  }
  in.objects += links.size();
  if (in.objects > kMaxObjects) return malformed(fmt::format("has more than {} objects", kMaxObjects));
  return links;
}

/// Reads an object without its children. Returns their links.
Result<std::vector<Link>> read_outside(Reading& in, std::uint64_t address, Object& out) {
  DGX_TRY(const std::vector<Message> messages, read_header(in.blocks, address));
  DGX_CHECK(take_attributes(messages, out));
  DGX_TRY(const Message* layout, only(messages, kLayout));
  DGX_TRY(const Message* link_info, only(messages, kLinkInfo));
  if (link_info != nullptr) return read_links(in, messages, link_info->body);
  if (layout == nullptr) return malformed("is neither group nor dataset");
  DGX_TRY(out.dataset, read_dataset(in, messages, layout->body));
  return std::vector<Link>();
}

/// The object at `path`, which ends in a '/' unless it is the root, and everything below it.
Result<Object> read_object(Reading& in, std::uint64_t address, const std::string& path, std::size_t depth) {
  Object out;
  auto links = read_outside(in, address, out);
  if (links.ok() && depth >= kMaxDepth && !links->empty()) links = malformed("is too deep");
  if (!links.ok() && path.empty()) return std::move(links).error();
  if (!links.ok())
    return within(fmt::format("\"{}\"", path.substr(0, path.size() - 1)), std::move(links).error());
  for (const Link& link : *links) {
    DGX_TRY(Object child, read_object(in, link.address, path + link.name + "/", depth + 1));
    if (!out.children.emplace(link.name, std::move(child)).second)
      return malformed(fmt::format("has two objects \"{}\"", path + link.name));
  }
  return out;
}

Result<const Attribute*> scalar_attribute(const Object& object, std::string_view name) {
  for (const Attribute& attribute : object.attributes) {
    if (attribute.name != name) continue;
    if (!attribute.scalar) return malformed(fmt::format("attribute \"{}\" is not a scalar", name));
    return &attribute;
  }
  return malformed(fmt::format("has no attribute \"{}\"", name));
}

}  // namespace

Result<Object> read_root(const InputFile& file) {
  Blocks blocks(file, Checksums::kCompare);
  DGX_TRY(const std::uint64_t address, read_superblock(blocks));
  DGX_TRY(const std::vector<Message> messages, read_header(blocks, address));
  Object root;
  DGX_CHECK(take_attributes(messages, root));
  return root;
}

Result<Object> read_structure(const InputFile& file, Checksums sums) {
  Reading in{Blocks(file, sums)};
  DGX_TRY(const std::uint64_t address, read_superblock(in.blocks));
  return read_object(in, address, "", 0);
}

const Object* find_object(const Object& root, std::string_view path) {
  const Object* here = &root;
  while (here != nullptr && !path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const auto child = here->children.find(path.substr(0, slash));
    here = child == here->children.end() ? nullptr : &child->second;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return here;
}

Result<std::string> text_of(const Object& object, std::string_view name) {
  DGX_TRY(const Attribute* attribute, scalar_attribute(object, name));
  if (attribute->type != Attribute::Type::kText) {
    return malformed(
        fmt::format("attribute \"{}\" is not a fixed string of at most {} bytes", name, kMaxAttributeBytes));
  }
  const bool printable = std::all_of(attribute->text.begin(), attribute->text.end(),
                                     [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (!printable) return malformed(fmt::format("attribute \"{}\" is not printable ASCII", name));
  return attribute->text;
}

Result<std::int64_t> integer_of(const Object& object, std::string_view name) {
  DGX_TRY(const Attribute* attribute, scalar_attribute(object, name));
  if (attribute->type != Attribute::Type::kInteger)
    return malformed(fmt::format("attribute \"{}\" is not an i64", name));
  return attribute->integer;
}

}  // namespace dgx::bundle
