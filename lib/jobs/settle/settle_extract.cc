#include <fmt/format.h>

#include <map>

#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"

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

/// The receipts' lines by statement. Line i is the receipt of entry i, as reading the ledger has checked.
Result<std::map<Digest, std::string>> receipts_of(const LedgerFile& file, const ledger::Log& log) {
  DGX_TRY(const std::string text, read_file(ledger::receipts_path(file.path), ledger::kMaxLedgerBytes));
  std::map<Digest, std::string> out;
  std::string_view rest = text;
  for (const ledger::Entry& entry : log.entries) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // a writer came between the two reads
    out.emplace(entry.statement.id, rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return out;
}

/// Appends statements with their receipts.
class TranscriptText {
 public:
  TranscriptText(std::map<Digest, std::string> receipts, ExtractedGame& out)
      : receipts_(std::move(receipts)), out_(out) {}

  template <class T>
  void add(const manifest::Signed<T>& statement) {
    out_.text += statement.envelope + "\n";
    const auto receipt = receipts_.find(statement.id);
    if (receipt == receipts_.end()) return;
    out_.text += receipt->second + "\n";
    ++out_.receipts;
  }

 private:
  std::map<Digest, std::string> receipts_;
  ExtractedGame& out_;
};

}  // namespace

Result<ExtractedGame> extract_game(const LedgerFile& file, const std::string& name) {
  DGX_TRY(const LedgerView view, view_ledger(file));
  DGX_TRY(const protocol::Game* game, find_game(view.market, name));
  DGX_TRY(auto receipts, receipts_of(file, view.log));
  const protocol::Dispute& dispute = game->dispute();
  ExtractedGame out;
  out.game = dispute.challenge.id;
  TranscriptText text(std::move(receipts), out);
  text.add(dispute.task);
  text.add(dispute.proof);
  if (dispute.verdict) text.add(*dispute.verdict);
  if (dispute.beacon) text.add(*dispute.beacon);
  text.add(dispute.challenge);
  for (const ledger::Entry& entry : view.log.entries) {
    const auto* move = std::get_if<manifest::Move>(&entry.statement.body);
    if (move == nullptr || move->game != out.game) continue;
    text.add(entry.statement);
    ++out.moves;
  }
  return out;
}

}  // namespace dgx::jobs
