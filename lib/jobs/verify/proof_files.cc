#include "dgx/jobs/proof_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "dgx/core/inputs.h"
#include "dgx/protocol/verify.h"
#include "task/folder_entries.h"

namespace dgx::jobs {

Result<manifest::Signed<manifest::Task>> read_task(const std::string& path,
                                                   const manifest::TrustView& trust) {
  DGX_TRY(const std::string file, find_task_file(path));
  return read_signed<manifest::Task>(file, trust);
}

Result<protocol::DrawSource> read_draw_source(const std::string& path, const Digest& proof,
                                              const manifest::TrustView& trust) {
  DGX_TRY(const auto statement, manifest::read_any(path, "beacon"));
  DGX_CHECK(trust.check(statement.key_id, path));
  auto source = protocol::draw_source(statement, proof);
  if (!source.ok()) return within(path, std::move(source).error());
  return source;
}

Result<std::int64_t> profiled_segment_milliseconds(const std::string& path, const Digest& task,
                                                   const Digest& signer) {
  DGX_TRY(const auto profile, read_signed<manifest::Profile>(path, std::nullopt));
  if (profile.body.task != task)
    return malformed(
        fmt::format("{}: belongs to task {}, not {}", path, profile.body.task.brief(), task.brief()));
  if (profile.key_id == signer) return profile.body.segment_milliseconds;
  return unauthorised(fmt::format("{}: is signed by key {}, not by --key", path, profile.key_id.brief()),
                      "measure on the machine that will answer in a dispute");
}

bool is_opening(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) && exists(fmt::format("{}/{}", path, kOpenedSample));
}

namespace {

/// The states of a proof that was renamed: a file *.states next to it that has the proof's root.
std::optional<std::string> renamed_states(const std::string& proof_path, const manifest::Proof& proof) {
  const Search search;
  const auto entries = FolderEntries::read(std::filesystem::path(proof_path).parent_path().string());
  for (const std::string& file : entries.ok() ? entries->ending_in(".states") : std::vector<std::string>()) {
    if (read_states(file, proof, manifest::Ends::kUnchecked).ok()) return file;
  }
  return std::nullopt;
}

}  // namespace

std::string states_path(const std::string& proof_path, const std::optional<std::string>& from) {
  if (from && is_opening(*from)) return fmt::format("{}/{}", *from, kOpenedStates);
  const std::string own = beside(proof_path, ".states");
  const std::string folder = std::filesystem::path(proof_path).parent_path().string();
  if (!exists(own) && is_opening(folder)) return fmt::format("{}/{}", folder, kOpenedStates);
  return own;
}

Result<std::vector<Digest>> read_states(const std::string& path, const manifest::Proof& proof,
                                        manifest::Ends ends) {
  DGX_TRY(const std::string bytes, read_file(path, static_cast<std::size_t>(proof.states.count) * 32));
  auto states = manifest::decode_states(bytes, proof, ends);
  if (!states.ok()) return within(path, std::move(states).error());
  return states;
}

Result<ProofFiles> open_proof(const std::string& path, const manifest::Signed<manifest::Task>& task,
                              const manifest::TrustView& trust, const std::optional<std::string>& from,
                              manifest::Ends ends) {
  DGX_TRY(auto proof, read_signed<manifest::Proof>(path, trust));
  if (ends == manifest::Ends::kChecked) {
    if (auto checked = protocol::check_proof(task, proof); !checked.ok())
      return within(path, std::move(checked).error());
  } else if (proof.body.task != task.id) {
    return malformed(path + ": belongs to another task");
  }
  const auto segments = protocol::segments_of(task.body, proof.body);
  if (!segments.ok()) return within(path, segments.error());
  std::string beside_it = states_path(path, from);
  if (!exists(beside_it)) beside_it = renamed_states(path, proof.body).value_or(beside_it);
  DGX_TRY(auto states, read_states(beside_it, proof.body, ends));
  return ProofFiles{std::move(proof), *segments, std::move(states), path};
}

Result<Output> claim_beside(const std::string& path, Clobber clobber) {
  return Output::claim(path, clobber == Clobber::kRefuse ? Clobber::kKeepSame : clobber);
}

}  // namespace dgx::jobs
