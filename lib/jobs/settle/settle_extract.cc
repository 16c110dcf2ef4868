#include <fmt/format.h>

#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

/// Digits that a prefix of a game's id must have to stand for it.
constexpr std::size_t kLeastDigits = 8;

Result<const protocol::Game*> find_game(const protocol::Market& market, const std::string& name) {
  const protocol::Game* found = nullptr;
  if (name.size() < kLeastDigits)
    return usage_error(fmt::format("game {}: give at least {} digits", name, kLeastDigits));
  for (const auto& [task, record] : market.tasks()) {
    for (const protocol::GameRecord& game : record.games) {
      if (!game.id().hex().starts_with(name)) continue;
      if (found != nullptr) return usage_error(fmt::format("game {}: more than one begins with it", name));
      found = &game.game;
    }
  }
  if (found == nullptr)
    return usage_error(fmt::format("game {} is not in the ledger", name),
                       "dgx-settle status lists the games");
  return found;
}

/// Statements out of a ledger, each with its receipt.
class TranscriptText {
 public:
  TranscriptText(const ledger::Log& log, ExtractedGame& out) : log_(log), out_(out) {}

  template <class T>
  [[nodiscard]] Status add(const manifest::Signed<T>& statement) {
    out_.text += statement.envelope + "\n";
    const auto index = log_.find(statement.id);
    if (!index) return {};
    DGX_TRY(const std::string receipt, log_.receipt(*index));
    out_.text += receipt + "\n";
    ++out_.receipts;
    return {};
  }

 private:
  const ledger::Log& log_;
  ExtractedGame& out_;
};

}  // namespace

Result<std::vector<manifest::Signed<manifest::Move>>> moves_of(const ledger::Log& log,
                                                               const protocol::Game& game) {
  const manifest::Signed<manifest::Challenge>& challenge = game.dispute().challenge;
  std::vector<manifest::Signed<manifest::Move>> out;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    const ledger::Entry& entry = log.entries[i];
    if (entry.kind != manifest::Kind::kMove || entry.task != challenge.body.task) continue;
    DGX_TRY(auto statement, log.statement(i));
    DGX_TRY(auto move, manifest::as<manifest::Move>(std::move(statement)));
    if (move.body.game == challenge.id) out.push_back(std::move(move));
  }
  return out;
}

Result<ledger::FoundEntry> extract_statement(const LedgerFile& file, const std::string& statement) {
  DGX_TRY(const Digest id, statement_named(statement));
  DGX_TRY(auto found, ledger::find_entry(file.path, id));
  if (found.index == ledger::IndexFound::kWrong && file.progress != nullptr)
    file.progress->note(
        ledger::index_path(file.path) +
        ": is not the ledger's, which was searched; its operator's next command makes it again");
  if (!found.entry)
    return usage_error(fmt::format("{}: statement {} is not in the ledger", file.path, id.brief()));
  DGX_TRY(const manifest::Trust trust, load_trust(file.trust));
  DGX_TRY([[maybe_unused]] const auto word,
          trust.check(found.entry->receipt.key_id, file.path + ": the operator"));
  return *std::move(found.entry);
}

Result<ExtractedGame> extract_game(const LedgerFile& file, const std::string& name) {
  DGX_TRY(const LedgerView view, view_ledger(file));
  DGX_TRY(const protocol::Game* game, find_game(view.market, name));
  const protocol::Dispute& dispute = game->dispute();
  ExtractedGame out;
  out.game = dispute.challenge.id;
  TranscriptText text(view.log, out);
  DGX_CHECK(text.add(dispute.task));
  DGX_CHECK(text.add(dispute.proof));
  if (dispute.verdict) DGX_CHECK(text.add(*dispute.verdict));
  if (dispute.beacon) {
    DGX_TRY(const auto source, view.log.statement(*view.log.find(dispute.beacon->id)));
    DGX_CHECK(text.add(source));
  }
  if (dispute.offer) DGX_CHECK(text.add(*dispute.offer));
  if (dispute.secret) DGX_CHECK(text.add(*dispute.secret));
  DGX_CHECK(text.add(dispute.challenge));
  DGX_TRY(const auto moves, moves_of(view.log, *game));
  for (const auto& move : moves) DGX_CHECK(text.add(move));
  out.moves = std::ssize(moves);
  return out;
}

Result<manifest::Signed<manifest::Round>> extract_round(const LedgerFile& file, const std::string& task) {
  DGX_TRY(const LedgerView view, view_ledger(file));
  DGX_TRY(const protocol::TaskRecord* const record, find_task(view.market, task));
  if (!record->round)
    return Error{ErrorCode::kMissing, fmt::format("task {} has no round", record->task.id.brief()),
                 "dgx-settle status says what it waits for"};
  DGX_TRY(auto statement, view.log.statement(*view.log.find(record->round->source.id)));
  return manifest::as<manifest::Round>(std::move(statement));
}

Result<manifest::Signed<manifest::Beacon>> extract_secret(const LedgerFile& file, const std::string& task) {
  DGX_TRY(const LedgerView view, view_ledger(file));
  DGX_TRY(const protocol::TaskRecord* const record, find_task(view.market, task));
  if (record->secret) return record->secret->statement;
  return Error{ErrorCode::kMissing,
               fmt::format("the secret of task {}'s verifier is not in the ledger", record->task.id.brief()),
               {}};
}

}  // namespace dgx::jobs
