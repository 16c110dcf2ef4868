// dgx-referee: judge a dispute by its transcript. dgx-referee(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/referee.h"

namespace {

using namespace dgx;

struct Referee {
  jobs::RefereeOptions options;

  void declare(cli::Command& command) {
    command.positional("DISPUTE.jsonl", options.transcript,
                       "the transcript: task, proof, challenge and moves");
    command.key(options.key.path, options.key.passphrase_file);
    command.option(
        "--operator", "FILE", options.ledger_operator,
        "public key of the ledger's operator, whose receipt confirms the answer to a demanded chunk");
    command.output(options.output, "RULING.json", cli::Need::kOptional, "the signed ruling");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto statement, jobs::referee(options, out.brief_job()));
    const manifest::Ruling& ruling = statement.body;
    const cli::Verdict verdict = ruling.falls ? cli::Verdict::kRefuted : cli::Verdict::kAccepted;
    if (options.output == "-") return verdict;  // standard output has the ruling itself
    out.field("ruling", statement.id);
    out.field("game", ruling.game);
    out.field("statement", ruling.statement);
    out.field("reason", std::string(manifest::name_of(ruling.reason)));
    if (ruling.claim) out.field("claim", manifest::name_of(*ruling.claim));
    out.field("falls", ruling.falls ? std::optional<std::string>(ruling.defender.hex()) : std::nullopt);
    out.field("loser", (ruling.falls ? ruling.defender : ruling.challenger).hex());
    out.field("at", manifest::place_json(ruling.at));
    if (ruling.scalar) out.field("scalar", manifest::scalar_json(*ruling.scalar));
    out.field("words", ruling.words);
    return verdict;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-referee", "judge a dispute by its transcript alone");
  tool.names(jobs::names_of_trust);
  tool.add<Referee>("", "recompute the outcome of a dispute, and sign a ruling");
  return tool.run(argc, argv);
}
