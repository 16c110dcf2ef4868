// dgx-settle fetch and extract: copies out of a ledger and its operator's store. dgx-settle(1).
#include "dgx/core/files.h"
#include "settle/commands.h"
#include "settle/declare.h"

namespace dgx::tools {
namespace {

struct Fetch {
  jobs::LedgerFile file;
  std::string id;
  std::string folder;

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.positional("ID", id,
                       "an opening, a solver's delivery or a chunk's move, by its id or at least eight "
                       "digits of it; or a task");
    command.output(folder, "DIR", cli::Need::kRequired, "folder to copy the files into");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto copy, jobs::fetch_copy({file.path, out.common().trust}, id, folder, out.clobber()));
    out.field("kind", name_of(copy.kind));
    out.field("statement", copy.statement);
    out.field("task", copy.task);
    out.field("files", json::Array(copy.files.begin(), copy.files.end()));
    return cli::Verdict::kDone;
  }
};

struct Extract {
  jobs::LedgerFile file;
  std::string game;
  std::string path = "-";

  void declare(cli::Command& command) {
    declare_ledger(command, file);
    command.required("--game", "ID", game, "the id of its challenge, or eight digits of it or more");
    command.output(path, "DISPUTE.jsonl", cli::Need::kOptional, "the transcript");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(path));
    DGX_TRY(const auto found, jobs::extract_game({file.path, out.common().trust}, game));
    DGX_CHECK(out.output(output, found.text));
    if (path == "-") return cli::Verdict::kDone;
    out.field("game", found.game);
    out.field("moves", found.moves);
    out.field("receipts", found.receipts);
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_fetch(cli::Tool& tool) {
  tool.add<Fetch>("fetch", "hand out what was opened, delivered or shown, from the operator's copies");
}

void add_extract(cli::Tool& tool) {
  tool.add<Extract>("extract", "take a dispute's statements out of a ledger, with their receipts");
}

}  // namespace dgx::tools
