#include "dgx/bundle/state.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "container.h"
#include "shared_entries.h"
#include "state_group.h"

namespace dgx::bundle {
namespace {

Status put_entries(Writer& writer, const std::string& group, const State& state, const StateDigests& digests,
                   const std::function<bool(const std::string&)>& chosen) {
  DGX_CHECK(check_state(state));
  if (digests.tensors.size() != state.size()) {
    return internal_error(fmt::format("state: {} entries, {} digests", state.size(), digests.tensors.size()));
  }
  DGX_CHECK(writer.group(group));
  std::vector<NamedView> tensors;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (chosen(state[i].name))
      tensors.push_back({group + "/" + state[i].name, state[i].tensor.view(), digests.tensors[i]});
  }
  return writer.tensors(tensors);
}

/// Puts the shared entries among the state's own, in the order of their names.
StoredState merged(StoredState own, const StoredState& shared) {
  StoredState out;
  out.digests.state = own.digests.state;
  const auto move_own = [&](std::size_t i) {
    out.state.push_back(std::move(own.state[i]));
    out.digests.tensors.push_back(own.digests.tensors[i]);
  };
  std::size_t next = 0;
  for (std::size_t i = 0; i < shared.state.size(); ++i) {
    while (next < own.state.size() && own.state[next].name < shared.state[i].name) move_own(next++);
    out.state.push_back(shared.state[i]);
    out.digests.tensors.push_back(shared.digests.tensors[i]);
  }
  while (next < own.state.size()) move_own(next++);
  return out;
}

/// kMalformed if an entry is both the state's own and shared: it would be in the state twice.
Status check_apart(const StoredState& own, const StoredState& shared) {
  for (const Entry& entry : own.state) {
    if (find_entry(shared.state, entry.name) != nullptr)
      return malformed(fmt::format("\"{}\" is also one of the constant entries", entry.name));
  }
  return {};
}

/// kMalformed unless the digests of all entries give the state's.
Status compare_state(const StoredState& stored) {
  std::vector<merkle::NamedDigest> entries;
  for (std::size_t i = 0; i < stored.state.size(); ++i)
    entries.push_back({stored.state[i].name, stored.digests.tensors[i]});
  DGX_TRY(const Digest recomputed, merkle::state_digest(entries));
  if (recomputed == stored.digests.state) return {};
  return malformed(fmt::format("the state has digest {}, recomputed {}", stored.digests.state.brief(),
                               recomputed.brief()));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Result<std::optional<Digest>> constant_of(const Reader& reader) {
  if (!reader.has_attribute("", "constant")) return std::optional<Digest>();
  DGX_TRY(const Digest digest, reader.digest("", "constant"));
  return std::optional<Digest>(digest);
}

}  // namespace

// None may be the folder of another: an HDF5 link cannot be both.
Status check_state(const State& state) {
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::string& name = state[i].name;
    DGX_CHECK(check_name(name));
    if (i > 0 && state[i - 1].name >= name) {
      return malformed(fmt::format("state: entry \"{}\" is not after \"{}\"", name, state[i - 1].name));
    }
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      const std::string_view folder = std::string_view(name).substr(0, slash);
      if (find_entry(state, folder) == nullptr) continue;
      return malformed(fmt::format("state: \"{}\" is an entry and a prefix of entry \"{}\"", folder, name));
    }
  }
  return {};
}

Status compare_tensors(const StoredState& stored, int threads) {
  DGX_TRY(const StateDigests ours, digests_of(stored.state, threads));
  for (std::size_t i = 0; i < stored.state.size(); ++i) {
    if (ours.tensors[i] == stored.digests.tensors[i]) continue;
    return malformed(fmt::format("\"{}\" has digest {}, recomputed {}", stored.state[i].name,
                                 stored.digests.tensors[i].brief(), ours.tensors[i].brief()));
  }
  return {};
}

Result<StateDigests> digests_of(const State& state, int threads) {
  DGX_CHECK(check_state(state));
  return merkle::state_digests(state, threads);
}

Status put_state(Writer& writer, const std::string& group, const State& state, const StateDigests& digests,
                 const Constants& constants) {
  return put_entries(writer, group, state, digests,
                     [&](const std::string& name) { return constants.find(name) == nullptr; });
}

Status put_constants(Writer& writer, const std::string& group, const State& state,
                     const StateDigests& digests, const Constants& constants) {
  return put_entries(writer, group, state, digests,
                     [&](const std::string& name) { return constants.find(name) != nullptr; });
}

Result<StoredState> take_entries(const Reader& reader, const std::string& group, const Effort& effort) {
  DGX_TRY(const std::vector<std::string> names, reader.datasets_below(group));
  StoredState stored;
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(group + "/" + name);
    DGX_TRY(const TensorInfo info, reader.info(paths.back()));
    if (!info.digest) return reader.in_file(malformed(fmt::format("\"{}\" has no digest", paths.back())));
    stored.digests.tensors.push_back(*info.digest);
  }
  DGX_TRY(std::vector<Tensor> tensors, reader.tensors(paths, effort));
  for (std::size_t i = 0; i < names.size(); ++i) stored.state.push_back({names[i], std::move(tensors[i])});
  return stored;
}

Result<StoredState> take_state(const Reader& reader, const std::string& group, const Digest& digest,
                               Check check, const Effort& effort, const StoredState* shared) {
  DGX_TRY(StoredState stored, take_entries(reader, group, effort));
  stored.digests.state = digest;
  const auto checked = [&]() -> Status {
    if (check != Check::kNothing) DGX_CHECK(compare_tensors(stored, effort.threads));
    if (shared != nullptr) {
      DGX_CHECK(check_apart(stored, *shared));
      stored = merged(std::move(stored), *shared);
      DGX_CHECK(check_state(stored.state));
    }
    return check != Check::kNothing ? compare_state(stored) : Status();
  };
  Status status = checked();
  if (!status.ok()) return reader.in_file(std::move(status).error());
  return stored;
}

Status write_state(AtomicFile target, const State& state, const StateDigests& digests, Effort effort,
                   Storage storage) {
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kState, effort, storage));
  DGX_CHECK(writer.digest("", "digest", digests.state));
  DGX_CHECK(put_state(writer, "state", state, digests));
  return writer.commit();
}

Status write_state(const std::string& path, const State& state, const StateDigests& digests, Clobber clobber,
                   Effort effort, Storage storage) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  return write_state(std::move(target), state, digests, effort, storage);
}

Status write_state(const std::string& path, const State& state, const StateDigests& digests,
                   const Constants& constants, Clobber clobber, Effort effort) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kState, effort));
  DGX_CHECK(writer.digest("", "digest", digests.state));
  if (!constants.empty()) DGX_CHECK(writer.digest("", "constant", constants.digest));
  DGX_CHECK(put_state(writer, "state", state, digests, constants));
  return writer.commit();
}

Result<StoredState> read_state(const std::string& path, Check check, const Effort& effort,
                               SharedEntries& shared) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kState));
  DGX_TRY(const std::optional<Digest> constant, constant_of(reader));
  DGX_CHECK(reader.expect_attributes(
      "", constant ? std::vector<std::string>{"constant", "digest"} : std::vector<std::string>{"digest"}));
  DGX_CHECK(reader.expect_children("", {"state"}));
  DGX_TRY(const Digest digest, reader.digest("", "digest"));
  if (!constant) return take_state(reader, "state", digest, check, effort);
  auto entries = shared.of_folder(folder_of(path), *constant, check, effort);
  if (!entries.ok()) return std::move(entries).error();
  return take_state(reader, "state", digest, check, effort, entries->get());
}

Result<StoredState> read_state(const std::string& path, Check check, Effort effort) {
  SharedEntries shared;
  return read_state(path, check, effort, shared);
}

Result<Digest> stated_digest(const std::string& path) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kState));
  return reader.digest("", "digest");
}

Result<std::optional<Digest>> stated_constant(const std::string& path) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kState));
  return constant_of(reader);
}

}  // namespace dgx::bundle
