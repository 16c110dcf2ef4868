#include "train/resume_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dgx/core/files.h"
#include "dgx/merkle/tree.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kName = "dgx-resume-2";
constexpr std::size_t kMaxLossesBytes = std::size_t{1} << 30;

/// The digest of where the run stands: its task, its drill and its last checkpoint.
Digest place_of(const bundle::RunIndex& index) {
  return merkle::leaf_hash(ByteWriter()
                               .text(kName)
                               .digest(index.header.task)
                               .digest(index.checkpoints.back().digest)
                               .text(index.header.drill)
                               .bytes());
}

/// Takes a space and a digest from the front.
Result<Digest> take_digest(std::string_view& rest) {
  constexpr std::size_t kWord = 1 + 64;
  if (rest.size() < kWord || rest[0] != ' ') return malformed("is not the losses of a saved state");
  DGX_TRY(const Digest out, digest_from_hex(rest.substr(1, kWord - 1)));
  rest.remove_prefix(kWord);
  return out;
}

std::string_view bytes_of(std::span<const float> losses) {
  return {reinterpret_cast<const char*>(losses.data()), losses.size_bytes()};
}

}  // namespace

Result<ResumeLosses> parse_resume_losses(std::string_view bytes) {
  if (!bytes.starts_with(kName)) return malformed("is not the losses of a saved state");
  bytes.remove_prefix(kName.size());
  ResumeLosses out;
  DGX_TRY(out.place, take_digest(bytes));
  DGX_TRY(out.states[0], take_digest(bytes));
  DGX_TRY(out.states[1], take_digest(bytes));
  DGX_TRY(const Digest losses, take_digest(bytes));
  if (!bytes.starts_with('\n')) return malformed("is not the losses of a saved state");
  bytes.remove_prefix(1);
  if (bytes.size() % sizeof(float) != 0 || merkle::leaf_hash(as_bytes(bytes)) != losses)
    return malformed("is damaged: its losses have another digest than it states");
  out.losses.resize(bytes.size() / sizeof(float));
  std::memcpy(out.losses.data(), bytes.data(), bytes.size());
  return out;
}

ResumePoint::ResumePoint(const std::string& run)
    : state_(run + "/resume.h5"), losses_(run + "/resume.losses") {}

std::optional<ResumePoint::Found> ResumePoint::read(const protocol::Segment& segment,
                                                    const bundle::RunIndex& index, Progress& progress) {
  saved_.reset();
  if (!exists(state_)) return std::nullopt;
  const auto ignore = [&](const std::string& why) {
    progress.warning(fmt::format("{}; it is ignored, and training goes on from step {}", why, segment.first));
    return std::nullopt;
  };
  auto stored = bundle::read_state(state_);
  if (!stored.ok()) return ignore(stored.error().message);
  const auto step = step_of(stored->state);
  if (!step.ok()) return ignore(state_ + ": " + step.error().message);
  if (*step <= segment.first || *step >= segment.end) return std::nullopt;
  const auto bytes = read_file(losses_, kMaxLossesBytes);
  if (!bytes.ok()) return ignore(state_ + ": has no losses: " + bytes.error().message);
  auto named = parse_resume_losses(*bytes);
  if (!named.ok()) return ignore(losses_ + ": " + named.error().message);
  if (named->place != place_of(index))
    return ignore(state_ + ": was saved by a run of another task, start state or drill");
  const auto count = static_cast<std::size_t>(*step - segment.first);
  const bool is_named = std::ranges::find(named->states, stored->digests.state) != named->states.end();
  if (!is_named || named->losses.size() < count)
    return ignore(state_ + ": is not a state that " + losses_ + " belongs to");
  saved_ = stored->digests.state;
  named->losses.resize(count);
  return Found{std::move(stored->state), std::move(named->losses)};
}

Status ResumePoint::write(const State& state, const bundle::RunIndex& index,
                          const bundle::Constants& constants, std::span<const float> losses,
                          const bundle::Effort& effort) {
  DGX_TRY(const auto digests, bundle::digests_of(state, constants, effort.threads));
  const std::string_view bytes = bytes_of(losses);
  const std::string line =
      fmt::format("{} {} {} {} {}\n", kName, place_of(index).hex(), digests.state.hex(),
                  saved_.value_or(digests.state).hex(), merkle::leaf_hash(as_bytes(bytes)).hex());
  DGX_CHECK(write_file(losses_, line + std::string(bytes), Clobber::kReplace));
  DGX_CHECK(bundle::write_state(state_, state, digests, constants, Clobber::kReplace, effort));
  saved_ = digests.state;
  return {};
}

void ResumePoint::remove() {
  for (const std::string& path : {state_, losses_})
    if (exists(path)) static_cast<void>(remove_file(path));
  saved_.reset();
}

}  // namespace dgx::jobs
