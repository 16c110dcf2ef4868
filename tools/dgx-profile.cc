// dgx-profile: measure how far honest replays of a task differ, and their cost. dgx-profile(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/profile.h"

namespace {

using namespace dgx;

struct Profile {
  jobs::ProfileOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task, with its step program next to it");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.option("--against", "P.json", options.against,
                   "recheck this profile by replaying the same steps");
    command.option("--steps", "N", options.steps, "steps to replay of each segment");
    command.option("--segments", "N", options.segments, "number of segments, from the initial state on");
    command.flag("--quick", options.quick,
                 "replay in one way only: with the best instruction set and all threads");
    command.option("--program", "FILE", options.program, "the step program, if it is not next to the task");
    command.option("--init", "FILE", options.init, "the initial state, if it is not next to the task");
    command.key(options.key.path, options.key.passphrase_file);
    command.required_when("--key", [this] { return !options.against; });
    command.output(options.output, "PROFILE.json", cli::Need::kOptional);
    command.not_with({"--steps", "--segments"}, {"--against"});
    command.only_with({"--output"}, {"--key"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::ProfileResult result, jobs::profile(options, out.job()));
    const bool refuted = result.agrees && !*result.agrees;
    if (options.output == "-" && result.id) {
      out.raw(result.envelope + "\n");
    } else {
      print(out, result);
    }
    return refuted ? cli::Verdict::kRefuted : cli::Verdict::kAccepted;
  }

  static void print(cli::Out& out, const jobs::ProfileResult& result) {
    const manifest::Profile& profile = result.profile;
    cli::Table table{{"instructions", "threads", "segments", "steps", "differing", "nanoseconds_per_step"}};
    for (const manifest::ProfileReplay& r : profile.replays) {
      table.rows.push_back(
          {r.instructions, r.threads, r.segments, r.steps, r.differing, r.nanoseconds_per_step});
    }
    if (result.id) out.field("profile", *result.id);
    if (result.agrees) out.field("agrees", *result.agrees);
    out.field("replays", std::move(table));
    out.field("other_seed_distance", profile.other_seed_distance);
    out.field("other_seed_max_abs", result.other_seed_max_abs);
    out.field("steps_per_second", result.steps_per_second);
    out.field("operations_per_second", profile.operations_per_second);
    out.field("memory_bytes", profile.memory_bytes);
    out.field("segment_milliseconds", profile.segment_milliseconds);
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-profile", "measure by how much honest replays of a task differ, and what they cost");
  tool.names(jobs::names_of_trust);
  tool.add<Profile>("", "replay with every number of threads and instruction set, and sign the measurements");
  return tool.run(argc, argv);
}
