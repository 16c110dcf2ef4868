#include "dgx/manifest/profile.h"

#include <fmt/format.h>

#include "dgx/manifest/fields.h"
#include "dgx/program/number_text.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kMaxReplays = 256;
constexpr std::int64_t kMaxThreads = 65536;

json::Value replay_json(const ProfileReplay& replay) {
  return json::Object{
      {"instructions", replay.instructions}, {"threads", replay.threads},
      {"segments", replay.segments},         {"steps", replay.steps},
      {"differing", replay.differing},       {"nanoseconds_per_step", replay.nanoseconds_per_step}};
}

ProfileReplay read_replay(json::Fields& in) {
  ProfileReplay out;
  out.instructions = read_name(in, "instructions", 64);
  out.threads = in.integer("threads", 1, kMaxThreads);
  out.segments = in.integer("segments", 1, kMaxInteger);
  out.steps = in.integer("steps", 1, kMaxInteger);
  out.differing = in.integer("differing", 0, out.segments);
  out.nanoseconds_per_step = in.integer("nanoseconds_per_step", 0, kMaxInteger);
  return out;
}

}  // namespace

json::Object Profile::predicate() const {
  json::Array list;
  for (const ProfileReplay& replay : replays) list.push_back(replay_json(replay));
  return {{"task", task.hex()},
          {"replays", list},
          {"other_seed_distance", program::hex_float(other_seed_distance)},
          {"operations_per_second", operations_per_second},
          {"memory_bytes", memory_bytes},
          {"segment_milliseconds", segment_milliseconds}};
}

Profile Profile::read(json::Fields& in) {
  Profile out;
  out.task = read_digest(in, "task");
  const json::Array& list = in.array("replays", kMaxReplays);
  for (std::size_t i = 0; i < list.size(); ++i) {
    json::Fields replay(list[i], "replays");
    out.replays.push_back(read_replay(replay));
    const Status status = replay.finish();
    if (!status.ok()) fail_nested(in, "replays", within(fmt::format("{}", i), status.error()));
  }
  if (list.empty()) in.fail("replays", "is empty");
  out.other_seed_distance = read_double(in, "other_seed_distance");
  out.operations_per_second = in.integer("operations_per_second", 0, kMaxInteger);
  out.memory_bytes = in.integer("memory_bytes", 0, kMaxInteger);
  out.segment_milliseconds = in.integer("segment_milliseconds", 1, kMaxInteger);
  return out;
}

std::vector<Subject> Profile::subjects() const { return {{"task", task}}; }

}  // namespace dgx::manifest
