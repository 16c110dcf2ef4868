// dgx-referee: judge a dispute by its transcript. dgx-referee(1).
#include "dgx/cli/expect.h"
#include "dgx/cli/tool.h"
#include "dgx/jobs/referee.h"
#include "dispute_json.h"

namespace {

using namespace dgx;

struct Referee {
  jobs::RefereeOptions options;
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("DISPUTE.jsonl", options.transcript,
                       "the transcript: task, proof, challenge and moves");
    command.key(options.key.path, options.key.passphrase_file, cli::Need::kOptional);
    command.option("--check", "RULING.json", options.check,
                   "recompute this ruling and compare; needs no key, and signs nothing");
    command.option(
        "--operator", "FILE", options.ledger_operator,
        "public key of the ledger's operator, whose receipt confirms the answer to a demanded chunk");
    command.output(options.output, "RULING.json", cli::Need::kOptional, "the signed ruling");
    expected.declare(command, {"falls", "stands"});
    command.exactly_one({"--key", "--check"});
    command.not_with({"--output"}, {"--check"});
    command.at_most_one({"--expect", "--check"});
  }

  Result<cli::Verdict> run(cli::Out& out) const { return options.check ? check(out) : rule(out); }

 private:
  Result<cli::Verdict> check(cli::Out& out) const {
    DGX_TRY(const jobs::RulingCheck found, jobs::check_ruling(options, out.brief_job()));
    const manifest::Ruling& ruling = found.recomputed;
    out.field("ruling", found.given.id);
    out.field("signer", found.given.key_id);
    out.field("game", found.given.body.game);
    out.field("same", found.same);
    out.field("differs", json::Array(found.differs.begin(), found.differs.end()));
    print_outcome(ruling, out);
    out.field("words", ruling.words);
    return found.same ? cli::Verdict::kAccepted : cli::Verdict::kRefuted;
  }

  static void print_outcome(const manifest::Ruling& ruling, cli::Out& out) {
    out.field("falls", ruling.falls ? std::optional<std::string>(ruling.defender.hex()) : std::nullopt);
    out.field("loser", (ruling.falls ? ruling.defender : ruling.challenger).hex());
  }

  Result<cli::Verdict> rule(cli::Out& out) const {
    DGX_TRY(const auto statement, jobs::referee(options, out.brief_job()));
    const manifest::Ruling& ruling = statement.body;
    const cli::Verdict verdict =
        expected.judge(out, ruling.falls ? "falls" : "stands",
                       ruling.falls ? cli::Verdict::kRefuted : cli::Verdict::kAccepted);
    if (options.output == "-") return verdict;  // standard output has the ruling itself
    out.field("ruling", statement.id);
    out.field("game", ruling.game);
    out.field("statement", ruling.statement);
    out.field("reason", std::string(manifest::name_of(ruling.reason)));
    if (ruling.claim) out.field("claim", manifest::name_of(*ruling.claim));
    print_outcome(ruling, out);
    out.field("at", manifest::place_json(ruling.at));
    if (ruling.scalar) out.field("scalar", tools::scalar_json(*ruling.scalar));
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
