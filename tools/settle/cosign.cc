// dgx-settle cosign: a witness of a ledger's heads and of statements handed to its operator. dgx-settle(1).
#include "dgx/jobs/cosign.h"
#include "dgx/cli/expect.h"
#include "dgx/core/files.h"
#include "market_cells.h"
#include "settle/commands.h"

namespace dgx::tools {
namespace {

struct Cosign {
  jobs::CosignRequest request;
  jobs::Witness witness;
  std::optional<std::string> note;
  std::optional<std::string> statement;
  std::string ledger;
  std::string path = "-";
  cli::Expected expected;

  void declare(cli::Command& command) {
    command.positional("NOTE", note,
                       "a note of the ledger's head, or a request: dgx-settle head --note [--old N]");
    command.required("--operator", "OP.pub.pem", request.operator_key,
                     "the public key of the ledger's operator");
    command.required("--seen", "STATE", request.seen,
                     "file that holds the note cosigned last, and is replaced");
    command.flag("--first", request.first, "begin STATE: no note of this ledger was cosigned before");
    command.option("--saw", "S.json", statement, "sign that this statement was seen now, instead of a note");
    command.required("--ledger", "ID|FILE", ledger, "the ledger that the statement is for");
    command.key(witness.key.path, witness.key.passphrase_file);
    command.option("--name", "NAME", witness.name,
                   "of the witness, in the lines that they sign (default: dgx-witness/KEY-ID)");
    command.output(path, "LINES", cli::Need::kOptional, "the witness's line, or their note of the statement");
    command.wait(request.wait);
    expected.declare(command, {"cosigned", "refused"});
    command.exactly_one({"NOTE", "--saw"});
    command.only_with({"--operator", "--seen", "--first", "--wait", "--expect"}, {"NOTE"});
    command.required_when("--ledger", [this] { return statement.has_value(); });
    for (const char* title : {"--operator", "--seen"})
      command.required_when(title, [this] { return note.has_value(); });
    command.only_with({"--ledger"}, {"--saw"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    if (statement) {
      DGX_TRY(const std::string text, jobs::sight_statement(*statement, ledger, witness));
      DGX_CHECK(out.output(output, text));
      return cli::Verdict::kDone;
    }
    jobs::CosignRequest asked = request;
    asked.note = *note;
    DGX_TRY(const auto answer, jobs::cosign(asked, witness));
    if (!answer.refusal.empty()) return tell_refusal(out, answer);
    DGX_CHECK(out.output(output, answer.line));
    const cli::Verdict verdict = expected.judge(out, "cosigned", cli::Verdict::kDone);
    if (path == "-") return verdict;
    out.field("ledger", answer.checkpoint.ledger);
    out.field("entries", answer.checkpoint.head.count);
    out.field("root", answer.checkpoint.head.root);
    out.field("time", time_cell(answer.seconds * 1000));
    out.field("witness", answer.witness.text());
    return verdict;
  }

 private:
  /// Both notes are the operator's: together they are the evidence.
  Result<cli::Verdict> tell_refusal(cli::Out& out, const jobs::Cosignature& answer) const {
    out.field("ledger", answer.checkpoint.ledger);
    out.field("refused", answer.refusal);
    out.field("last_note", answer.last_note);
    out.field("note", answer.note);
    return expected.judge(out, "refused", cli::Verdict::kRefuted);
  }
};

}  // namespace

void add_cosign(cli::Tool& tool) {
  tool.add<Cosign>("cosign",
                   "as a witness, cosign a ledger's head, or a statement that was seen; 1 if refused");
}

}  // namespace dgx::tools
