#include "dgx/jobs/proof_files.h"

#include "dgx/jobs/task_files.h"
#include "dgx/manifest/trust.h"
#include "dgx/protocol/verify.h"

namespace dgx::jobs {

template <class T>
Result<manifest::Signed<T>> read_signed(const std::string& path, const std::optional<std::string>& trust) {
  DGX_TRY(auto statement, manifest::read_statement<T>(path));
  if (trust) {
    DGX_TRY(const manifest::Trust trusted, manifest::Trust::load(*trust));
    DGX_TRY([[maybe_unused]] const auto word, trusted.check(statement.key_id, path));
  }
  return statement;
}

template Result<manifest::Signed<manifest::Task>> read_signed(const std::string&,
                                                              const std::optional<std::string>&);
template Result<manifest::Signed<manifest::Proof>> read_signed(const std::string&,
                                                               const std::optional<std::string>&);
template Result<manifest::Signed<manifest::Profile>> read_signed(const std::string&,
                                                                 const std::optional<std::string>&);
template Result<manifest::Signed<manifest::Beacon>> read_signed(const std::string&,
                                                                const std::optional<std::string>&);
template Result<manifest::Signed<manifest::BeaconCommitment>> read_signed(const std::string&,
                                                                          const std::optional<std::string>&);

Result<manifest::Signed<manifest::Task>> read_task(const std::string& path,
                                                   const std::optional<std::string>& trust) {
  return read_signed<manifest::Task>(path, trust);
}

Result<ProofFiles> open_proof(const std::string& path, const manifest::Signed<manifest::Task>& task,
                              const std::optional<std::string>& trust) {
  DGX_TRY(auto proof, read_signed<manifest::Proof>(path, trust));
  if (auto checked = protocol::check_proof(task, proof); !checked.ok())
    return within(path, std::move(checked).error());
  const std::string states_path = beside(path, ".states");
  DGX_TRY(const std::string bytes,
          read_file(states_path, static_cast<std::size_t>(proof.body.states.count) * 32));
  auto states = manifest::decode_states(bytes, proof.body);
  if (!states.ok()) return within(states_path, std::move(states).error());
  return ProofFiles{std::move(proof), std::move(states).value(), path};
}

Status refuse_existing(const std::string& path, Clobber clobber) {
  if (clobber == Clobber::kReplace || path == "-" || !exists(path)) return {};
  return Error{ErrorCode::kCannotCreate, path + ": exists already", "--force replaces it"};
}

Status write_beside(const std::string& path, std::string_view content, Clobber clobber, unsigned mode) {
  if (clobber == Clobber::kRefuse && exists(path)) {
    const auto found = read_file(path, content.size());
    if (found.ok() && *found == content) return {};
  }
  return write_file(path, content, clobber, mode);
}

}  // namespace dgx::jobs
