// dgx-threats(7), rows 12, 23 and 27: moves that are replayed, forged, doubled, left out, or too large.

#include <fmt/format.h>

#include <chrono>

#include "dgx/merkle/openings.h"
#include "ruled_games.h"

using namespace dgx;
using namespace dgx::test;
using protocol::Side;
using Kind = Fault::Kind;

namespace {

/// A solver who lies about one value, and an honest challenger.
struct Case {
  Scene scene = small_scene();
  TinyParty honest{scene};
  TinyParty cheat{scene, {fault(Kind::kValue, 1, 16, 0, 20)}, &honest};
  protocol::Dispute dispute = about_proof(cheat);
  Moves moves = moves_of(scene, dispute, cheat, honest);

  [[nodiscard]] std::string head() const { return transcript_of(dispute, {}); }
  [[nodiscard]] std::string whole() const { return transcript_of(dispute, moves); }
  [[nodiscard]] Moves first(std::size_t count) const {
    return {moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  [[nodiscard]] std::int64_t window() const { return scene.task.body.policy.window_move_ms; }
};

std::string line(const manifest::Signed<manifest::Move>& move) { return move.envelope + "\n"; }

/// The outcome of a transcript: the ruling's, or that there is none.
std::string outcome(const std::string& transcript, const std::optional<Digest>& operator_key = std::nullopt) {
  const auto ruling = ruled(transcript, operator_key);
  if (!ruling.ok()) return ruling.error().code == ErrorCode::kInconclusive ? "open" : "refused";
  return fmt::format("{} {}", manifest::name_of(ruling->reason), ruling->falls ? "falls" : "stands");
}

Digest ledger_operator() { return key_id(kLedgerOperator); }

/// The transcript with receipts: statement i after the challenge was received at times[i].
std::string with_receipts(const Case& c, const Moves& moves, const std::vector<std::int64_t>& times) {
  std::string out = transcript_of(c.dispute, moves);
  out += receipt_line(c.dispute.challenge.id, times[0]);
  for (std::size_t i = 0; i < moves.size() && i + 1 < times.size(); ++i)
    out += receipt_line(moves[i].id, times[i + 1]);
  return out;
}

}  // namespace

TEST_CASE("two moves for one turn convict their signer, whoever wins otherwise") {
  Case c;
  for (std::size_t turn = 0; turn + 1 < c.moves.size(); ++turn) {
    const auto game = game_after(c.dispute, c.first(turn));
    const auto other = instead(game, protocol::Accept{});
    const bool defends = turn % 2 == 0;
    const std::string expected = defends ? "two-moves falls" : "two-moves stands";
    // Directly after the first, or after others have answered it.
    CHECK(outcome(transcript_of(c.dispute, c.first(turn + 1)) + line(other)) == expected);
    const std::size_t later = std::min(turn + 3, c.moves.size() - 1);
    CHECK(outcome(transcript_of(c.dispute, c.first(later)) + line(other)) == expected);
  }
}

TEST_CASE("the same move twice, or signed again with the same words, is no second move") {
  Case c;
  const auto again = manifest::seal(c.moves[0].body, key(kProver));
  REQUIRE(again.ok());
  CHECK(again->id == c.moves[0].id);
  CHECK(outcome(transcript_of(c.dispute, c.first(2)) + line(*again)) == "refused");
}

TEST_CASE("a fork that a side was drawn into convicts who drew it, not who answered both branches") {
  Case c;
  const auto defender = game_after(c.dispute, c.first(1));
  REQUIRE(defender.due().side == Side::kChallenger);
  // The challenger makes two different moves in turn 2 and shows each to the defender separately, who answers
  // both.
  const auto fork = instead(defender, protocol::Name{0, std::nullopt});
  REQUIRE(fork.id != c.moves[1].id);
  const Moves other{c.moves[0], fork};
  auto game = protocol::Game::open(c.dispute);
  REQUIRE(game.ok());
  REQUIRE(game->apply(c.moves[0]).ok());
  REQUIRE(game->apply(fork).ok());
  if (game->decision()) return;
  const auto answer = instead(*game, protocol::print_message(protocol::Accept{}));
  CHECK(outcome(transcript_of(c.dispute, c.first(3)) + line(answer)) == "refused");
  CHECK(outcome(transcript_of(c.dispute, c.first(3)) + line(fork) + line(answer)) == "two-moves stands");
}

TEST_CASE(
    "moves in another's name, out of turn, or of another place in the game never hurt who did not sign "
    "them") {
  Case c;
  for (std::size_t turn = 0; turn < c.moves.size(); ++turn) {
    const auto game = game_after(c.dispute, c.first(turn));
    const std::string so_far = transcript_of(c.dispute, c.first(turn));
    const bool defends = turn % 2 == 0;
    const auto& body = c.moves[turn].body;
    // By a stranger; by the verifier, who is not a side here; by the other side.
    CHECK(outcome(so_far + line(*manifest::seal(body, key(kStranger)))) == "refused");
    CHECK(outcome(so_far + line(*manifest::seal(body, key(kJudge)))) == "refused");
    CHECK(outcome(so_far + line(*manifest::seal(body, key(defends ? kChallenges : kProver)))) ==
          (defends ? "out-of-turn stands" : "out-of-turn falls"));
    // With another turn, answering an older statement.
    auto moved = body;
    moved.turn += 2;
    CHECK(outcome(so_far + line(*manifest::seal(moved, key(defends ? kProver : kChallenges)))) ==
          (defends ? "malformed falls" : "malformed stands"));
    moved = body;
    moved.previous = digest("a statement that is not here");
    CHECK(outcome(so_far + line(*manifest::seal(moved, key(defends ? kProver : kChallenges)))) == "refused");
  }
}

TEST_CASE("moves of another game or task are nobody's here") {
  Case c;
  // The same challenge by another signer is another game, in which the defender says the same.
  auto twin = c.dispute;
  twin.challenge = *manifest::seal(c.dispute.challenge.body, key(kStranger));
  auto game = protocol::Game::open(twin);
  REQUIRE(game.ok());
  const auto foreign = instead(*game, c.moves[0].body.say, kProver);
  CHECK(outcome(c.head() + line(foreign)) == "refused");
  // A move of another task, even though it names this game.
  auto body = c.moves[0].body;
  body.task = digest("another task");
  CHECK(outcome(c.head() + line(*manifest::seal(body, key(kProver)))) == "refused");
}

TEST_CASE("a challenge stands on its own task, proof, verdict, row and segment, or is void") {
  Case c;
  const auto void_with = [&](auto edit) {
    auto dispute = about_verdict(c.honest, c.cheat);
    auto challenge = dispute.challenge.body;
    edit(dispute, challenge);
    dispute.challenge = *manifest::seal(challenge, key(kChallenges));
    return outcome(transcript_of(dispute, {}));
  };
  using protocol::Dispute;
  CHECK(void_with([](Dispute&, manifest::Challenge&) {}) == "open");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.task = digest("other"); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.proof = digest("other"); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.verdict = digest("other"); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.segment = 1; }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.segment = 1 << 24; }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.start.digest = digest("other"); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { std::swap(x.start, *x.end); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.end->path.pop_back(); }) == "refused");
  CHECK(void_with([](Dispute&, manifest::Challenge& x) { x.row->row.witness = digest("other"); }) ==
        "refused");
  CHECK(void_with([&](Dispute& d, manifest::Challenge&) { d.verdict.reset(); }) == "refused");
  CHECK(void_with([&](Dispute& d, manifest::Challenge&) { d.proof = c.dispute.proof; }) == "refused");
}

TEST_CASE("no damage to a transcript changes who loses: it is refused, open, or rules the same") {
  Case c;
  const std::string whole = c.whole();
  const std::string right = outcome(whole);
  REQUIRE(right == "claim falls");
  Dice dice(3);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = whole.find('\n', at) + 1;
    lines.push_back(whole.substr(at, end - at));
    at = end;
  }
  const auto joined = [](const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& part : parts) out += part;
    return out;
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto cut = lines;
    cut.resize(i);
    CHECK((outcome(joined(cut)) == "open" || outcome(joined(cut)) == "refused"));
    auto without = lines;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string gap = outcome(joined(without));
    CHECK((gap == "refused" || (gap == "open" && i + 1 == lines.size())));
    auto twice = lines;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    CHECK(outcome(joined(twice)) == "refused");
    if (i == 0) continue;
    auto swapped = lines;
    std::swap(swapped[i], swapped[i - 1]);
    CHECK(outcome(joined(swapped)) == "refused");
  }
  for (int i = 0; i < 400; ++i) {
    std::string flipped = whole;
    flipped[static_cast<std::size_t>(dice.below(std::ssize(whole)))] ^= static_cast<char>(1 << dice.below(7));
    CHECK(outcome(flipped) == "refused");
  }
}

TEST_CASE("what is said after the end counts for nothing") {
  Case c;
  const auto game = game_after(c.dispute, c.moves);
  const auto after = instead(game, protocol::Accept{}, kChallenges);
  CHECK(outcome(c.whole() + line(after)) == "claim falls");
}

TEST_CASE("a transcript is judged by what it says: nobody is late, and who leaves out moves has no ruling") {
  Case c;
  for (std::size_t count = 0; count <= c.moves.size(); ++count) {
    const Moves moves = c.first(count);
    const std::string expected = count < c.moves.size() ? "open" : "claim falls";
    std::vector<std::int64_t> times;
    for (std::size_t i = 0; i <= count; ++i) times.push_back(static_cast<std::int64_t>(i) * 100 * c.window());
    const std::string logged = with_receipts(c, moves, times);
    CHECK(outcome(logged) == expected);
    CHECK(outcome(logged, ledger_operator()) == expected);
    CHECK(outcome(logged + head_line(1'000 * c.window()), ledger_operator()) ==
          "refused");  // clocks don't belong here
    CHECK(outcome(logged + head_line(1'000 * c.window())) == "refused");
  }
}

TEST_CASE("receipts of a stranger or of another ledger are no receipts") {
  Case c;
  const Moves moves = c.first(2);
  const std::string logged = with_receipts(c, moves, {0, 1, 2});
  const Digest& answered = moves[1].id;
  CHECK(outcome(logged + receipt_line(answered, 0, kStranger), ledger_operator()) == "refused");
  CHECK(outcome(logged + receipt_line(answered, 0, kStranger)) == "open");  // no operator was named
  CHECK(outcome(logged + receipt_line(answered, 0, kLedgerOperator, digest("another ledger")),
                ledger_operator()) == "refused");
  CHECK(outcome(receipt_line(answered, 0) + logged, ledger_operator()) == "refused");
}

TEST_CASE("a move of somebody else does not cost the side at turn its own") {
  Case c;
  auto body = c.moves[0].body;
  const auto stranger = *manifest::seal(body, key(kStranger));
  const auto other_game = [&] {
    auto twin = c.dispute;
    twin.challenge = *manifest::seal(c.dispute.challenge.body, key(kStranger));
    return instead(*protocol::Game::open(twin), c.moves[0].body.say, kProver);
  }();
  for (const auto& other : {stranger, other_game})
    CHECK(outcome(c.head() + line(other) + line(c.moves[0]), ledger_operator()) == "refused");
}

TEST_CASE("a malformed move convicts its signer, whatever it is made of, and the ruling can be signed") {
  Case c;
  const auto game = game_after(c.dispute, {});
  const auto deep = [](int depth) {
    json::Value value = json::Object{};
    for (int i = 0; i < depth; ++i) value = json::Array{value};
    return value;
  };
  const std::string long_text(40'000, 'x');
  const std::string base64(43'692, 'A');  // 1,024 digests
  std::vector<json::Object> says = {
      {},
      {{"kind", "states"}},
      {{"kind", long_text}},
      {{"kind", "\x01\n\x7f caf\xc3\xa9"}},  // a ruling's words are printable ASCII
      {{"kind", "states"}, {"digests", long_text}},
      {{"kind", "states"}, {"digests", base64}},
      {{"kind", "states"}, {"digests", ""}},
      {{"kind", "states"}, {"digests", ""}, {long_text, "1"}},
      {{"kind", "states"}, {"digests", std::int64_t{1} << 53}},
      {{"kind", "states"}, {"digests", deep(3)}},
      {{"kind", "numbers"}, {"numbers", base64}},
      {{"kind", "entries"}, {"count", std::int64_t{1} << 53}, {"nodes", ""}, {"root", digest("x").hex()}},
      {{"kind", "entries"}, {"count", -1}, {"nodes", ""}, {"root", digest("x").hex()}},
      {{"kind", "tensor"}, {"bytes", base64}},
      {{"kind", "name"}, {"index", 0}},
      {{"kind", "claim"},
       {"claim", "d"},
       {"index", 0},
       {"operands", json::Array(97, json::Value(json::Object{}))}},
      {{"kind", "claim"}, {"claim", "z"}},
  };
  for (const auto& message : says) {
    INFO(json::Value(message).dump().substr(0, 100));
    CHECK(outcome(c.head() + line(instead(game, message))) == "malformed falls");
  }
  // Nested deeper, or longer, than any statement may be: not a statement, and convicts nobody.
  manifest::Move move{
      c.scene.task.id, c.dispute.challenge.id, 1, c.dispute.challenge.id, {{"kind", deep(9)}}};
  CHECK_FALSE(manifest::seal(move, key(kProver)).ok());
  move.say = {{"kind", std::string(70'000, 'x')}};
  CHECK_FALSE(manifest::seal(move, key(kProver)).ok());
}

TEST_CASE("a flood of moves, lines or bytes ends in a refusal, soon") {
  Case c;
  const auto begin = std::chrono::steady_clock::now();
  std::string flood = c.whole();
  const auto game = game_after(c.dispute, c.moves);
  for (int i = 0; i < 1'100; ++i) {
    auto body = c.moves[1].body;
    body.turn = 1 + i % 256;
    body.say = {{"kind", fmt::format("flood {}", i)}};
    flood += line(*manifest::seal(body, key(kStranger)));
  }
  CHECK(outcome(flood) == "refused");
  CHECK(outcome(c.whole() + std::string(std::size_t{8} << 20, '\n')) == "refused");
  CHECK(outcome(std::string(std::size_t{8} << 20, '[')) == "refused");
  CHECK(outcome("") == "refused");
  CHECK(outcome("\n") == "refused");
  auto body = c.moves[0].body;
  body.turn = 257;
  CHECK_FALSE(manifest::seal(body, key(kProver)).ok());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes(5));
}

TEST_CASE("a demanded chunk is answered by the part itself, and only by it") {
  Case c;
  auto dispute = about_proof(c.honest);
  manifest::Challenge challenge = dispute.challenge.body;
  challenge.about = manifest::About::kChunk;
  challenge.segment = 1;
  challenge.start = *dispute.challenge.body.end;
  challenge.end.reset();
  const std::int64_t value = to_number(*program::find_state_input(c.scene.program, "model/w"));
  const auto opened = [&](std::int64_t v) { return opened_line(c.scene.program, v); };
  challenge.chunk = manifest::ChunkReference{opened(value), 0};
  dispute.challenge = *manifest::seal(challenge, key(kChallenges));
  const auto game = game_after(dispute, {});
  const auto entries = *c.honest.entries(2);
  protocol::ChunkPost answer;
  answer.entry = *merkle::open_entry(entries, "model/w");
  answer.location = std::string(1'024, 'u');
  answer.root = merkle::tensor_part_root((*c.honest.entry(2, "model/w")).bytes(), 0);
  const auto said = [&](const protocol::ChunkPost& post) {
    const auto move = instead(game, post);
    return outcome(transcript_of(dispute, {move}) + receipt_line(move.id, 5), ledger_operator());
  };
  CHECK(said(answer) == "claim stands");
  CHECK(outcome(transcript_of(dispute, {instead(game, answer)})) == "open");  // nobody has fetched the chunk
  const auto unseen = instead(game, answer);
  CHECK(outcome(transcript_of(dispute, {unseen}) + receipt_line(dispute.challenge.id, 5),
                ledger_operator()) == "open");
  auto lie = answer;
  lie.root = digest("another part");
  CHECK(said(lie) == "post falls");
  lie = answer;
  lie.entry = *merkle::open_entry(entries, "model/n");
  CHECK(said(lie) == "post falls");
  lie = answer;
  lie.entry = *merkle::open_entry(*c.honest.entries(0), "model/w");
  CHECK(said(lie) == "post falls");
  // A piece that does not exist cannot be demanded.
  const auto demanded = [&](const manifest::ChunkReference& chunk) {
    challenge.chunk = chunk;
    dispute.challenge = *manifest::seal(challenge, key(kChallenges));
    return outcome(transcript_of(dispute, {}));
  };
  CHECK(demanded({opened(value), 0}) == "open");
  CHECK(demanded({opened(value), 1}) == "refused");
  CHECK(demanded({opened(value), std::int64_t{1} << 53}) == "refused");
  CHECK(demanded({opened(8), 0}) == "refused");
  auto forged = opened(value);
  forged.text.replace(forged.text.find("model/w"), 7, "model/x");
  CHECK(demanded({forged, 0}) == "refused");
}
