#include "dgx/protocol/referee.h"

#include <fmt/format.h>

#include <set>

#include "dgx/manifest/file_kind.h"

namespace dgx::protocol {

using manifest::Body;
using manifest::Signed;

namespace {

/// The statements of a transcript, by kind.
struct Parts {
  std::optional<Signed<manifest::Task>> task;
  std::optional<Signed<manifest::Proof>> proof;
  std::optional<Signed<manifest::Verdict>> verdict;
  std::optional<DrawSource> beacon;
  std::optional<Signed<manifest::BeaconCommitment>> offer;
  std::optional<Signed<manifest::Beacon>> secret;
  std::optional<Signed<manifest::Challenge>> challenge;
  std::vector<std::pair<std::size_t, Signed<manifest::Move>>> moves;  // with their line numbers
  std::optional<Digest> receipts_by;  // key id of those taken: the operator named, or the first's
  std::map<Digest, std::int64_t> logged_ms;
};

std::string line_text(std::size_t line) { return fmt::format("line {}", line + 1); }

template <class T>
Status place(std::optional<Signed<T>>& where, Signed<Body> statement, bool in_order) {
  if (where || !in_order)
    return malformed(fmt::format("has a {} where none belongs", manifest::name_of(T::kKind)));
  DGX_TRY(where, manifest::as<T>(std::move(statement)));
  return {};
}

/// Takes the beacon or round that the verdict names, and after the verifier's offer their secret.
Status place_source(Parts& parts, const Signed<Body>& statement) {
  if (parts.beacon && parts.beacon->is_round && kind_of(statement.body) == manifest::Kind::kBeacon)
    return place(parts.secret, statement, parts.offer && !parts.challenge);
  if (parts.beacon || !parts.verdict || parts.challenge)
    return malformed(fmt::format("has {} where none belongs",
                                 manifest::with_article(manifest::name_of(kind_of(statement.body)))));
  DGX_TRY(parts.beacon, draw_source(statement, parts.proof->id));
  return check_source(*parts.task, parts.proof->id, *parts.beacon);
}

/// Takes a receipt, which must be by the operator named, and of the task's ledger. If nobody is named, one
/// that is not of the ledger, or by another than the first, says nothing.
Status take_receipt(Parts& parts, const Signed<Body>& statement, const std::optional<Digest>& operator_key) {
  const auto& receipt = std::get<manifest::Receipt>(statement.body);
  const bool of_ledger = parts.task && receipt.ledger == parts.task->body.ledger;
  if (operator_key && statement.key_id != *operator_key)
    return unauthorised("is not signed by the named operator");
  if (operator_key && !of_ledger)
    return malformed("belongs to another ledger than the one that the task names");
  if (!of_ledger || parts.receipts_by.value_or(statement.key_id) != statement.key_id) return {};
  parts.receipts_by = statement.key_id;
  parts.logged_ms.emplace(receipt.statement, receipt.milliseconds);
  return {};
}

Status take(Parts& parts, const std::optional<Digest>& operator_key, std::size_t line,
            Signed<Body> statement) {
  const bool challenged = parts.challenge.has_value();
  switch (manifest::kind_of(statement.body)) {
    case manifest::Kind::kTask: return place(parts.task, std::move(statement), line == 0);
    case manifest::Kind::kProof: return place(parts.proof, std::move(statement), parts.task && !challenged);
    case manifest::Kind::kVerdict:
      return place(parts.verdict, std::move(statement), parts.proof && !challenged);
    case manifest::Kind::kBeaconCommitment: {
      const bool drawn = parts.beacon && parts.beacon->is_round;
      return place(parts.offer, std::move(statement), drawn && !challenged);
    }
    case manifest::Kind::kBeacon:
    case manifest::Kind::kRound: return place_source(parts, statement);
    case manifest::Kind::kChallenge:
      return place(parts.challenge, std::move(statement), parts.proof.has_value());
    case manifest::Kind::kReceipt: return take_receipt(parts, statement, operator_key);
    case manifest::Kind::kMove: {
      if (!challenged) return malformed("has a move before the challenge");
      DGX_TRY(auto move, manifest::as<manifest::Move>(std::move(statement)));
      parts.moves.emplace_back(line, std::move(move));
      return {};
    }
    default: {
      const manifest::Kind kind = manifest::kind_of(statement.body);
      const bool is_ledger = kind == manifest::Kind::kPolicy && line == 0;
      return malformed(
          fmt::format("{} does not belong in a transcript", manifest::with_article(manifest::name_of(kind))),
          is_ledger ? "dgx-settle extract --game takes a dispute out of a ledger" : "");
    }
  }
}

/// The answer to a demanded chunk counts only with a receipt: before logging it, the operator has fetched the
/// chunk.
Status check_fetched(const Game& game, const Parts& parts, bool names_operator) {
  const bool answered = game.dispute().challenge.body.about == manifest::About::kChunk && game.decision() &&
                        !game.decision()->falls;
  if (!answered || (names_operator && parts.logged_ms.contains(game.last()))) return {};
  return Error{ErrorCode::kInconclusive, "the chunk's answer has no receipt from the ledger's operator",
               "name the operator with --operator, and append their receipt"};
}

Status play(Game& game, const Parts& parts, bool names_operator) {
  for (const auto& [line, move] : parts.moves) {
    if (Status status = game.apply(move); !status.ok()) return within(line_text(line), status.error());
  }
  return check_fetched(game, parts, names_operator);
}

/// Refuses, in words that say what would mend it, a line that somebody's mail or editor has changed.
Status check_line(std::string_view text, std::size_t line) {
  if (text.empty()) return malformed(line_text(line) + ": is empty", "remove the line");
  if (!text.starts_with('{') || !text.ends_with('\r')) return {};
  return malformed(line_text(line) + ": ends in CR LF, as mail leaves it",
                   "sed 's/\\r$//' gives the lines that were signed");
}

}  // namespace

Result<Transcript> play_transcript(std::string_view text, const std::optional<Digest>& operator_key) {
  if (text.size() > kMaxTranscriptBytes)
    return malformed(fmt::format("has {} bytes, at most {} allowed", text.size(), kMaxTranscriptBytes));
  Parts parts;
  std::vector<TranscriptLine> lines;
  std::set<Digest> seen;
  while (!text.empty()) {
    const std::size_t line = lines.size();
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return malformed(line_text(line) + ": no newline at its end");
    if (line == kMaxTranscriptLines) return malformed(fmt::format("more than {} lines", kMaxTranscriptLines));
    DGX_CHECK(check_line(text.substr(0, end), line));
    auto statement = manifest::open_any(text.substr(0, end));
    if (!statement.ok()) return within(line_text(line), statement.error());
    if (!seen.insert(statement->id).second)
      return malformed(line_text(line) + ": repeats an earlier statement");
    lines.push_back({manifest::kind_of(statement->body), statement->id, statement->key_id, end + 1});
    if (Status status = take(parts, operator_key, line, *std::move(statement)); !status.ok())
      return within(line_text(line), status.error());
    text.remove_prefix(end + 1);
  }
  if (!parts.challenge) return malformed("has no challenge: task, proof and challenge come first");
  DGX_TRY(Game game, Game::open({*std::move(parts.task), *std::move(parts.proof), std::move(parts.verdict),
                                 std::move(parts.beacon), *std::move(parts.challenge),
                                 std::move(parts.secret), std::move(parts.offer)}));
  DGX_CHECK(play(game, parts, operator_key.has_value()));
  Transcript out{std::move(game), std::move(lines), {}, std::move(parts.logged_ms)};
  for (auto& [line, move] : parts.moves) out.moves.push_back(std::move(move));
  return out;
}

}  // namespace dgx::protocol
