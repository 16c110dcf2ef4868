#include "dgx/bundle/state.h"

#include <fmt/format.h>

#include "container.h"
#include "state_group.h"

namespace dgx::bundle {
namespace {

/// Checks the names. None may be the folder of another: an HDF5 link cannot be both.
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

Status compare_digests(const State& state, const StateDigests& stored, int threads) {
  DGX_TRY(const StateDigests ours, digests_of(state, threads));
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (ours.tensors[i] == stored.tensors[i]) continue;
    return malformed(fmt::format("\"{}\" has digest {}, recomputed {}", state[i].name,
                                 stored.tensors[i].brief(), ours.tensors[i].brief()));
  }
  if (ours.state == stored.state) return {};
  return malformed(
      fmt::format("the state has digest {}, recomputed {}", stored.state.brief(), ours.state.brief()));
}

}  // namespace

Result<StateDigests> digests_of(const State& state, int threads) {
  DGX_CHECK(check_state(state));
  return merkle::state_digests(state, threads);
}

Status put_state(Writer& writer, const std::string& group, const State& state, const StateDigests& digests) {
  DGX_CHECK(check_state(state));
  if (digests.tensors.size() != state.size()) {
    return internal_error(fmt::format("state: {} entries, {} digests", state.size(), digests.tensors.size()));
  }
  DGX_CHECK(writer.group(group));
  std::vector<NamedView> tensors;
  tensors.reserve(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    tensors.push_back({group + "/" + state[i].name, state[i].tensor.view(), digests.tensors[i]});
  }
  return writer.tensors(tensors);
}

Result<StoredState> take_state(const Reader& reader, const std::string& group, const Digest& digest,
                               Check check, const Effort& effort) {
  DGX_TRY(const std::vector<std::string> names, reader.datasets_below(group));
  StoredState stored;
  stored.digests.state = digest;
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(group + "/" + name);
    DGX_TRY(const TensorInfo info, reader.info(paths.back()));
    if (!info.digest) return reader.in_file(malformed(fmt::format("\"{}\" has no digest", paths.back())));
    stored.digests.tensors.push_back(*info.digest);
  }
  DGX_TRY(std::vector<Tensor> tensors, reader.tensors(paths, effort));
  for (std::size_t i = 0; i < names.size(); ++i) stored.state.push_back({names[i], std::move(tensors[i])});
  if (check == Check::kNothing) return stored;
  Status same = compare_digests(stored.state, stored.digests, effort.threads);
  if (!same.ok()) return reader.in_file(std::move(same).error());
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

Result<StoredState> read_state(const std::string& path, Check check, Effort effort) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kState));
  DGX_CHECK(reader.expect_attributes("", {"digest"}));
  DGX_CHECK(reader.expect_children("", {"state"}));
  DGX_TRY(const Digest digest, reader.digest("", "digest"));
  return take_state(reader, "state", digest, check, effort);
}

Result<Digest> stated_digest(const std::string& path) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kState));
  return reader.digest("", "digest");
}

}  // namespace dgx::bundle
