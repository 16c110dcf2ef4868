#include "dgx/manifest/dispute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/manifest/fields.h"
#include "dgx/manifest/proof.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kMaxLineBytes = 3072;
constexpr std::size_t kMaxOperands = 3;
constexpr std::size_t kMaxOperation = 16;
constexpr std::size_t kMaxPlace = 64;
constexpr std::array kAbouts{About::kSegment, About::kWitness, About::kInitial,
                             About::kFinal,   About::kRow,     About::kChunk};
constexpr std::array kReasons{RulingReason::kClaim,     RulingReason::kPost,     RulingReason::kMalformed,
                              RulingReason::kOutOfTurn, RulingReason::kTwoMoves, RulingReason::kLate};

// Challenges.

json::Object committed_json(const CommittedState& state) {
  return {{"digest", state.digest.hex()}, {"path", digests_json(state.path)}};
}

CommittedState read_committed(json::Fields& in) {
  CommittedState out;
  out.digest = read_digest(in, "digest");
  out.path = read_digests(in, "path", kMaxPath);
  return out;
}

ChunkReference read_chunk(json::Fields& in) {
  ChunkReference out;
  out.line = read_object(in, "line", read_opened_line);
  out.part = in.integer("part", 0, kMaxInteger);
  return out;
}

// Checks that exactly those fields are present that belong to the challenge's subject and to the kind of
// statement challenged.
void check_fields(json::Fields& in, const Challenge& challenge) {
  const About about = challenge.about;
  const bool is_of_either = about == About::kSegment;
  const bool is_of_verdict = about == About::kWitness || about == About::kRow;
  if (!is_of_either && is_of_verdict != challenge.verdict.has_value()) {
    in.fail("about",
            fmt::format("\"{}\" applies only to a {}", name_of(about), is_of_verdict ? "verdict" : "proof"));
  }
  // The diverging step has no state after it; only the proof tells which step that is.
  const bool may_lack_end = about == About::kSegment || about == About::kRow || about == About::kInitial;
  if (about == About::kChunk ? challenge.end.has_value() : !challenge.end && !may_lack_end)
    in.fail("end", fmt::format("must {}be present when about is \"{}\"", challenge.end ? "not " : "",
                               name_of(about)));
  if (challenge.row.has_value() != (challenge.verdict.has_value() && about != About::kRow))
    in.fail("row", "must be present if and only if verdict is present and about is not \"row\"");
  if (challenge.chunk.has_value() != (about == About::kChunk))
    in.fail("chunk", "must be present if and only if about is \"chunk\"");
  if (about == About::kInitial && challenge.segment != 0) {
    in.fail("segment", fmt::format("is {}, must be 0 when about is \"initial\"", challenge.segment));
  }
}

// Rulings.

std::string read_bits(json::Fields& in, std::string_view key) {
  std::string text = in.string(key, 18);
  const std::string_view digits = std::string_view(text).substr(std::min<std::size_t>(2, text.size()));
  const bool has_length = digits.size() == 2 || digits.size() == 8 || digits.size() == 16;
  if (!text.starts_with("0x") || !has_length ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    in.fail(key, fmt::format("\"{}\" is not 0x and 2, 8 or 16 lower-case hex digits", text));
  }
  return text;
}

std::optional<std::int64_t> read_optional_integer(json::Fields& in, std::string_view key) {
  if (!in.has(key)) return std::nullopt;
  return in.integer(key, 0, kMaxInteger);
}

void put(json::Object& out, std::string_view key, const std::optional<std::int64_t>& value) {
  if (value) out.emplace(key, *value);
}

DisputePlace read_place(json::Fields& in) {
  DisputePlace out;
  out.segment = in.integer("segment", 0, kMaxInteger);
  out.step = read_optional_integer(in, "step");
  out.value = read_optional_integer(in, "value");
  out.element = read_optional_integer(in, "element");
  out.position = read_optional_integer(in, "position");
  return out;
}

ScalarOperand read_operand(json::Fields& in) {
  ScalarOperand out;
  out.bits = read_bits(in, "bits");
  out.from = read_name(in, "from", kMaxPlace);
  return out;
}

JudgedScalar read_scalar(json::Fields& in) {
  JudgedScalar out;
  out.index = read_optional_integer(in, "index");
  out.operation = read_name(in, "operation", kMaxOperation);
  if (in.has("place")) out.place = read_name(in, "place", kMaxPlace);
  if (out.index.has_value() == out.place.empty())
    in.fail("place", "must be present if and only if `index` is");
  const json::Array& list = in.array("operands", kMaxOperands);
  for (const json::Value& value : list) {
    json::Fields item(value, "operands");
    out.operands.push_back(read_operand(item));
    const Status status = item.finish();
    if (!status.ok()) fail_nested(in, "operands", status.error());
  }
  out.claimed = read_bits(in, "claimed");
  out.result = read_bits(in, "result");
  return out;
}

std::optional<Claim> read_claim(json::Fields& in) {
  if (!in.has("claim")) return std::nullopt;
  const std::string text = in.string("claim", 1);
  if (text.size() == 1 && text[0] >= 'a' && text[0] <= 'h') return static_cast<Claim>(text[0]);
  in.fail("claim", fmt::format("\"{}\" is not one of \"a\" to \"h\"", text));
  return std::nullopt;
}

json::Object scalar_json(const JudgedScalar& scalar) {
  json::Array operands;
  for (const ScalarOperand& operand : scalar.operands) {
    operands.emplace_back(json::Object{{"bits", operand.bits}, {"from", operand.from}});
  }
  json::Object out{{"claimed", scalar.claimed},
                   {"operands", std::move(operands)},
                   {"operation", scalar.operation},
                   {"result", scalar.result}};
  put(out, "index", scalar.index);
  if (!scalar.place.empty()) out.emplace("place", scalar.place);
  return out;
}

}  // namespace

json::Object place_json(const DisputePlace& at) {
  json::Object out{{"segment", at.segment}};
  put(out, "step", at.step);
  put(out, "value", at.value);
  put(out, "element", at.element);
  put(out, "position", at.position);
  return out;
}

OpenedRow read_opened_row(json::Fields& in) {
  OpenedRow out;
  out.index = in.integer("index", 0, kMaxStates);
  out.path = read_digests(in, "path", kMaxPath);
  const auto row = VerdictRow::from_json(in.value("row"));
  if (!row.ok()) {
    fail_nested(in, "row", row.error());
    return out;
  }
  out.row = *row;
  return out;
}

json::Object opened_row_json(const OpenedRow& opened) {
  return {{"index", opened.index}, {"path", digests_json(opened.path)}, {"row", opened.row.to_json()}};
}

OpenedLine read_opened_line(json::Fields& in) {
  OpenedLine out;
  out.index = in.integer("index", 0, kMaxInteger);
  out.path = read_digests(in, "path", kMaxPath);
  out.text = in.string("text", kMaxLineBytes);
  return out;
}

json::Value opened_line_json(const OpenedLine& line) {
  return json::Object{{"index", line.index}, {"path", digests_json(line.path)}, {"text", line.text}};
}

std::string_view name_of(About about) {
  constexpr std::array<std::string_view, kAbouts.size()> kNames{"segment", "witness", "initial",
                                                                "final",   "row",     "chunk"};
  return kNames[static_cast<std::size_t>(about)];
}

json::Object Challenge::predicate() const {
  json::Object out{{"task", task.hex()},
                   {"proof", proof.hex()},
                   {"about", name_of(about)},
                   {"segment", segment},
                   {"start", committed_json(start)}};
  if (verdict) out.emplace("verdict", verdict->hex());
  if (end) out.emplace("end", committed_json(*end));
  if (row) {
    out.emplace("row", opened_row_json(*row));
  }
  if (chunk)
    out.emplace("chunk", json::Object{{"line", opened_line_json(chunk->line)}, {"part", chunk->part}});
  return out;
}

Challenge Challenge::read(json::Fields& in) {
  Challenge out;
  out.task = read_digest(in, "task");
  out.proof = read_digest(in, "proof");
  out.verdict = read_optional_digest(in, "verdict");
  out.about = read_enum(in, "about", kAbouts);
  out.segment = in.integer("segment", 0, kMaxStates);
  out.start = read_object(in, "start", read_committed);
  if (in.has("end")) out.end = read_object(in, "end", read_committed);
  if (in.has("row")) out.row = read_object(in, "row", read_opened_row);
  if (in.has("chunk")) out.chunk = read_object(in, "chunk", read_chunk);
  check_fields(in, out);
  return out;
}

std::vector<Subject> Challenge::subjects() const {
  return {{"statement", statement()}, {"start", start.digest}};
}

json::Object Move::predicate() const {
  return {
      {"task", task.hex()}, {"game", game.hex()}, {"turn", turn}, {"previous", previous.hex()}, {"say", say}};
}

Move Move::read(json::Fields& in) {
  Move out;
  out.task = read_digest(in, "task");
  out.game = read_digest(in, "game");
  out.turn = in.integer("turn", 1, kMaxTurn);
  out.previous = read_digest(in, "previous");
  const json::Value& said = in.value("say");
  if (const json::Object* object = said.as_object()) {
    out.say = *object;
  } else {
    in.fail("say", fmt::format("is {} {}, expected an object", said.as_array() || said.as_int() ? "an" : "a",
                               said.type_name()));
  }
  return out;
}

std::vector<Subject> Move::subjects() const { return {{"game", game}, {"previous", previous}}; }

std::string_view name_of(RulingReason reason) {
  constexpr std::array<std::string_view, kReasons.size()> kNames{"claim",       "post",      "malformed",
                                                                 "out-of-turn", "two-moves", "late"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::string name_of(Claim claim) { return std::string(1, static_cast<char>(claim)); }

json::Object Ruling::predicate() const {
  json::Object out{{"task", task.hex()},
                   {"game", game.hex()},
                   {"statement", statement.hex()},
                   {"defender", defender.hex()},
                   {"challenger", challenger.hex()},
                   {"moves", moves},
                   {"last", last.hex()},
                   {"falls", falls},
                   {"reason", name_of(reason)},
                   {"at", place_json(at)},
                   {"words", words}};
  if (claim) out.emplace("claim", name_of(*claim));
  if (scalar) out.emplace("scalar", scalar_json(*scalar));
  return out;
}

Ruling Ruling::read(json::Fields& in) {
  Ruling out;
  out.task = read_digest(in, "task");
  out.game = read_digest(in, "game");
  out.statement = read_digest(in, "statement");
  out.defender = read_digest(in, "defender");
  out.challenger = read_digest(in, "challenger");
  out.moves = in.integer("moves", 0, kMaxTurn);
  out.last = read_digest(in, "last");
  out.falls = in.boolean("falls");
  out.reason = read_enum(in, "reason", kReasons);
  out.claim = read_claim(in);
  out.at = read_object(in, "at", read_place);
  if (in.has("scalar")) out.scalar = read_object(in, "scalar", read_scalar);
  out.words = read_name(in, "words", kMaxRulingWords);
  return out;
}

std::vector<Subject> Ruling::subjects() const { return {{"statement", statement}, {"game", game}}; }

}  // namespace dgx::manifest
