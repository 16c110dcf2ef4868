#include "dgx/bundle/constants.h"

#include <fmt/format.h>

#include <algorithm>

#include "container.h"
#include "dgx/bundle/state.h"
#include "shared_entries.h"
#include "state_group.h"

namespace dgx::bundle {

const Digest* Constants::find(std::string_view name) const {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const auto& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != entries.end() && at->name == name ? &at->digest : nullptr;
}

Result<Constants> constants_of(const State& state, const StateDigests& digests,
                               std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  Constants out;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (std::binary_search(names.begin(), names.end(), state[i].name))
      out.entries.push_back({state[i].name, digests.tensors[i]});
  }
  if (out.entries.size() != names.size())
    return usage_error(
        fmt::format("a state has {} of {} constant entries", out.entries.size(), names.size()));
  DGX_TRY(out.digest, merkle::state_digest(out.entries));
  return out;
}

Result<StateDigests> digests_of(const State& state, const Constants& known, int threads) {
  DGX_CHECK(check_state(state));
  std::vector<EntryView> others;
  for (const Entry& entry : state) {
    if (known.find(entry.name) == nullptr) others.push_back({entry.name, entry.tensor.view()});
  }
  DGX_TRY(const StateDigests hashed, merkle::state_digests(others, threads));
  if (known.empty()) return hashed;
  StateDigests out;
  std::vector<merkle::NamedDigest> all = known.entries;
  std::size_t next = 0;
  for (const Entry& entry : state) {
    const Digest* constant = known.find(entry.name);
    out.tensors.push_back(constant != nullptr ? *constant : hashed.tensors[next++]);
    if (constant == nullptr) all.push_back({entry.name, out.tensors.back()});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  DGX_TRY(out.state, merkle::state_digest(all));
  return out;
}

std::string constants_path(const std::string& folder, const Digest& digest) {
  return fmt::format("{}/constant-{}.h5", folder, digest.brief());
}

Status write_constants(const std::string& folder, const State& state, const StateDigests& digests,
                       const Constants& constants, const Effort& effort) {
  DGX_TRY(AtomicFile target, AtomicFile::create(constants_path(folder, constants.digest), Clobber::kReplace));
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kState, effort));
  DGX_CHECK(writer.digest("", "digest", constants.digest));
  DGX_CHECK(put_constants(writer, "state", state, digests, constants));
  return writer.commit();
}

namespace {

Result<Reader> open_constants(const std::string& path, const Digest& digest) {
  auto reader = Reader::open(path, Kind::kState);
  if (!reader.ok()) {
    Error error = std::move(reader).error();
    if (error.code == ErrorCode::kMissing)
      error.hint =
          "it holds what the run's states have in common: bring it back from another copy of the run";
    return error;
  }
  DGX_CHECK(reader->expect_attributes("", {"digest"}));
  DGX_CHECK(reader->expect_children("", {"state"}));
  DGX_TRY(const Digest stated, reader->digest("", "digest"));
  if (stated == digest) return reader;
  return reader->in_file(malformed(
      fmt::format("has digest {}, the states that need it name {}", stated.brief(), digest.brief())));
}

}  // namespace

Result<Constants> stated_constants(const std::string& folder, const Digest& digest) {
  DGX_TRY(const Reader reader, open_constants(constants_path(folder, digest), digest));
  Constants out;
  out.digest = digest;
  DGX_TRY(const std::vector<std::string> names, reader.datasets_below("state"));
  for (const std::string& name : names) {
    DGX_TRY(const TensorInfo info, reader.info("state/" + name));
    if (!info.digest) return reader.in_file(malformed(fmt::format("\"state/{}\" has no digest", name)));
    out.entries.push_back({name, *info.digest});
  }
  DGX_TRY(const Digest recomputed, merkle::state_digest(out.entries));
  if (recomputed == digest) return out;
  return reader.in_file(
      malformed(fmt::format("the state has digest {}, recomputed {}", digest.brief(), recomputed.brief())));
}

Result<std::shared_ptr<const StoredState>> SharedEntries::of_folder(const std::string& folder,
                                                                    const Digest& digest, Check check,
                                                                    const Effort& effort) {
  const std::lock_guard lock(mutex_);
  if (stored_ && stored_->digests.state == digest && (checked_ || check == Check::kNothing)) return stored_;
  DGX_TRY(const Reader reader, open_constants(constants_path(folder, digest), digest));
  DGX_TRY(StoredState stored, take_state(reader, "state", digest, check, effort));
  return keep(std::move(stored), check);
}

Result<std::shared_ptr<const StoredState>> SharedEntries::of_group(const Reader& reader,
                                                                   const std::string& group, Check check,
                                                                   const Effort& effort) {
  const std::lock_guard lock(mutex_);
  if (stored_ && (checked_ || check == Check::kNothing)) return stored_;
  DGX_TRY(StoredState stored, take_entries(reader, group, effort));
  if (check != Check::kNothing) {
    Status same = compare_tensors(stored, effort.threads);
    if (!same.ok()) return reader.in_file(within(group, std::move(same).error()));
  }
  return keep(std::move(stored), check);
}

std::shared_ptr<const StoredState> SharedEntries::keep(StoredState stored, Check check) {
  checked_ = check != Check::kNothing;
  return stored_ = std::make_shared<const StoredState>(std::move(stored));
}

}  // namespace dgx::bundle
