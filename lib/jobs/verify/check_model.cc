#include "dgx/jobs/check_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dgx/bundle/model_files.h"
#include "dgx/bundle/state.h"
#include "dgx/core/files.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/manifest/file_kind.h"
#include "dgx/program/averages.h"
#include "verify/stated_entries.h"

namespace dgx::jobs {
namespace {

/// A model file's tensors, under their names in the state, and the entries that the file states.
struct Received {
  std::string_view form;
  State tensors;
  std::vector<StatedEntry> stated;
  std::string_view prefix;  ///< the tensors are the entries whose names begin so
  bool averages = false;    ///< or their averages
};

Result<Received> received_bundle(const std::string& path, int threads) {
  DGX_TRY(bundle::StoredState stored, bundle::read_state(path, bundle::Check::kNothing, {threads}));
  std::vector<StatedEntry> stated = stated_entries(stored);
  return Received{"state", std::move(stored.state), std::move(stated), ""};
}

Result<Received> received_export(const std::string& path, std::string_view form, bundle::ModelFile file) {
  const auto found = file.metadata.find(kEntriesKey);
  const std::string* text = found == file.metadata.end() ? nullptr : found->second.as_string();
  if (text == nullptr) {
    return Error{ErrorCode::kInconclusive,
                 fmt::format("{}: has no {}, without which no state follows from a model", path, kEntriesKey),
                 "ask for the file that dgx-inspect export wrote, or for the checkpoint"};
  }
  auto stated = parse_entries(*text);
  if (!stated.ok()) return within(fmt::format("{}: {}", path, kEntriesKey), std::move(stated).error());
  const bool averages = has_averages(file.metadata);
  for (Entry& entry : file.tensors) {
    entry.name.insert(0, kModelPrefix);
    entry.name = exported_entry(*stated, entry.name, averages);
  }
  std::ranges::sort(file.tensors, {}, &Entry::name);
  return Received{form, std::move(file.tensors), std::move(stated).value(), kModelPrefix, averages};
}

Result<Received> receive(const std::string& path, int threads) {
  using manifest::FileKind;
  DGX_TRY(const std::string start, read_start(path, manifest::kMagicBytes));
  switch (manifest::recognise(start).kind) {
    case FileKind::kHdf5: return received_bundle(path, threads);
    case FileKind::kSafetensors: {
      DGX_TRY(bundle::ModelFile file, bundle::read_safetensors(path));
      return received_export(path, "safetensors", std::move(file));
    }
    case FileKind::kNpz:
    case FileKind::kZip: {
      DGX_TRY(bundle::ModelFile file, bundle::read_own_npz(path));
      return received_export(path, "npz", std::move(file));
    }
    default: break;
  }
  return malformed(path + ": is not a safetensors file, an NPZ archive or a state bundle");
}

/// The difference between a tensor with this digest and the entry of its name, in words; nullopt if there is
/// none.
std::optional<std::string> difference_of(const Entry& entry, const Digest& digest, const Received& received) {
  const StatedEntry* own = find_stated(received.stated, entry.name);
  if (own != nullptr && own->digest == digest) return std::nullopt;
  for (const StatedEntry& other : received.stated) {
    const bool is_weight =
        other.name.starts_with(received.prefix) || other.name.starts_with(program::kAveragePrefix);
    if (other.digest == digest && is_weight) return fmt::format("is the state's {}", other.name);
  }
  if (own == nullptr) return "is not in the state";
  const TensorView numbers{own->dtype, own->shape, entry.tensor.bytes()};
  if (merkle::tensor_digest(numbers) != own->digest) return "has other numbers";
  return fmt::format("has the right bytes as {}{} instead of {}{}", name_of(entry.tensor.dtype()),
                     to_string(entry.tensor.shape()), name_of(own->dtype), to_string(own->shape));
}

/// All differences: of the tensors that are there, then of those that are not.
Result<std::vector<TensorDifference>> differences_in(const Received& received, int threads) {
  DGX_TRY(const merkle::StateDigests digests, merkle::state_digests(received.tensors, threads));
  std::vector<TensorDifference> out;
  for (std::size_t i = 0; i < received.tensors.size(); ++i) {
    const Entry& entry = received.tensors[i];
    if (auto found = difference_of(entry, digests.tensors[i], received))
      out.push_back({entry.name, *std::move(found)});
  }
  for (const StatedEntry& stated : received.stated) {
    if (!stated.name.starts_with(received.prefix)) continue;
    const std::string name = exported_entry(received.stated, stated.name, received.averages);
    if (find_entry(received.tensors, name) == nullptr) out.push_back({name, "is missing"});
  }
  return out;
}

}  // namespace

Result<ModelComparison> compare_model(const std::string& path, const Digest& committed, int threads) {
  DGX_TRY(const Received received, receive(path, threads));
  ModelComparison out;
  out.form = received.form;
  out.averages = received.averages;
  out.tensors = static_cast<std::int64_t>(received.tensors.size());
  auto state = state_of(received.stated);
  if (!state.ok()) return within(path, std::move(state).error());
  out.state = *state;
  if (out.state != committed) return out;
  auto differences = differences_in(received, threads);
  if (!differences.ok()) return within(path, std::move(differences).error());
  out.differing = static_cast<std::int64_t>(differences->size());
  out.differences = std::move(differences).value();
  if (out.differences.size() > kMostDifferences) out.differences.resize(kMostDifferences);
  out.same = out.differing == 0;
  return out;
}

Result<CheckModelResult> check_model(const CheckModelOptions& options, const JobContext& context) {
  DGX_TRY(const auto proof, manifest::read_statement<manifest::Proof>(options.proof));
  manifest::Trust trust;
  if (context.trust) {
    DGX_TRY(trust, manifest::Trust::load(*context.trust));
  }
  CheckModelResult out;
  DGX_TRY(out.identity, trust.check(proof.key_id, options.proof + ": the signer"));
  out.proof = proof.id;
  out.signer = proof.key_id;
  out.final_state = proof.body.final_state;
  out.steps = proof.body.steps;
  DGX_TRY(out.found, compare_model(options.model, out.final_state, context.threads));
  out.is_other_kind = out.found.averages != options.averages;
  return out;
}

}  // namespace dgx::jobs
