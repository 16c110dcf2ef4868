// Verifies a proof and judges a dispute from C++, without dgx's programs.
//
//   check proof TASK.json PROOF.json RUN DATA.h5 KEY.pem VERDICT.json
//     replays all segments and signs the verdict
//   check dispute DISPUTE.jsonl
//     plays the transcript and recomputes the one scalar that it comes down to
//
// The exit code is 0 if the statement stands, 1 if it falls, else as dgx(7) says.
#include <cstdio>
#include <string>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/core/job_context.h"
#include "dgx/jobs/verify.h"
#include "dgx/protocol/referee.h"

namespace {

using Arguments = std::vector<std::string>;

/// True if the proof stands: every segment is replayed from its committed start state.
dgx::Result<bool> check_proof(const Arguments& files) {
  dgx::jobs::VerifyOptions options;
  options.task = files[0];
  options.proof = files[1];
  options.from = files[2];
  options.data = files[3];
  options.key.path = files[4];
  options.output = files[5];
  options.choice.all = true;
  dgx::Progress progress;  // shown to nobody
  const dgx::StopFlag stop;
  DGX_TRY(const auto result, dgx::jobs::verify(options, {.threads = 2, .progress = progress, .stop = stop}));
  std::printf("%lld of %lld segments replayed\n", static_cast<long long>(result.verdict.replayed),
              static_cast<long long>(result.verdict.segments));
  return result.verdict.outcome == dgx::manifest::Outcome::kAccepted;
}

/// True if the disputed statement stands. Reads nothing but the transcript.
dgx::Result<bool> check_dispute(const Arguments& files) {
  DGX_TRY(const std::string text, dgx::read_file(files[0], dgx::protocol::kMaxTranscriptBytes));
  DGX_TRY(const auto transcript, dgx::protocol::play_transcript(text));
  DGX_TRY(const auto ruling, transcript.game.ruling());
  std::puts(ruling.words.c_str());
  return !ruling.falls;
}

dgx::Result<bool> check(const std::string& what, const Arguments& files) {
  if (what == "proof" && files.size() == 6) return check_proof(files);
  if (what == "dispute" && files.size() == 1) return check_dispute(files);
  return dgx::usage_error("say proof TASK PROOF RUN DATA KEY VERDICT, or dispute DISPUTE");
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments files(argv + (argc > 1 ? 2 : argc), argv + argc);
  const auto stands = check(argc > 1 ? argv[1] : "", files);
  if (!stands.ok()) {
    std::fprintf(stderr, "check: %s\n", stands.error().message.c_str());
    return static_cast<int>(stands.error().code);
  }
  std::puts(*stands ? "it stands" : "it falls");
  return *stands ? 0 : 1;
}
