#include "train/resume_point.h"

#include <algorithm>
#include <cstring>

#include "dgx/core/files.h"
#include "dgx/core/tensor.h"

namespace dgx::jobs {
namespace {

/// True if the entries that the run's states share are in `stored` with their digests.
bool has_constants(const bundle::StoredState& stored, const bundle::Constants& constants) {
  return std::ranges::all_of(constants.entries, [&](const merkle::NamedDigest& entry) {
    const Entry* const found = find_entry(stored.state, entry.name);
    return found &&
           stored.digests.tensors[static_cast<std::size_t>(found - stored.state.data())] == entry.digest;
  });
}

}  // namespace

ResumePoint::ResumePoint(const std::string& run)
    : state_(run + "/resume.h5"), losses_(run + "/resume.losses") {}

std::optional<ResumePoint::Found> ResumePoint::read(const protocol::Segment& segment,
                                                    const bundle::Constants& constants) const {
  auto stored = bundle::read_state(state_);
  const auto losses = read_file(losses_, std::size_t{1} << 30);
  if (!stored.ok() || !losses.ok()) return std::nullopt;
  const auto step = step_of(stored->state);
  const bool inside = step.ok() && *step > segment.first && *step < segment.end;
  if (!inside || !has_constants(*stored, constants)) return std::nullopt;
  const auto count = static_cast<std::size_t>(*step - segment.first);
  if (losses->size() < count * sizeof(float)) return std::nullopt;
  Found out{std::move(stored->state), std::vector<float>(count)};
  std::memcpy(out.losses.data(), losses->data(), count * sizeof(float));
  return out;
}

Status ResumePoint::write(const State& state, const bundle::Constants& constants,
                          std::span<const float> losses, const bundle::Effort& effort) const {
  const std::string_view bytes(reinterpret_cast<const char*>(losses.data()), losses.size_bytes());
  DGX_CHECK(write_file(losses_, bytes, Clobber::kReplace));
  DGX_TRY(const auto digests, bundle::digests_of(state, constants, effort.threads));
  return bundle::write_state(state_, state, digests, constants, Clobber::kReplace, effort);
}

void ResumePoint::remove() const {
  for (const std::string& path : {state_, losses_})
    if (exists(path)) static_cast<void>(remove_file(path));
}

}  // namespace dgx::jobs
