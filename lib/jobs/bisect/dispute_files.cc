#include "bisect/dispute_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "dgx/core/version.h"
#include "dgx/crypto/sha256.h"
#include "dgx/protocol/referee.h"

namespace dgx::jobs {

Result<std::optional<std::string>> drill_text_of(const std::string& from) {
  std::error_code ignored;
  if (is_opening(from) || !std::filesystem::is_directory(from, ignored)) return std::optional<std::string>();
  DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(from));
  const std::string& drill = run.index().header.drill;
  return drill.empty() ? std::optional<std::string>() : std::optional<std::string>(drill);
}

DisputeNotes notes_of(const std::string& folder, const protocol::Game& game,
                      const std::optional<std::string>& drill, const Notary& notary) {
  const protocol::Dispute& dispute = game.dispute();
  const manifest::Challenge& challenge = dispute.challenge.body;
  json::Object identity{{"dataset", dispute.task.body.dataset.digest.hex()},
                        {"drill", drill.value_or("")},
                        {"key", notary.key.hex()},
                        {"proof", dispute.proof.id.hex()},
                        {"segment", challenge.segment},
                        {"start", challenge.start.digest.hex()},
                        {"task", dispute.task.id.hex()},
                        {"version", version()}};
  const std::string name = crypto::sha256(as_bytes(json::Value(identity).dump())).brief();
  return {fmt::format("{}/segment-{}-{}", folder, challenge.segment, name), std::move(identity),
          notary.work_keys, notary.progress};
}

SignedMoves::SignedMoves(std::string folder, const protocol::Game& game, const Digest& key)
    : folder_(std::move(folder)),
      path_(fmt::format("{}/moves-{}-{}.jsonl", folder_, game.dispute().challenge.id.brief(), key.brief())),
      game_(game.dispute().challenge.id),
      key_(key) {}

Result<std::optional<manifest::Signed<manifest::Move>>> SignedMoves::find(std::int64_t turn,
                                                                          const Digest& previous) const {
  std::optional<manifest::Signed<manifest::Move>> out;
  if (!exists(path_)) return out;
  DGX_TRY(const std::string text, read_file(path_, protocol::kMaxTranscriptBytes));
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    auto move = manifest::open_statement<manifest::Move>(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (!move.ok()) return within(path_, std::move(move).error());
    if (move->key_id != key_ || move->body.game != game_) continue;
    if (move->body.turn == turn && move->body.previous == previous) out.emplace(*std::move(move));
  }
  return out;
}

Result<Output> SignedMoves::claim() const {
  DGX_CHECK(make_folder(folder_));
  return Output::claim(path_, Clobber::kReplace);
}

Status SignedMoves::add(const manifest::Signed<manifest::Move>& move, Output& notebook) const {
  std::string text;
  if (exists(path_)) {
    DGX_TRY(text, read_file(path_, protocol::kMaxTranscriptBytes));
  }
  return notebook.write(text + move.envelope + "\n");
}

}  // namespace dgx::jobs
