#include "bisect/dispute_chunk.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/manifest/opening.h"
#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"
#include "verify/store.h"

namespace dgx::jobs {

namespace {

ByteView part_of(ByteView bytes, std::uint64_t part) {
  const std::size_t at = part * merkle::kTensorPartBytes;
  return bytes.subspan(at, std::min(merkle::kTensorPartBytes, bytes.size() - at));
}

/// Puts a chunk into a store. If it is there already, as after a call that was killed, it stays.
Status put(const std::string& folder, const Digest& defender, const std::string& location, ByteView bytes,
           Clobber clobber) {
  if (!manifest::is_location(location))
    return usage_error("--location: is not a path below the store's folder");
  const Store store{folder};
  DGX_CHECK(store.make_folders(defender, location));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return write_file(store.at(defender, location), text,
                    clobber == Clobber::kForce ? clobber : Clobber::kKeepSame);
}

}  // namespace

Result<manifest::ChunkReference> chunk_reference(const program::Program& program, const std::string& name,
                                                 std::int64_t part) {
  const auto input = program::find_state_input(program, name);
  if (!input) return usage_error(fmt::format("--chunk {}: the program has no such entry", name));
  const kernels::Primitive& line = program.values[*input];
  DGX_TRY(const std::int64_t count, element_count(line.shape));
  const auto bytes = static_cast<std::uint64_t>(count) * size_of(line.dtype);
  const auto parts = static_cast<std::int64_t>(merkle::tensor_part_count(bytes));
  if (part < 0 || part >= parts)
    return usage_error(fmt::format("--part {}: the entry has parts 0 to {}", part, parts - 1));
  DGX_TRY(const auto leaves, merkle::program_leaves(program::print_program(program)));
  manifest::ChunkReference out;
  out.part = part;
  out.line.index = to_number(*input);
  out.line.text = program::print_line(line, *input);
  DGX_TRY(out.line.path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(*input)));
  return out;
}

Result<protocol::Message> answer_chunk(const protocol::Game& game, const State& state,
                                       const std::string& location, const std::optional<std::string>& store,
                                       Clobber clobber) {
  const manifest::ChunkReference& wanted = *game.dispute().challenge.body.chunk;
  DGX_TRY(const kernels::Primitive line,
          program::parse_line(wanted.line.text, kernels::ValueIndex(wanted.line.index)));
  const std::string& name = line.source.name;
  const Entry* const entry = find_entry(state, name);
  if (entry == nullptr) return malformed(fmt::format("the committed state has no entry {}", name));
  DGX_TRY(const auto digests, merkle::state_digests(state));
  std::vector<merkle::NamedDigest> entries;
  for (std::size_t i = 0; i < state.size(); ++i) entries.push_back({state[i].name, digests.tensors[i]});
  const ByteView bytes = entry->tensor.bytes();
  std::vector<Digest> parts;
  for (std::uint64_t part = 0; part < merkle::tensor_part_count(bytes.size()); ++part)
    parts.push_back(merkle::tensor_part_root(bytes, part));
  const auto part = static_cast<std::uint64_t>(wanted.part);
  if (part >= parts.size())
    return malformed(fmt::format("the committed entry {} has no part {}", name, part));
  if (store) DGX_CHECK(put(*store, game.dispute().defender(), location, part_of(bytes, part), clobber));
  protocol::ChunkPost out;
  DGX_TRY(out.entry, merkle::open_entry(entries, name));
  DGX_TRY(out.path, merkle::inclusion_path(parts, part));
  out.root = parts[part];
  out.location = location;
  return protocol::Message(std::move(out));
}

}  // namespace dgx::jobs
