#include "dgx/ledger/note.h"

#include <catch2/catch.hpp>

#include "statements.h"

using namespace dgx;
using namespace dgx::ledger;

namespace {

const std::string kDash = "\xE2\x80\x94 ";

/// The example of c2sp.org/signed-note, "Verifier keys".
const std::string kExampleKey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const std::string kExampleNote =
    "This is an example message.\n\n" + kDash +
    "example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
/// The example of golang.org/x/mod/sumdb/note, whose private key is published too.
const std::string kGoSeed = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const std::string kGoKey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const std::string kGoText =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const std::string kGoLine =
    kDash +
    "PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
/// The example of c2sp.org/tlog-cosignature: its keys are not published.
const std::string kCosigned =
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n" + kDash +
    "example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n" +
    kDash +
    "witness.example.com/w1 "
    "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/"
    "zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n";

Checkpoint checkpoint(std::int64_t count = 9) {
  return {test::digest("ledger"), {test::digest("root"), count}};
}

/// A ledger's note with the operator's line.
Note note_of(const Checkpoint& point) {
  Note out{point.text(), {}};
  out.signatures.push_back(sign_note(out, point.origin(), test::key(1)));
  return out;
}

std::string refusal(const std::string& bytes) {
  const auto note = parse_note(bytes);
  return note.ok() ? "accepted" : note.error().message;
}

}  // namespace

TEST_CASE("the published examples of notes verify and are made again") {
  const auto example = parse_verifier_key(kExampleKey);
  REQUIRE(example.ok());
  CHECK(example->text() == kExampleKey);
  const auto note = parse_note(kExampleNote);
  REQUIRE(note.ok());
  CHECK(note->print() == kExampleNote);
  CHECK(signed_by(*note, *example)->found);

  const auto seed = digest_from_bytes(ByteView(*from_base64(kGoSeed)).subspan(1));
  const auto key = crypto::SecretKey::from_seed(seed->bytes);
  CHECK(VerifierKey{"PeterNeumann", SignatureType::kEd25519, key.public_key()}.text() == kGoKey);
  CHECK(print_line(sign_note({kGoText, {}}, "PeterNeumann", key)) == kGoLine);
  CHECK(signed_by(*parse_note(kGoText + "\n" + kGoLine), *parse_verifier_key(kGoKey))->found);
}

TEST_CASE("the published example of a cosignature is taken apart as its page says") {
  const auto note = parse_note(kCosigned);
  REQUIRE(note.ok());
  CHECK(note->print() == kCosigned);
  REQUIRE(note->signatures.size() == 2);
  const NoteSignature& line = note->signatures[1];
  CHECK(line.name == "witness.example.com/w1");
  REQUIRE(line.bytes.size() == 72);
  CHECK(to_hex(ByteView(line.bytes).first(8)) == "00000000641850cb");  // 1679315147
  CHECK_FALSE(parse_checkpoint(note->text).ok());                      // a checkpoint, but not of a ledger
}

TEST_CASE("notes that are not exactly what they must be are refused with the line") {
  const std::string good = note_of(checkpoint()).print();
  REQUIRE(refusal(good) == "accepted");
  const std::size_t cut = good.find("\n\n");
  const std::string head = good.substr(0, cut + 1), line = good.substr(cut + 2);
  const auto lines = [&](int count) {
    std::string out = head + "\n";
    for (int i = 0; i < count; ++i) out += line;
    return out;
  };
  CHECK(refusal(lines(16)) == "accepted");
  CHECK(refusal(lines(17)) == "line 21: is beyond the 16 signatures that a note may have");
  CHECK(refusal(lines(0)).find("note: ") == 0);
  CHECK(refusal("") == "note: no empty line divides a text from its signatures");
  CHECK(refusal(head + line) == "note: no empty line divides a text from its signatures");
  CHECK(refusal("\n\n" + line).find("note: ") == 0);
  CHECK(refusal(good.substr(0, good.size() - 1)) == "note: does not end with a newline");
  CHECK(refusal(head + "\r\n" + line) == "line 4: has a control character");
  CHECK(refusal("a\tb\n\n" + line) == "line 1: has a control character");
  CHECK(refusal("\xFF\n\n" + line) == "note: is not UTF-8");
  CHECK(refusal(head + "\n-- x AAAA\n") == "line 5: does not begin with an em dash and a space");
  CHECK(refusal(head + "\n" + kDash + "x\n").find("line 5: is not a key's name") == 0);
  CHECK(refusal(head + "\n" + kDash + " AAAAAAAA\n").find("line 5: is not a key's name") == 0);
  CHECK(refusal(head + "\n" + kDash + "a+b AAAAAAAA\n").find("line 5: is not a key's name") == 0);
  CHECK(refusal(head + "\n" + kDash +
                "a\xC2\xA0"
                "b AAAAAAAA\n")
            .find("line 5: is not a key's name") == 0);
  CHECK(refusal(head + "\n" + kDash + "x AAAA\n") == "line 5: has too short a signature");
  CHECK(refusal(head + "\n" + kDash + "x AAAAAAA\n").find("line 5: base64") == 0);
  CHECK(refusal(head + "\n" + kDash + "x AAAAAAB=\n").find("line 5: base64") == 0);
  CHECK(refusal(head + "\n" + line + "\n").find("note: ") == 0);
  CHECK(refusal(std::string(kMaxNoteBytes + 1, 'a')).find("at most") != std::string::npos);
}

TEST_CASE("a ledger's note is three lines and nothing else") {
  const Checkpoint point = checkpoint();
  CHECK(*parse_checkpoint(point.text()) == point);
  const std::string root = to_base64(point.head.root.view());
  const std::string origin = point.origin();
  for (const std::string& text :
       {origin + "\n9\n" + root, origin + "\n9\n" + root + "\n\n", origin + "\n9\n" + root + "\nmore\n",
        origin + "\n09\n" + root + "\n", origin + "\n+9\n" + root + "\n", origin + "\n9 \n" + root + "\n",
        origin + "\n0\n" + root + "\n", origin + "\n-1\n" + root + "\n",
        origin + "\n9007199254740993\n" + root + "\n", origin + "\n9\n" + root + "=\n",
        origin + "\n9\nAAAA\n", origin + "x\n9\n" + root + "\n", "dgx-ledger/\n9\n" + root + "\n",
        "example.com/log\n9\n" + root + "\n", "\n9\n" + root + "\n", std::string()}) {
    CAPTURE(text);
    CHECK_FALSE(parse_checkpoint(text).ok());
  }
}

TEST_CASE("a signature counts for its own key, name, type and text alone") {
  const Checkpoint point = checkpoint();
  Note note = note_of(point);
  const auto operator_key = VerifierKey{point.origin(), SignatureType::kEd25519, test::key(1).public_key()};
  const auto witness = VerifierKey{"w", SignatureType::kCosignature, test::key(2).public_key()};
  note.signatures.push_back(cosign_note(note, "w", test::key(2), 1'700'000'000));
  note.signatures.push_back(cosign_note(note, "w", test::key(2), 1'600'000'000));
  const Note read = *parse_note(note.print());
  CHECK(signed_by(read, operator_key)->found);
  CHECK(signed_by(read, witness)->seconds == 1'700'000'000);
  for (VerifierKey other :
       {VerifierKey{"v", witness.type, witness.key}, VerifierKey{"w", SignatureType::kEd25519, witness.key},
        VerifierKey{"w", witness.type, test::key(3).public_key()}})
    CHECK_FALSE(signed_by(read, other)->found);
  Note changed = read;
  changed.text.insert(0, "x");
  CHECK(signed_by(changed, operator_key).error().code == ErrorCode::kUnauthorised);
  CHECK(signed_by(changed, witness).error().code == ErrorCode::kUnauthorised);
  for (std::size_t i = 0; i < 72; i += 5) {  // the time is signed, too
    changed = read;
    changed.signatures[1].bytes[i] ^= 4;
    CHECK_FALSE(signed_by(changed, witness).ok());
  }
  changed = read;
  changed.signatures[1].bytes.pop_back();
  CHECK_FALSE(signed_by(changed, witness).ok());
}

TEST_CASE("verifier keys are read back, and nothing near one is") {
  const VerifierKey key{"w.example/1", SignatureType::kCosignature, test::key(4).public_key()};
  const std::string text = key.text();
  CHECK(*parse_verifier_key(text) == key);
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(parse_verifier_key(changed).ok());
    CHECK_FALSE(parse_verifier_key(text.substr(0, i)).ok());
    if (i > 0) CHECK_FALSE(parse_verifier_key(text.substr(i)).ok());
  }
  CHECK_FALSE(parse_verifier_key(text + "=").ok());
  const VerifierKey other{"w", static_cast<SignatureType>(6), test::key(4).public_key()};
  CHECK_FALSE(parse_verifier_key(other.text()).ok());
}

TEST_CASE("requests and sightings are read back, and refused with their line") {
  const WitnessRequest request{4, {test::digest("a"), test::digest("b")}, note_of(checkpoint())};
  const auto read = parse_request(request.print());
  REQUIRE(read.ok());
  CHECK(read->print() == request.print());
  CHECK(is_request(request.print()));
  CHECK_FALSE(is_request(request.note.print()));
  const std::string note = request.note.print();
  CHECK(parse_request("old 04\n\n" + note).error().message.find("line 1: ") == 0);
  CHECK(parse_request("old 4\nAAAA\n\n" + note).error().message.find("line 2: ") == 0);
  CHECK_FALSE(parse_request("old 4\n" + note).ok());
  std::string many = "old 4\n";
  for (int i = 0; i < 64; ++i) many += to_base64(test::digest("a").view()) + "\n";
  CHECK(parse_request(many + "\n" + note).error().message.find("line 65: ") == 0);

  const Sighting sighting{test::digest("l"), test::digest("s"), 1'700'000'000'000};
  CHECK(*parse_sighting(sighting.text()) == sighting);
  CHECK_FALSE(parse_sighting(checkpoint().text()).ok());
  CHECK_FALSE(parse_checkpoint(sighting.text()).ok());
  CHECK_FALSE(parse_sighting(sighting.text() + "x\n").ok());
}
