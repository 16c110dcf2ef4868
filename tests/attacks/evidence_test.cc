// dgx-threats(7), rows 8, 12 and 29: evidence that is wrong, excessive or incomplete, and programs that lie.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"
#include "dgx/protocol/opened_tree.h"
#include "ruled_games.h"

using namespace dgx;
using namespace dgx::test;
using protocol::Operand;
using protocol::OperationClaim;
using Kind = Fault::Kind;

namespace {

/// A game that a liar has played against an honest solver up to a claim about `value`: everything except the
/// claim.
struct Brought {
  protocol::Dispute dispute;
  Moves moves;
  OperationClaim claim;  ///< the liar's own
};

std::optional<Brought> brought(TinyParty& honest, std::int64_t value, int bit) {
  TinyParty liar(small(), {fault(Kind::kValue, 1, value, 0, bit)}, &honest);
  Brought out;
  out.dispute = about_proof(honest);
  Played played = play(small(), out.dispute, honest, liar, true);
  // The liar names what the honest replay gives; if the lie leaves no trace, the liar is silent.
  if (!played.game.decision()) return std::nullopt;
  out.moves = std::move(played.moves);
  const auto message = protocol::parse_message(out.moves.back().body.say);
  if (!message.ok() || !std::holds_alternative<OperationClaim>(*message)) return std::nullopt;
  out.claim = std::get<OperationClaim>(*message);
  out.moves.pop_back();
  return out;
}

/// The outcome for the honest solver if the challenger makes this claim instead.
std::string claimed(const Brought& game, const OperationClaim& claim) {
  const auto after = game_after(game.dispute, game.moves);
  Moves moves = game.moves;
  moves.push_back(instead(after, claim));
  const auto ruling = ruled(transcript_of(game.dispute, moves));
  REQUIRE(ruling.ok());
  INFO(ruling->words);
  CHECK_FALSE(ruling->falls);
  return std::string(manifest::name_of(ruling->reason)) + (ruling->scalar ? " judged" : "");
}

/// An additional operand, opened in the honest solver's table.
Operand opened(TinyParty& honest, std::int64_t value, std::uint64_t leaf) {
  std::vector<Digest> table = *honest.values(1);
  for (Digest& digest : table) digest = merkle::value_leaf(digest);
  const Tensor tensor = *honest.value(1, kernels::ValueIndex(value));
  Operand out;
  out.value = value;
  out.dtype = tensor.dtype();
  out.shape = tensor.shape();
  out.table = *merkle::inclusion_path(table, static_cast<std::uint64_t>(value));
  const auto opening = *merkle::open_tensor(tensor.view(), leaf);
  out.leaf = static_cast<std::int64_t>(leaf);
  out.bytes = opening.data;
  out.path = opening.path;
  return out;
}

}  // namespace

TEST_CASE("no evidence convicts an honest solver: other leaves, too much, too little, lying types") {
  TinyParty honest(small());
  Dice dice(5);
  int games = 0;
  for (std::int64_t value = 8; value <= 18; ++value) {
    for (const int bit : {0, 5, 12, 20, 22, 24, 26, 30}) {
      const auto game = brought(honest, value, bit);
      if (!game) continue;
      ++games;
      const auto& operands = game->claim.operands;
      CHECK(claimed(*game, game->claim) == "claim judged");
      CHECK(claimed(*game, {game->claim.index, {}}) == (operands.empty() ? "claim judged" : "claim"));
      CHECK(claimed(*game, {game->claim.index + 100'000, operands}) == "malformed");
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const auto with = [&](auto edit) {
          OperationClaim claim = game->claim;
          edit(claim.operands[i]);
          return claimed(*game, claim);
        };
        auto less = game->claim;
        less.operands.erase(less.operands.begin() + static_cast<std::ptrdiff_t>(i));
        CHECK(claimed(*game, less) == "claim");
        auto twice = game->claim;
        twice.operands.push_back(operands[i]);
        CHECK(claimed(*game, twice) == "claim judged");
        // In place of another value or leaf; with another byte, path, type or shape.
        with([&](Operand& x) { x.value = (x.value + 1) % 18; });
        with([&](Operand& x) { x.value = std::int64_t{1} << 53; });
        with([&](Operand& x) { x.leaf += 1; });
        with([&](Operand& x) { x.leaf = std::int64_t{1} << 53; });
        if (!operands[i].bytes.empty()) {
          CHECK(with([&](Operand& x) { x.bytes[0] ^= 1; }) == "claim");
          CHECK(with([&](Operand& x) { x.bytes.pop_back(); }) == "claim");
          CHECK(with([&](Operand& x) { x.bytes.assign(1'024, 0); }) == "claim");
          CHECK(with([&](Operand& x) { x.path.push_back(digest("more")); }) == "claim");
          CHECK(with([&](Operand& x) { x.shape = {1, 1, *element_count(x.shape)}; }) == "claim");
        }
        with([&](Operand& x) { x.shape = {1, *element_count(x.shape)}; });
        with([&](Operand& x) { x.shape = {std::int64_t{1} << 53}; });
        with([&](Operand& x) { x.dtype = x.dtype == DType::kF32 ? DType::kI64 : DType::kF32; });
        if (operands[i].table) {
          // Only declared: whatever type and shape it is given, nothing can be read from it.
          for (const Shape& shape : {operands[i].shape, Shape{}, Shape{1}, Shape{2}, Shape{7, 3}}) {
            with([&](Operand& x) {
              x.table.reset();
              x.root.reset();
              x.bytes.clear();
              x.path.clear();
              x.leaf = 0;
              x.shape = shape;
            });
          }
          // Type and shape of the right value, but not its numbers.
          with([&](Operand& x) {
            x.root = merkle::root_of(
                merkle::tensor_leaves((*honest.value(1, kernels::ValueIndex(x.value))).bytes()));
          });
        }
      }
      OperationClaim more = game->claim;
      for (std::int64_t v = 0; v < 12; ++v) more.operands.push_back(opened(honest, v, 0));
      CHECK(claimed(*game, more) == "claim judged");
      more.operands.resize(97, more.operands.front());
      CHECK(claimed(*game, more) == "malformed");
      // More than 16 KiB in total, though each operand is valid.
      OperationClaim much = game->claim;
      for (int i = 0; i < 90; ++i) much.operands.push_back(opened(honest, 7, 0));
      if (much.operands.size() <= 96) claimed(*game, much);
      OperationClaim shuffled = game->claim;
      for (std::size_t i = 1; i < shuffled.operands.size(); ++i)
        std::swap(shuffled.operands[i],
                  shuffled.operands[static_cast<std::size_t>(dice.below(std::ssize(shuffled.operands)))]);
      CHECK(claimed(*game, shuffled) == "claim judged");
    }
  }
  CHECK(games > 20);
}

TEST_CASE("batches are judged by the sample that the task's order gives, whatever else is opened") {
  TinyParty honest(small());
  for (const std::string_view field : {"x", "y"}) {
    const std::int64_t value = field == "x" ? 3 : 4;
    const auto dispute = about_proof(honest);
    // The liar also objects to the end state: a dropped number may leave no trace in it.
    TinyParty liar(small(), {fault(Kind::kValue, 1, value, 1, 1), fault(Kind::kEntry, 1, 3)}, &honest);
    Moves moves = play(small(), dispute, honest, liar, true).moves;
    REQUIRE(!moves.empty());
    const auto message = protocol::parse_message(moves.back().body.say);
    REQUIRE(message.ok());
    REQUIRE(std::holds_alternative<protocol::InputClaim>(*message));
    moves.pop_back();
    const auto game = game_after(dispute, moves);
    const auto check = [&](auto edit) {
      auto claim = std::get<protocol::InputClaim>(*message);
      edit(claim);
      auto all = moves;
      all.push_back(instead(game, claim));
      const auto ruling = ruled(transcript_of(dispute, all));
      REQUIRE(ruling.ok());
      CHECK_FALSE(ruling->falls);
    };
    using Claim = protocol::InputClaim;
    check([](Claim&) {});
    check([](Claim& x) { x.data.reset(); });
    check([](Claim& x) { x.data->tensor.data[0] ^= 1; });
    check([](Claim& x) { x.data->tensor.leaf += 1; });
    check([](Claim& x) { x.data->entry.index ^= 1; });
    check([](Claim& x) { x.data->entry.count = 3; });
    check([](Claim& x) { x.data->entry.name = x.data->entry.name == "x" ? "y" : "x"; });
    check([](Claim& x) { x.data->scales = digest("other scales"); });
    check([&](Claim& x) { x.data = *honest.data(field == "x" ? "y" : "x", 0); });
    check([](Claim& x) { x.data->tensor.shape = {37, 1, 4}; });
    for (std::int64_t index = 0; index < 9; ++index) check([&](Claim& x) { x.index = index; });
  }
}

namespace {

/// An all-zero tensor of a type and shape. Its tree's nodes follow level by level, however large it is.
struct Zeros {
  explicit Zeros(const Result<kernels::Primitive>& line) {
    if (line.ok()) dtype = line->dtype;
    if (line.ok()) shape = line->shape;
    const std::int64_t elements = element_count(shape).ok() ? *element_count(shape) : 2;
    const auto bytes = static_cast<std::uint64_t>(elements) * size_of(dtype);
    leaves = merkle::tensor_leaf_count(bytes);
    last_leaf.assign(leaves == 1 ? bytes : 1'024, 0);
    digest = merkle::tensor_digest(dtype, shape, root(leaves));
  }

  [[nodiscard]] Digest root(std::uint64_t below) const {
    Digest out = merkle::leaf_hash(last_leaf);
    for (std::uint64_t size = 1; size < below; size *= 2) out = merkle::node_hash(out, out);
    return out;
  }
  [[nodiscard]] std::vector<Digest> nodes(const protocol::Node& node) const {
    return {node.children(), root(node.child_size())};
  }
  /// Opens the tensor as value `value` of a table of `lines` such tensors.
  [[nodiscard]] Operand operand(std::int64_t value, std::size_t lines) const {
    Operand out;
    out.value = value;
    out.dtype = dtype;
    out.shape = shape;
    out.table = *merkle::inclusion_path(std::vector<Digest>(lines, merkle::value_leaf(digest)),
                                        static_cast<std::uint64_t>(value));
    out.bytes = last_leaf;
    for (std::uint64_t size = 1; size < leaves; size *= 2) out.path.push_back(root(size));
    return out;
  }

  DType dtype = DType::kF32;
  Shape shape{2};
  std::uint64_t leaves = 1;
  Bytes last_leaf;
  Digest digest;
};

/// The honest solver's dispute, but over a program of these lines.
protocol::Dispute about_lines(const std::vector<Digest>& leaves) {
  TinyParty honest(small());
  auto dispute = about_proof(honest);
  manifest::Task task = dispute.task.body;
  task.program = {merkle::root_of(leaves), std::ssize(leaves)};
  dispute.task = *manifest::seal(task, key(2));
  manifest::Proof proof = dispute.proof.body;
  proof.task = dispute.task.id;
  dispute.proof = *manifest::seal(proof, key(kProver));
  manifest::Challenge challenge = dispute.challenge.body;
  challenge.task = dispute.task.id;
  challenge.proof = dispute.proof.id;
  dispute.challenge = *manifest::seal(challenge, key(kChallenges));
  return dispute;
}

protocol::NumbersPost zero_numbers(const protocol::FoldLevels& fold, DType dtype) {
  const kernels::Running zero{
      dtype == DType::kF32 ? kernels::Number::of(0.0F) : kernels::Number::of(std::int64_t{0}), 0};
  return {*fold.compose([&](const protocol::FoldList& list) {
    return Result<std::vector<kernels::Running>>(
        std::vector<kernels::Running>(static_cast<std::size_t>(list.count()), zero));
  })};
}

/// The messages of accomplices: the solver shows invented numbers, and the challenger always names the first
/// thing.
protocol::Message message_of_accomplices(const protocol::Game& game, const manifest::OpenedLine& line,
                                         std::size_t lines, const Zeros& zeros) {
  if (game.stage<protocol::ShowStates>())
    return protocol::StatesPost{
        std::vector<Digest>(static_cast<std::size_t>(game.state().steps() - 1), digest("state"))};
  if (game.stage<protocol::ShowValues>()) {
    const std::vector<Digest> hashes(lines, merkle::value_leaf(zeros.digest));
    return protocol::ValuesPost{merkle::root_of(hashes), std::vector<Digest>(lines, zeros.digest)};
  }
  if (game.stage<protocol::ChooseValue>()) return protocol::Name{line.index, line};
  if (game.stage<protocol::ShowTensor>()) {
    if (zeros.leaves == 1) return protocol::TensorPost{std::nullopt, {}, zeros.last_leaf};
    return protocol::TensorPost{zeros.root(zeros.leaves), zeros.nodes({0, zeros.leaves}), {}};
  }
  if (const auto* stage = game.stage<protocol::ShowTensorNodes>())
    return protocol::NodesPost{zeros.nodes(stage->named.node)};
  if (game.stage<protocol::ShowLeaf>()) return protocol::LeafPost{zeros.last_leaf};
  if (const auto* stage = game.stage<protocol::ShowNumbers>()) return zero_numbers(stage->fold, zeros.dtype);
  if (const auto* stage = game.stage<protocol::ChooseElement>()) {
    if (stage->value.line.kind == kernels::Kind::kInput) return protocol::InputClaim{0, std::nullopt};
    if (stage->value.line.kind == kernels::Kind::kMap)
      return OperationClaim{0, {zeros.operand(line.index, lines)}};
  }
  const auto* stage = game.stage<protocol::ChooseNumber>();
  if (stage != nullptr && stage->fold.at_position())
    return OperationClaim{0, {zeros.operand(line.index, lines)}};
  return protocol::Name{0, std::nullopt};
}

/// The outcome of a game that two accomplices play over a program of hostile lines.
std::string played_over(const std::vector<std::string>& lines, std::int64_t value) {
  std::vector<Digest> leaves;
  for (const std::string& line : lines) leaves.push_back(merkle::leaf_hash(as_bytes(line)));
  const auto dispute = about_lines(leaves);
  const std::string& text = lines[static_cast<std::size_t>(value)];
  const manifest::OpenedLine line{value, *merkle::inclusion_path(leaves, static_cast<std::uint64_t>(value)),
                                  text};
  const Zeros zeros(program::parse_line(text, kernels::ValueIndex(value)));
  auto game = game_after(dispute, {});
  Moves moves;
  for (int turn = 0; turn < 60 && !game.decision(); ++turn) {
    moves.push_back(instead(game, message_of_accomplices(game, line, lines.size(), zeros)));
    REQUIRE(game.apply(moves.back()).ok());
  }
  const auto ruling = ruled(transcript_of(dispute, moves));
  if (!ruling.ok()) return ruling.error().message;
  return std::string(manifest::name_of(ruling->reason)) + ": " + ruling->words;
}

}  // namespace

TEST_CASE("hostile lines of a program end a game soon, with a ruling that can be signed") {
  const std::string huge = fmt::format("{}", std::int64_t{1} << 53);
  const std::vector<std::string> hostile = {
      R"({"f":[)" + huge + R"(],"k":"sum","s":[2],"t":"f32","v":0,"x":["0[k0]"]})",
      R"({"f":[)" + huge + R"(],"k":"dot","s":[2],"t":"f32","v":0,"x":["0[k0]","0[k0]"]})",
      R"({"k":"map","s":[)" + huge + R"(],"t":"i64","v":0,"x":["0[i0]"]})",
      R"({"k":"map","s":[)" + huge + "," + huge + R"(],"t":"i64","v":0,"x":["0[i0]"]})",
      R"({"k":"map","s":[0],"t":"i64","v":0,"x":["0[i0]"]})",
      R"({"f":[)" + huge + R"(],"k":"argmax","s":[2],"t":"i64","v":0,"x":["0[k0]"]})",
      R"({"f":[)" + huge + R"(],"init":"0","k":"chain","s":[)" + huge + R"(],"t":"i64","v":0,"x":["0[k0]"]})",
      R"({"f":[)" + huge + R"(],"k":"sum","s":[)" + huge + R"(],"t":"i64","v":0,"x":["0[k0]"]})",
      R"({"f":[)" + huge + R"(],"k":"dot","s":[2],"t":"i64","v":0,"x":["0[0]","0[0]"]})",
      R"({"do":["imod x0 0","idiv x0 0","add t0 t1"],"k":"map","s":[2],"t":"i64","v":0,)"
      R"("x":["0[9223372036854775807i0-1]?0"]})",
      R"({"k":"map","s":[2],"t":"f32","v":0,"x":["65535[i0]"]})",
      R"({"k":"map","s":[2],"t":"f32","v":0,"x":[]})",
      R"({"k":"map","s":[2],"t":"f32","v":1,"x":["0[i0]"]})",
      R"({"f":[0],"init":"0x0p0","k":"chain","s":[2],"t":"f32","v":0,"x":["0[k0]"]})",
      R"({"k":"input","s":[2],"src":"batch x","t":"f32","v":0})",
      R"({"k":"input","s":[2],"src":"uniform 99999999999","t":"f32","v":0})",
      R"({"k":"input","of":["lr"],"s":[1000000],"src":"schedule","t":"f32","v":0})",
      R"({"k":"input","of":["nothing"],"s":[1],"src":"schedule","t":"f32","v":0})",
      R"({"k":"input","next":65535,"s":[2],"src":"state loss","t":"f32","v":0})",
      "",
      "{",
      "null",
      std::string(3'000, '['),
      std::string(3'000, ' '),
      "{\"k\":\"\x01\"}",
  };
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& line : hostile) {
    const std::string outcome = played_over({line}, 0);
    INFO(line.substr(0, 80) << " -> " << outcome);
    CHECK(!outcome.empty());
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes(5));
}
