// A market's rules against people who sign anything. In four bytes each, the input says which statement comes
// next (of two tasks, one of them cheated in, or of any kind), by whom, with which member changed, and when.
// A refused statement changes nothing, money is neither created nor lost, reserved room grows by no more than
// announced, and what was accepted gives the same market when replayed and read back from a ledger.

#include <algorithm>
#include <array>

#include "../unit/protocol/game.h"
#include "dgx/ledger/ledger.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/settlement.h"
#include "scratch.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::manifest;
using fuzz::require;
using test::any;

namespace {

using Statement = Signed<Body>;

/// One step of an input; seeds consist of them.
struct Op {
  std::uint8_t what = 0;
  std::uint8_t change = 0;  ///< 0: unchanged; else its low half gives the signer, its high half the change
  std::uint8_t when = 0;
  std::uint8_t extra = 0;
};

/// Milliseconds until the next statement: the edges of the windows (1,000 and 400), of a heartbeat, and a
/// broken clock.
constexpr std::array<std::int64_t, 14> kLater{0,   0,     0,     0,       1,         399,       401,
                                              999, 1'000, 1'001, 120'001, 3'600'000, 1LL << 50, -1};
constexpr std::uint8_t kPeople = 8;  // keys 1 (the operator) to 8

Statement sealed(const Body& body, std::uint8_t who) { return *seal_any(body, test::key(who)); }

bool is_digest(const std::string& text) { return digest_from_hex(text).ok(); }

/// `text` with every occurrence of `word` replaced by `other`, of the same length.
std::string with(std::string text, const std::string& word, const std::string& other) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size()))
    text.replace(at, word.size(), other);
  return text;
}

/// Statements of the two runs, in the order in which an honest market sees them, and one of every kind.
struct Book {
  std::vector<test::TinyRun> runs;
  std::vector<Statement> pages;

  Book() {
    using test::TinyExecutor;
    runs = {test::tiny_run("honest"),
            test::tiny_run("crooked", TinyExecutor(TinyExecutor::Lie::kWrongStep, 57))};
    pages.push_back(sealed(test::ledger_policy(), 1));
    for (std::uint8_t who = 2; who <= kPeople; ++who)
      pages.push_back(sealed(Deposit{test::key_id(who), 10'000, "first", test::ledger_id()}, 1));
    for (const test::TinyRun& run : runs) add(run);
    for (const Body& body : test::bodies()) pages.push_back(of_first_run(body));
    add_audited();
  }
  /// Another market, which draws verifiers, audits their verdicts and forces errors: what is signed there
  /// before its rounds.
  /// The jackpot is filled by those who lose bonds.
  void add_audited() {
    Policy policy = test::policy();
    policy.beacon_source = 1;
    policy.beacon_slot_ms = 1'000;
    policy.beacon_steps = 65'536;
    policy.audit_ppm = 1'000'000;
    policy.forced_error_ppm = 1'000'000;
    policy.jackpot = 300;
    audited_from = pages.size();
    const Statement first = sealed(LedgerPolicy{policy, test::digest("nonce of the audited")}, 1);
    pages.push_back(first);
    for (std::uint8_t who = 2; who <= kPeople; ++who)
      pages.push_back(sealed(Deposit{test::key_id(who), 100'000, "first", first.id}, 1));
    const auto in_market = [&](std::uint64_t seed) {
      return test::tiny_run("audited", test::TinyExecutor(), [&](Task& task) {
        task.policy = policy;
        task.ledger = first.id;
        task.seed += seed;
      });
    };
    audited = in_market(0);
    for (const test::TinyRun& run : {in_market(1), audited}) {
      pages.push_back(any(run.task));
      BeaconCommitment offer = test::offer(run).body;
      for (std::uint8_t who = 4; who <= kPeople; ++who) {
        offer.bond = 501 + 100 * who;
        pages.push_back(sealed(offer, who));
      }
      Assign assign = test::assignment(run).body;
      assign.commitment.reset();
      pages.push_back(sealed(assign, test::kSolver));
    }
    pages.push_back(any(audited.proof));
    pages.push_back(any(test::delivery(audited)));
  }
  test::TinyRun audited;
  std::size_t audited_from = 0;  ///< its first page
  /// A body of any kind, sealed, about the first run as far as replacing digests of words allows.
  [[nodiscard]] Statement of_first_run(const Body& body) const {
    const crypto::SecretKey key = test::key(test::kVerifier);
    std::string text = payload_of(body, key.public_key());
    for (const auto& [word, id] :
         {std::pair("task", runs[0].task.id), std::pair("proof", runs[0].proof.id),
          std::pair("beacon", runs[0].beacon.id), std::pair("ledger", test::ledger_id())})
      text = with(std::move(text), test::digest(word).hex(), id.hex());
    auto opened = open_any(*sign(text, key));
    return opened.ok() ? std::move(opened).value() : sealed(body, test::kVerifier);
  }
  void add(const test::TinyRun& run) {
    for (const Statement& one :
         {any(run.task), any(test::offer(run)), any(test::assignment(run)), any(run.proof), any(run.beacon),
          any(test::opening(run)), any(test::opening(run, true))})
      pages.push_back(one);
    const auto verdict = test::verdict(run);
    constexpr std::array<std::int64_t, 10> kAll{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const auto thorough = test::verdict(run, kAll);
    for (const auto& one : {verdict, thorough}) {
      const Digest commitment = verdict_commitment(one.id, one.body.nonce);
      pages.push_back(sealed(VerdictCommitment{run.task.id, run.proof.id, commitment}, test::kVerifier));
      pages.push_back(any(one));
      if (one.body.first_disagreement) pages.push_back(sealed(test::challenge_of(run, one), test::kSolver));
    }
    pages.push_back(any(test::delivery(run)));
    pages.push_back(sealed(test::chunk_challenge(run, 3), test::kSubmitter));
    pages.push_back(sealed(OfferEnd{run.task.id, test::offer(run).id}, test::kVerifier));
    for (const std::int64_t segment : {4, 5})
      pages.push_back(sealed(test::challenge_of(run, segment), test::kSubmitter));
  }
};

const Book& book() {
  static const Book out;
  return out;
}

/// Everything observable about a market, as text.
std::string picture(const protocol::Market& market) {
  std::string out = std::to_string(market.total()) + "@" + std::to_string(market.clock().receipt_now()) +
                    "/" + std::to_string(market.clock().now()) + " " +
                    std::to_string(market.reserved_bytes());
  for (const auto& [account, amount] : market.balances())
    out += "\n" + account + " " + std::to_string(amount);
  for (const auto& [id, record] : market.tasks()) {
    const auto stands = protocol::standing(record, market.clock().now());
    out += "\n" + id.hex() + " " + std::string(name_of(stands.state)) + " " +
           std::to_string(stands.deadline_ms.value_or(-1)) + " " + std::to_string(record.offers.size()) +
           " " + std::to_string(record.profiles.size()) + std::to_string(record.delivered);
    if (record.audit)
      out += " audit " + record.audit->lot.hex() + std::to_string(record.audit->fee) + "/" +
             std::to_string(record.audit->fee_of_task);
    for (const auto& one : record.rechecks)
      out += " " + one.who.hex() + (one.audit ? one.audit->id.hex() : "") + std::to_string(one.bond);
    for (const auto& game : record.games) {
      out += "\n  " + game.id().hex() + " " + std::to_string(game.game.turn()) + " " +
             std::to_string(game.deadline_ms) + " " + std::to_string(game.bond) +
             (game.ruling ? game.ruling->hex() : "");
    }
  }
  for (const Settlement& settlement : market.due(market.clock().receipt_now()))
    out += "\n" + json::Value(settlement.predicate()).dump();
  return out;
}

/// Collects every leaf of a value, in order.
void leaves_of(json::Value& value, std::vector<json::Value*>& out) {
  if (json::Object* object = value.as_object()) {
    for (auto& [key, member] : *object) leaves_of(member, out);
  } else if (json::Array* array = value.as_array()) {
    for (json::Value& item : *array) leaves_of(item, out);
  } else {
    out.push_back(&value);
  }
}

struct Logged {
  Statement statement;
  std::int64_t milliseconds = 0;
};

std::vector<std::int64_t> round_draw(const protocol::TaskRecord& record) {
  const auto segments = *protocol::segments_of(record.task.body, record.proof->body);
  return *protocol::policy_draw(record.task.body, segments, record.round->source.value, record.proof->id, {});
}

/// The rounds that are waited for. Nobody computes a delay here.
std::vector<Statement> rounds_of(const protocol::Market& market, const Digest& ledger) {
  std::vector<Statement> out;
  for (const protocol::WaitingSlot& slot : market.slots_waiting()) {
    DelayChain chain{market.policy()->beacon_steps, {}};
    for (std::int64_t i = 0; i < delay_checkpoints(chain.steps); ++i)
      chain.checkpoints.push_back(test::digest(std::to_string(slot.slot)));
    const Digest value = round_value(chain);
    out.push_back(sealed(Round{ledger, slot.slot, slot.head, std::move(chain), value}, 1));
  }
  return out;
}
/// The secret of whoever gave the verdict, shown by key `by`: its owner, or somebody to whom it was given.
Statement secret_of(const test::TinyRun& run, const protocol::TaskRecord& record, const Digest& owner,
                    std::uint8_t by) {
  const auto& drawn = record.round->drawn;
  const auto found =
      std::find_if(drawn.begin(), drawn.end(), [&](const auto& one) { return one.drawn.verifier == owner; });
  const Digest offer = found == drawn.end() ? Digest{} : found->drawn.offer;
  const Digest secret = test::digest("secret of " + run.task.body.model);
  return sealed(Beacon{run.task.id, offer, run.proof.id, secret, beacon_value(secret, run.proof.id)}, by);
}

/// The next statements after the round of the audited proof: its opening, a verdict, which may be lazy, its
/// secret, which may be given away, audits.
std::vector<Statement> audited_step(const protocol::Market& market, const Op& op) {
  const test::TinyRun& run = book().audited;
  const auto found = market.tasks().find(run.task.id);
  if (found == market.tasks().end() || !found->second.round) return {};
  const protocol::TaskRecord& record = found->second;
  const protocol::DrawSource& round = record.round->source;
  const auto who = static_cast<std::uint8_t>(2 + op.extra % (kPeople - 1));
  const auto by_key = [&](const Digest& key) {
    std::uint8_t out = 1;
    while (out < kPeople && test::key_id(out) != key) ++out;
    return out;
  };
  if (!record.opening)
    return {sealed(Opening{run.task.id, run.proof.id, round.id, "opening"}, test::kSolver)};
  if (!record.verdict) {
    const std::uint8_t verifier = by_key(*protocol::verifier_at(record, market.clock().now()));
    Verdict body = test::replayed(run, round, verifier);
    if (op.extra >= 128) body.witnesses[op.extra % body.witnesses.size()] = test::digest("a guess");
    return {sealed(body, verifier)};
  }
  if (!protocol::is_rechecked(record)) return {};
  if (op.extra % 16 == 15) {
    const Digest& owner = record.verdict->key_id;
    return {secret_of(run, record, owner, op.extra >= 128 ? who : by_key(owner))};
  }
  Verdict audit = test::replayed(run, round, who, &*record.verdict);
  if (op.extra >= 192) audit.denied = {round_draw(record).front()};
  const Statement shown = sealed(audit, who);
  const Digest hidden = verdict_commitment(shown.id, audit.nonce);
  return {sealed(VerdictCommitment{run.task.id, run.proof.id, hidden, record.verdict->id}, who), shown};
}

/// A market and its ledger in memory, driven by an input.
class World {
 public:
  void play(const Op& op) {
    now_ += kLater[op.when % kLater.size()];
    now_ = std::min(now_, std::int64_t{1} << 52);
    for (const Statement& statement : statements_of(op)) {
      const std::optional<Statement> changed = change(statement, op);
      if (changed) take(*changed);
    }
  }

  void check_replay(bool on_disk) const {
    if (entries_.empty()) return;
    protocol::Replay replay;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      replay.take(i, entries_[i].statement, entries_[i].milliseconds);
    const auto again = std::move(replay).finish();
    require(again.ok() && picture(*again) == picture(market_),
            "what was accepted gives the same market again");
    if (!on_disk || entries_[0].statement.key_id != test::key_id(1)) return;
    static const fuzz::Scratch folder;
    const std::string path = folder / "market.jsonl";
    for (const std::string& file : {path, ledger::receipts_path(path)})
      static_cast<void>(::unlink(file.c_str()));
    require(ledger::create(path, entries_[0].statement, test::key(1), entries_[0].milliseconds).ok(),
            "a ledger begins");
    {
      auto writer = ledger::Writer::open(path, test::key(1));
      for (std::size_t i = 1; i < entries_.size(); ++i)
        require(writer->append(entries_[i].statement, entries_[i].milliseconds).ok(),
                "what the rules allow is logged");
    }
    protocol::Replay from_file;
    const auto visit = [&](std::size_t index, const Statement& statement, std::int64_t milliseconds) {
      from_file.take(index, statement, milliseconds);
    };
    require(ledger::read(path, {.visit = visit}).ok(), "what was written is read");
    const auto reread = std::move(from_file).finish();
    require(reread.ok() && picture(*reread) == picture(market_), "the ledger gives the same market");
  }

 private:
  /// Pages of the book, or the statements that follow from the market now.
  [[nodiscard]] std::vector<Statement> statements_of(const Op& op) const {
    const std::size_t pages = book().pages.size();
    if (op.what < pages) return {book().pages[op.what]};
    std::vector<Statement> out;
    switch ((op.what - pages) % 7) {
      case 0:
        for (const Settlement& settlement : market_.due(now_)) out.push_back(sealed(settlement, 1));
        break;
      case 1: {
        if (entries_.empty()) break;
        TreeHead head{entries_[0].statement.id, head_now(), std::max<std::int64_t>(now_, 0)};
        head.pause = market_.is_pause(now_);
        out.push_back(sealed(head, 1));
        break;
      }
      case 2:
        out.push_back(sealed(Withdrawal{test::key_id(1 + op.extra % kPeople).hex(), 1 + op.extra * 40, "out",
                                        test::ledger_id()},
                             static_cast<std::uint8_t>(1 + op.extra % kPeople)));
        break;
      case 3: out = move_of(op); break;
      case 4:
        if (!entries_.empty()) out = rounds_of(market_, entries_[0].statement.id);
        break;
      case 5: out = audited_step(market_, op); break;
      default: {
        const auto& run = book().runs[op.extra % 2];
        const auto who = static_cast<std::uint8_t>(2 + op.extra / 2 % (kPeople - 1));
        out.push_back(sealed(test::challenge_of(run, op.extra / 16 % 10), who));
      }
    }
    return out;
  }
  /// A move of one of the games: one that loses for its side, or the first states.
  [[nodiscard]] std::vector<Statement> move_of(const Op& op) const {
    std::vector<const protocol::GameRecord*> games;
    for (const auto& [id, record] : market_.tasks()) {
      for (const auto& game : record.games) games.push_back(&game);
    }
    if (games.empty()) return {};
    const protocol::Game& game = games[op.extra % games.size()]->game;
    const auto& challenge = game.dispute().challenge;
    if (game.decision()) {
      const auto ruling = game.ruling();
      return ruling.ok() ? std::vector{sealed(*ruling, test::kVerifier)} : std::vector<Statement>{};
    }
    const Digest& party = game.party(game.due().side);
    std::uint8_t who = 1;
    while (who < kPeople && test::key_id(who) != party) ++who;
    if (game.turn() == 1 && op.extra >= 128) return {any(test::states_move(challenge, who))};
    return {any(test::empty_move(challenge, game.turn(), game.last(), who))};
  }

  /// The statement by another key, with one member changed; nullopt if the result is not valid.
  [[nodiscard]] std::optional<Statement> change(const Statement& statement, const Op& op) const {
    if (op.change == 0) return statement;
    const auto who = static_cast<std::uint8_t>(1 + (op.change & 15) % kPeople);
    const crypto::SecretKey key = test::key(who);
    auto value = json::parse(payload_of(statement.body, key.public_key()));
    json::Object& predicate = *value->as_object()->find("predicate")->second.as_object();
    std::vector<json::Value*> leaves;
    for (auto& [name, member] : predicate) {
      if (name != "signer") leaves_of(member, leaves);
    }
    std::string text = value->dump();
    if (op.change >> 4 != 0 && !leaves.empty()) {
      json::Value& leaf = *leaves[op.extra % leaves.size()];
      const json::Value was = leaf;
      leaf = other(was, op);
      // A digest may also occur among the subjects.
      text = was.as_string() != nullptr && is_digest(*was.as_string()) && is_digest(*leaf.as_string())
                 ? with(std::move(text), *was.as_string(), *leaf.as_string())
                 : value->dump();
    }
    const auto envelope = sign(text, key);
    if (!envelope.ok()) return std::nullopt;
    auto opened = open_any(*envelope);
    return opened.ok() ? std::optional(std::move(opened).value()) : std::nullopt;
  }
  [[nodiscard]] json::Value other(const json::Value& value, const Op& op) const {
    const int how = op.change >> 4;
    if (const bool* yes = value.as_bool()) return !*yes;
    if (const std::int64_t* number = value.as_int()) {
      const std::array<std::int64_t, 6> others{*number + 1, *number - 1, 0, 1, 9007199254740992, *number * 2};
      return others[static_cast<std::size_t>(how) % others.size()];
    }
    if (!is_digest(*value.as_string()) || entries_.empty())
      return std::string(1, static_cast<char>('a' + how));
    const Statement& any_entry =
        entries_[static_cast<std::size_t>(op.extra * 7 + how) % entries_.size()].statement;
    return how % 2 == 0 ? any_entry.id.hex() : any_entry.key_id.hex();
  }

  [[nodiscard]] RootReference head_now() const {
    return {tree_.root(), static_cast<std::int64_t>(tree_.size())};
  }

  void take(const Statement& statement) {
    // The rule on tree heads that the ledger enforces, not the market.
    const TreeHead* const head = std::get_if<TreeHead>(&statement.body);
    if (head != nullptr && (entries_.empty() || head->head != head_now())) return;
    const std::string before = picture(market_);
    const auto reserve = market_.reserve_of(statement);
    const std::size_t reserved = market_.reserved_bytes();
    if (!market_.apply(statement, now_).ok()) {
      require(picture(market_) == before, "a refused statement changes nothing");
      now_ = std::max(now_, market_.clock().receipt_now());
      return;
    }
    std::int64_t sum = 0;
    for (const auto& [account, amount] : market_.balances()) {
      require(amount >= 0, "no account is negative");
      sum += amount;
    }
    require(sum == market_.total(), "accounts sum to deposits less withdrawals");
    if (reserve)
      require(market_.reserved_bytes() <= reserved + *reserve, "no more is reserved than was said");
    entries_.push_back({statement, now_});
    tree_.add_hash(merkle::ledger_leaf(statement.id, static_cast<std::uint64_t>(now_)));
  }

  protocol::Market market_;
  std::vector<Logged> entries_;
  merkle::StoredTree tree_;
  std::int64_t now_ = 1'000;
};

}  // namespace

/// The whole book in order, a little time apart, a game, and everything that falls due; and each run alone.
std::vector<std::string> fuzz::seeds() {
  const auto pages = static_cast<std::uint8_t>(book().pages.size());
  const auto text_of_ops = [](const std::vector<Op>& ops) {
    std::string out;
    for (const Op& op : ops) {
      for (const std::uint8_t byte : {op.what, op.change, op.when, op.extra})
        out.push_back(static_cast<char>(byte));
    }
    return out;
  };
  const Op settle{pages, 0, 9, 0}, head{static_cast<std::uint8_t>(pages + 1), 0, 4, 0};
  const Op withdraw{static_cast<std::uint8_t>(pages + 2), 0, 0, 2},
      move{static_cast<std::uint8_t>(pages + 3), 0, 5, 128};
  const Op challenge{static_cast<std::uint8_t>(pages + 6), 0, 0, 67};
  std::vector<std::string> out;
  // An audited market: a bond for the jackpot, then a task up to its audits, honest or lazy.
  for (const std::uint8_t lazy : {std::uint8_t{0}, std::uint8_t{128}}) {
    const auto from = static_cast<std::uint8_t>(book().audited_from);
    const Op round{static_cast<std::uint8_t>(pages + 4), 0, 8, 0};
    const auto next = [&](std::uint8_t when, std::uint8_t extra) {
      return Op{static_cast<std::uint8_t>(pages + 5), 0, when, extra};
    };
    std::vector<Op> ops;
    for (std::uint8_t page = from; page < pages; ++page) {
      const std::size_t at = page - book().audited_from;
      const bool assigns = at == 14 || at == 21;
      if (at == 15) ops.push_back({pages, 0, 9, 0});  // settles the idle task
      ops.push_back({page, 0, static_cast<std::uint8_t>(assigns ? 6 : 0), 0});
    }
    for (const Op& op : {round, next(0, 0), next(0, lazy), round}) ops.push_back(op);
    for (std::uint8_t who = 0; who < kPeople; ++who) ops.push_back(next(0, who));
    if (lazy != 0) ops.push_back(next(0, 143));  // somebody who was given the secret
    ops.push_back(next(9, 0));
    ops.push_back(next(0, 15));  // the secret, in time
    for (std::uint8_t who = 0; who < kPeople; ++who) ops.push_back(next(who == 0 ? 1 : 0, who));
    ops.insert(ops.end(), 3, {pages, 0, 9, 0});
    out.push_back(text_of_ops(ops));
  }
  std::vector<Op> all;
  for (std::uint8_t page = 0; page < pages; ++page) all.push_back({page, 0, 0, 0});
  for (const std::vector<Op>& end :
       {std::vector<Op>{},
        {head, challenge, move, {move.what, 0, 4, 0}, move, settle, withdraw},
        {challenge, challenge, settle, head, settle, {settle.what, 0, 10, 0}, settle, withdraw}}) {
    std::vector<Op> ops = all;
    ops.insert(ops.end(), end.begin(), end.end());
    ops.insert(ops.end(), 4, settle);
    out.push_back(text_of_ops(ops));
    for (Op& op : ops) op.when = 4;
    out.push_back(text_of_ops(ops));
    for (std::size_t i = 0; i < ops.size(); i += 3) ops[i].change = static_cast<std::uint8_t>(17 * i);
    out.push_back(text_of_ops(ops));
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostOps = 200;
  World world;
  for (std::size_t at = 0; at + 4 <= std::min(size, 4 * kMostOps); at += 4)
    world.play({data[at], data[at + 1], data[at + 2], data[at + 3]});
  world.check_replay(size % 16 == 0);
  return 0;
}
