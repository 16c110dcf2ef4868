#include "dgx/manifest/dispute.h"

#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/manifest/statement.h"
#include "replaced.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

template <class T>
std::string sealed(const T& body) {
  const auto out = seal(body, test::key(1));
  return out.ok() ? "accepted" : out.error().message;
}

/// The error for a body's payload after one textual change, with its signer's valid signature.
std::string changed(const Body& body, std::string_view what, std::string_view with) {
  const crypto::SecretKey key = test::key(1);
  const auto value = json::parse(test::replaced(payload_of(body, key.public_key()), what, with));
  REQUIRE(value.ok());
  const auto text = sign(value->dump(), key);
  REQUIRE(text.ok());
  const auto opened = open_any(*text);
  return opened.ok() ? "accepted" : opened.error().message;
}

/// A challenge of a proof.
Challenge of_proof(About about) {
  Challenge out = test::challenge();
  out.verdict = std::nullopt;
  out.row = std::nullopt;
  out.about = about;
  out.segment = 0;
  if (about != About::kChunk) return out;
  out.end = std::nullopt;
  out.chunk = ChunkReference{{7, {test::digest("path")}, R"({"k":"input"})"}, 2};
  return out;
}

Move move() {
  return {test::digest("task"), test::digest("game"), 2, test::digest("previous"), {{"kind", "accept"}}};
}

}  // namespace

TEST_CASE("challenges, moves and rulings read back as what was sealed") {
  const crypto::SecretKey key = test::key(1);
  Challenge witness = test::challenge();
  witness.about = About::kWitness;
  for (const Challenge& challenge :
       {test::challenge(), witness, of_proof(About::kSegment), of_proof(About::kInitial),
        of_proof(About::kFinal), of_proof(About::kChunk)}) {
    CAPTURE(name_of(challenge.about));
    const auto out = seal(challenge, key);
    REQUIRE(sealed(challenge) == "accepted");
    CHECK(open_statement<Challenge>(out->envelope)->body == challenge);
    CHECK(challenge.statement() == test::digest(challenge.verdict ? "verdict" : "proof"));
    CHECK(challenge.subjects()[0].digest == challenge.statement());
  }
  CHECK(seal(move(), key)->body == move());
  Ruling bare = test::ruling();
  bare.claim = std::nullopt;
  bare.at = {3, {}, {}, {}, {}};
  bare.scalar = std::nullopt;
  Ruling copied = test::ruling();
  copied.scalar = JudgedScalar{std::nullopt, "copy", "", {}, "0x0f", "0x0000000000000010"};
  for (const Ruling& ruling : {test::ruling(), bare, copied}) CHECK(seal(ruling, key)->body == ruling);
}

TEST_CASE("a challenge has the fields that what it is about demands") {
  Challenge challenge = of_proof(About::kWitness);
  CHECK(sealed(challenge) == "predicate: about: \"witness\" applies only to a verdict");
  for (const About about : {About::kInitial, About::kFinal, About::kChunk}) {
    challenge = test::challenge();
    challenge.about = about;
    CHECK(sealed(challenge) ==
          "predicate: about: \"" + std::string(name_of(about)) + "\" applies only to a proof");
  }
  challenge = test::challenge();
  challenge.row = std::nullopt;
  CHECK(sealed(challenge) ==
        "predicate: row: must be present if and only if verdict is present and about is not \"row\"");
  challenge = of_proof(About::kSegment);
  challenge.row = test::challenge().row;
  CHECK(sealed(challenge) ==
        "predicate: row: must be present if and only if verdict is present and about is not \"row\"");
  challenge = of_proof(About::kFinal);
  challenge.end = std::nullopt;
  CHECK(sealed(challenge) == "predicate: end: must be present when about is \"final\"");
  challenge = of_proof(About::kSegment);
  challenge.end = std::nullopt;  // valid for a diverging step, which only the proof reveals
  CHECK(sealed(challenge) == "accepted");
  challenge = of_proof(About::kChunk);
  challenge.end = challenge.start;
  CHECK(sealed(challenge) == "predicate: end: must not be present when about is \"chunk\"");
  challenge = of_proof(About::kChunk);
  challenge.chunk = std::nullopt;
  CHECK(sealed(challenge) == "predicate: chunk: must be present if and only if about is \"chunk\"");
  challenge = of_proof(About::kSegment);
  challenge.chunk = ChunkReference{{}, 0};
  CHECK(sealed(challenge) == "predicate: chunk: must be present if and only if about is \"chunk\"");
  challenge = of_proof(About::kInitial);
  challenge.segment = 1;
  CHECK(sealed(challenge) == "predicate: segment: is 1, must be 0 when about is \"initial\"");
}

TEST_CASE("a challenge's fields stay in their ranges") {
  Challenge challenge = test::challenge();
  challenge.segment = kMaxStates;
  CHECK(sealed(challenge) == "accepted");
  challenge.segment = kMaxStates + 1;
  CHECK(sealed(challenge) == "predicate: segment: is 16777217, must be 0 to 16777216");
  challenge = test::challenge();
  challenge.start.path.assign(kMaxPath, test::digest("node"));
  CHECK(sealed(challenge) == "accepted");
  challenge.start.path.emplace_back();
  CHECK(sealed(challenge).starts_with("predicate: start: path: "));
  challenge = test::challenge();
  challenge.start.path.clear();
  CHECK(sealed(challenge) == "accepted");
  challenge.row->row.agrees = true;
  CHECK(sealed(challenge) == "predicate: row: row: agrees: contradicts the digests");
  challenge = of_proof(About::kChunk);
  challenge.chunk->line.text = std::string(3072, 'e');
  challenge.chunk->part = kMaxInteger;
  CHECK(sealed(challenge) == "accepted");
  challenge.chunk->line.text = std::string(3073, 'e');
  CHECK(sealed(challenge).starts_with("predicate: chunk: line: text: "));
  CHECK(changed(of_proof(About::kChunk), R"("part":2)", R"("part":-1)") ==
        "predicate: chunk: part: is -1, must be 0 to 9007199254740992");
  CHECK(changed(test::challenge(), R"("about":"segment")", R"("about":"step")") ==
        "predicate: about: unknown name \"step\"");
  CHECK(changed(test::challenge(), R"("name":"start")", R"("name":"stars")")
            .starts_with("statement: subject or a field is not in canonical form"));
  CHECK(changed(test::challenge(), R"("index":1,"path")", R"("indes":1,"path")") ==
        "predicate: row: index: is missing");
}

TEST_CASE("digests are whole, in base64") {
  const auto read = [](std::string text, std::size_t max) {
    const json::Value value = json::Object{{"path", std::move(text)}};
    json::Fields in(value, "here");
    const auto digests = read_digests(in, "path", max);
    const Status status = in.finish();
    return status.ok() ? std::to_string(digests.size()) : status.error().message;
  };
  const std::vector<Digest> two{test::digest("a"), test::digest("b")};
  const std::string text = *digests_json(two).as_string();
  CHECK(read(text, 2) == "2");
  CHECK(read("", 2) == "0");
  CHECK(read(text, 1).starts_with("here: path: "));
  CHECK(read(to_base64(Bytes(33)), 2) == "here: path: has 33 bytes, which is not a whole number of digests");
  // The four characters at the end of 32 bytes' base64 have room for three bytes.
  CHECK(read(to_base64(Bytes(33)), 1) == "here: path: has 33 bytes, at most 32 allowed");
  CHECK(read(text.substr(1), 2).starts_with("here: path: "));
}

TEST_CASE("a move says any object, in at most 64 KiB") {
  Move long_one = move();
  long_one.say = {{"kind", "leaf"}, {"bytes", std::string(60'000, 'A')}};
  CHECK(sealed(long_one) == "accepted");
  const std::size_t rest = kMaxMoveBytes - payload_of(long_one, test::key(1).public_key()).size();
  long_one.say["bytes"] = std::string(60'000 + rest, 'A');
  CHECK(sealed(long_one) == "accepted");
  long_one.say["bytes"] = std::string(60'001 + rest, 'A');
  CHECK(sealed(long_one) == "move: payload has 65537 bytes, at most 65536 allowed");
  Move empty = move();
  empty.say = {};
  CHECK(sealed(empty) == "accepted");
  for (const std::int64_t turn : {std::int64_t{0}, kMaxTurn + 1}) {
    Move late = move();
    late.turn = turn;
    CHECK(sealed(late) == "predicate: turn: is " + std::to_string(turn) + ", must be 1 to 256");
  }
  CHECK(changed(move(), R"({"kind":"accept"})", R"(["accept"])") ==
        "predicate: say: is an array, expected an object");
  CHECK(changed(move(), R"({"kind":"accept"})", R"("accept")") ==
        "predicate: say: is a string, expected an object");
  CHECK(changed(move(), R"("turn":2)", R"("turn":"2")").starts_with("predicate: turn: is a string"));
}

TEST_CASE("a ruling's fields stay in their ranges") {
  const Ruling good = test::ruling();
  Ruling ruling = good;
  for (const char claim : {'a', 'h'}) {
    ruling.claim = static_cast<Claim>(claim);
    CHECK(sealed(ruling) == "accepted");
  }
  for (const char claim : {'i', 'A', '`'}) {
    ruling.claim = static_cast<Claim>(claim);
    CHECK(sealed(ruling) ==
          "predicate: claim: \"" + std::string(1, claim) + "\" is not one of \"a\" to \"h\"");
  }
  CHECK(changed(good, R"("claim":"d")", R"("claim":"")") ==
        "predicate: claim: \"\" is not one of \"a\" to \"h\"");
  CHECK(changed(good, R"("moves":17)", R"("moves":257)") == "predicate: moves: is 257, must be 0 to 256");
  CHECK(changed(good, R"("falls":true)", R"("falls":1)").starts_with("predicate: falls: "));
  CHECK(changed(good, R"("reason":"claim")", R"("reason":"default")") ==
        "predicate: reason: unknown name \"default\"");
  CHECK(changed(good, R"("step":31)", R"("step":-31)") ==
        "predicate: at: step: is -31, must be 0 to 9007199254740992");
  CHECK(changed(good, R"("step":31)", R"("steps":31)") == "predicate: at: steps: unknown field");
  ruling = good;
  ruling.words = std::string(1024, 'w');
  CHECK(sealed(ruling) == "accepted");
  ruling.words += "w";
  CHECK(sealed(ruling).starts_with("predicate: words: "));
}

TEST_CASE("a ruling's scalar operation has its form") {
  const Ruling good = test::ruling();
  Ruling ruling = good;
  for (const char* bits : {"", "0x", "0x0", "0x012", "3f800000", "0x3F800000", "0x3f80000g", "0x3f8000000",
                           "0x3f80000000000000ff"}) {
    CAPTURE(bits);
    ruling.scalar->claimed = bits;
    CHECK(sealed(ruling).starts_with("predicate: scalar: claimed: "));
  }
  for (const char* bits : {"0x00", "0x00000000", "0xffffffffffffffff"}) {
    ruling.scalar->claimed = bits;
    CHECK(sealed(ruling) == "accepted");
  }
  ruling = good;
  ruling.scalar->operands.resize(4, {"0x00", "t0"});
  CHECK(sealed(ruling).starts_with("predicate: scalar: operands: "));
  ruling = good;
  ruling.scalar->operands[1].from = "";
  CHECK(sealed(ruling) == "predicate: scalar: operands: from: is empty");
  ruling = good;
  ruling.scalar->index = std::nullopt;
  CHECK(sealed(ruling) == "predicate: scalar: place: must be present if and only if `index` is");
  ruling = good;
  ruling.scalar->place = "";
  CHECK(sealed(ruling) == "predicate: scalar: place: must be present if and only if `index` is");
  ruling = good;
  ruling.scalar->operation = std::string(17, 'o');
  CHECK(sealed(ruling).starts_with("predicate: scalar: operation: "));
}
