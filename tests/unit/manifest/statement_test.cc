#include "dgx/manifest/statement.h"

#include <catch2/catch.hpp>
#include <limits>

#include "dgx/manifest/trust.h"
#include "replaced.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

std::string message_of(const Result<Signed<Body>>& result) {
  return result.ok() ? "accepted" : result.error().message;
}

/// Seals, as a hostile signer could, the payload of a body after one textual change under their own valid
/// signature; returns the error.
std::string refused(const Body& body, std::string_view what, std::string_view with) {
  const crypto::SecretKey key = test::key(1);
  const auto text = sign(test::replaced(payload_of(body, key.public_key()), what, with), key);
  REQUIRE(text.ok());
  const auto opened = open_any(*text);
  if (!opened.ok()) CHECK(opened.error().code == ErrorCode::kMalformed);
  return message_of(opened);
}

}  // namespace

TEST_CASE("a statement of every kind opens as what was sealed") {
  const crypto::SecretKey key = test::key(1);
  const std::vector<Body> bodies = test::bodies();
  REQUIRE(bodies.size() == all_kinds().size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    CAPTURE(name_of(all_kinds()[i]));
    CHECK(kind_of(bodies[i]) == all_kinds()[i]);
    const auto sealed = seal_any(bodies[i], key);
    REQUIRE(message_of(sealed) == "accepted");
    const auto opened = open_any(sealed->envelope + "\n");
    REQUIRE(message_of(opened) == "accepted");
    CHECK(opened->id == sealed->id);
    CHECK(opened->key_id == test::key_id(1));
    CHECK(opened->envelope == sealed->envelope);
    CHECK(payload_of(opened->body, opened->signer) == payload_of(bodies[i], key.public_key()));
  }
}

TEST_CASE("a location leaves room for the files of an opening below it") {
  const auto message = [](std::size_t length) {
    const Opening opening{test::digest("t"), test::digest("p"), test::digest("b"), "L"};
    return refused(opening, "\"location\":\"L\"", "\"location\":\"" + std::string(length, 'a') + "\"");
  };
  CHECK(message(246) == "accepted");
  CHECK(message(247).find("location") != std::string::npos);
  CHECK(message(0).find("location") != std::string::npos);
  CHECK(is_place(std::string(246, 'a') + "/sample.h5"));
  CHECK_FALSE(is_place(std::string(247, 'a') + "/sample.h5"));
  CHECK_FALSE(is_location(std::string(247, 'a')));
}

TEST_CASE("a round is refused whose value, checkpoints or signature do not follow") {
  const Body delay = test::round();
  const Body drand = test::pulse();
  CHECK(seal_any(drand, test::key(1)).ok());
  const Round& round = std::get<Round>(delay);
  CHECK(refused(delay, "\"steps\":1048581", "\"steps\":1048576") ==
        "predicate: checkpoints: are 2, 1048576 steps have 1");
  CHECK(refused(delay, "\"steps\":1048581", "\"steps\":65535") ==
        "predicate: steps: is 65535, must be 65536 to 1099511627776");
  CHECK(refused(delay, "\"value\":\"" + round.value.hex(), "\"value\":\"" + test::digest("another").hex()) ==
        "predicate: value: does not follow from the round's source");
  // One bit of the last checkpoint.
  Round changed = round;
  std::get<DelayChain>(changed.origin).checkpoints.back().bytes[31] ^= 1;
  CHECK(message_of(seal_any(changed, test::key(1))) ==
        "predicate: value: does not follow from the round's source");
  CHECK(refused(delay, "\"source\":\"delay\"", "\"source\":\"drand\"")
            .starts_with("predicate: number: is missing"));
  CHECK(refused(delay, "\"source\":\"delay\"", "\"source\":\"nist\"")
            .starts_with("predicate: source: unknown name"));
  Round short_one = std::get<Round>(drand);
  std::get<DrandPulse>(short_one.origin).signature.pop_back();
  CHECK(message_of(seal_any(short_one, test::key(1)))
            .ends_with("signature: is not a compressed point of 48 bytes"));
  Round infinity = std::get<Round>(drand);
  std::get<DrandPulse>(infinity.origin).signature[0] = 0xc0;
  CHECK(message_of(seal_any(infinity, test::key(1)))
            .ends_with("signature: is not a compressed point of 48 bytes"));
}

TEST_CASE("an offer may state a bond, and an assign name no verifier") {
  const BeaconCommitment offer{
      test::digest("t"), test::digest("c"), test::digest("d"), test::digest("i"), 1, 501};
  CHECK(refused(offer, "\"bond\":501", "\"bond\":1") == "accepted");
  CHECK(refused(offer, "\"bond\":501", "\"bond\":0") ==
        "predicate: bond: is 0, must be 1 to 9007199254740992");
  const Assign assign{test::digest("t"), std::nullopt, test::digest("d"), test::digest("i"), 1};
  CHECK(message_of(seal_any(assign, test::key(1))) == "accepted");
}

TEST_CASE("kinds have names and the names give the kinds back") {
  for (const Kind kind : all_kinds()) CHECK(*kind_from_name(name_of(kind)) == kind);
  CHECK(kind_from_name("taks").error().message == "unknown kind of statement \"taks\"");
}

TEST_CASE("a statement is not taken for one of another kind") {
  const auto sealed = seal_any(test::ledger_policy(), test::key(1));
  REQUIRE(sealed.ok());
  const auto opened = open_statement<Task>(sealed->envelope);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message == "a policy statement, expected a task");
  // Assign and beacon commitment have the same fields; only the signed type distinguishes them.
  CHECK(refused(test::bodies()[3], "urn:x-dgx:beacon-commitment:v2", "urn:x-dgx:assign:v2") == "accepted");
  CHECK(seal_any(test::bodies()[3], test::key(1))->id != seal_any(test::bodies()[5], test::key(1))->id);
}

TEST_CASE("what a hostile signer changes is refused with its field") {
  const Body task = test::task();
  CHECK(refused(task, R"("batch":128,)", "") == "predicate: batch: is missing");
  CHECK(refused(task, R"("batch":128,)", R"("batch":128,"bathc":1,)") == "predicate: bathc: unknown field");
  CHECK(refused(task, R"("batch":128)", R"("batch":"128")") ==
        "predicate: batch: is a string, expected an integer");
  CHECK(refused(task, R"("batch":128)", R"("batch":0)") ==
        "predicate: batch: is 0, must be 1 to 9007199254740992");
  CHECK(refused(task, R"("batch":128)", R"("batch":1001)") ==
        "predicate: batch: is 1001, the dataset has 1000 samples");
  CHECK(refused(task, R"("lines":40)", R"("lines":0)") ==
        "predicate: program: lines: is 0, must be 1 to 65536");
  CHECK(refused(task, R"("lines":40)", R"("limes":1,"lines":40)") ==
        "predicate: program: limes: unknown field");
}

TEST_CASE("nested faults of a task name the field from the top") {
  const Body task = test::task();
  CHECK(refused(task, R"("dtype":"u8")", R"("dtype":"f64")") ==
        "predicate: dataset: x: dtype: unknown element type \"f64\"");
  CHECK(refused(task, R"("shape":[28,28])", R"("shape":[28,0])") ==
        "predicate: dataset: x: shape: dimension 1 is not a positive integer");
  const auto fields = [&](const std::string& object) {
    return refused(task, R"("samples":1000)", R"("fields":)" + object + R"(,"samples":1000)");
  };
  const std::string mask = R"({"dtype":"u8","shape":[5]})";
  CHECK(fields(R"({"mask":)" + mask + "}") == "accepted");
  CHECK(fields("{}") ==
        "predicate: dataset: fields: is not an object of other fields, at most 8 with x and y");
  CHECK(fields("[]") == fields("{}"));
  CHECK(fields(R"({"x":)" + mask + "}") == "predicate: dataset: fields: \"x\" is no name of another field");
  CHECK(fields(R"({"y":)" + mask + "}") == "predicate: dataset: fields: \"y\" is no name of another field");
  CHECK(fields(R"({"Mask":)" + mask + "}") ==
        "predicate: dataset: fields: \"Mask\" is no name of another field");
  CHECK(fields(R"({"mask":{"dtype":"u8","shape":[0]}})") ==
        "predicate: dataset: fields: mask: shape: dimension 0 is not a positive integer");
  std::string seven = "{";
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    seven += (seven.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + mask;
  CHECK(fields(seven + "}") == fields("{}"));
  CHECK(refused(task, R"(,"y":{"dtype":"i64","shape":[]})", "") == "accepted");
  CHECK(refused(task, R"(,"x":{"dtype":"u8","shape":[28,28]})", "") == "predicate: dataset: x: is missing");
  CHECK(refused(task, R"("escrow":555)", R"("escrow":554)") ==
        "predicate: estimate: escrow: is 554, its parts sum to 555");
  CHECK(refused(task, R"("numerics":"exact-1")", R"("numerics":"native")") ==
        "predicate: numerics: \"native\" is not in this version, only exact-1");
  CHECK(refused(task, R"("seed":"18364758544493064720")", R"("seed":"018364758544493064720")")
            .find("predicate: seed: ") == 0);
  CHECK(refused(task, R"("seed":"18364758544493064720")", R"("seed":"18446744073709551616")")
            .find("predicate: seed: ") == 0);
  CHECK(refused(task, R"("steps":100},"predicateType")", R"("steps":101},"predicateType")")
            .find("predicate: caps: steps: ") == 0);
  CHECK(refused(task, R"("steps":100},"predicateType")", R"("steps":1},"predicateType")")
            .find("predicate: steps: is 1, must be 2 to ") == 0);
  CHECK(refused(task, R"({"bytes":4096,)", R"({"bytes":4096,"constant_bytes":0,)")
            .find("predicate: caps: constant_bytes: is 0, must be 1 to 4096") == 0);
  CHECK(refused(task, R"({"bytes":4096,)", R"({"bytes":4096,"constant_bytes":4097,)")
            .find("predicate: caps: constant_bytes: is 4097, must be 1 to 4096") == 0);
  CHECK(refused(task, R"("split_jackpot_ppm":250000)", R"("split_jackpot_ppm":250001)") ==
        "predicate: policy: split_submitter_ppm: the three splits sum to 1000001, must sum to 1000000");
  CHECK(refused(task, R"("loss":"cross-entropy")", R"("loss":"hinge")").find("predicate: loss: ") == 0);
  CHECK(refused(task, R"("momentum":)", R"("momentun":)").find("predicate: optimizer: ") == 0);
}

TEST_CASE("the time of the longest segment is 1 to 2^53 milliseconds, and may be left out but of a profile") {
  for (const std::size_t kind : {2U, 3U, 5U}) {
    const Body body = test::bodies()[kind];
    const std::string field = kind == 5 ? R"("segment_milliseconds":34)" : R"("segment_milliseconds":12)";
    const auto with = [&](const std::string& number) {
      return refused(body, field, R"("segment_milliseconds":)" + number);
    };
    CHECK(with("0") == "predicate: segment_milliseconds: is 0, must be 1 to 9007199254740992");
    CHECK(with("9007199254740992") == "accepted");
    CHECK(refused(body, field + ",", "") ==
          (kind == 2 ? "predicate: segment_milliseconds: is missing" : "accepted"));
  }
}

TEST_CASE("the wrapping of a statement is checked like its fields") {
  const Body body = test::ledger_policy();
  CHECK(refused(body, "urn:x-dgx:policy:v2", "urn:x-dgx:policy:v1") ==
        "statement: predicateType: \"urn:x-dgx:policy:v1\": only version v2 is known");
  CHECK(refused(body, "urn:x-dgx:policy:v2", "https://slsa.dev/provenance/v1") ==
        "statement: predicateType: \"https://slsa.dev/provenance/v1\" is not a dgx statement type");
  CHECK(refused(body, "urn:x-dgx:policy:v2", "urn:x-dgx:appeal:v2") ==
        "unknown kind of statement \"appeal\"");
  CHECK(refused(body, "Statement/v1", "Statement/v2").find("statement: _type: ") == 0);
  CHECK(refused(body, R"("name":"policy")", R"("name":"polici")")
            .find("statement: subject or a field is not in canonical form at byte ") == 0);
  CHECK(refused(body, R"(,"subject":)", R"(,"sub":[],"subject":)") == "statement: sub: unknown field");
  CHECK(refused(body, R"("signer":")", R"("signer":"0)").find("predicate: signer: ") == 0);
}

TEST_CASE("a statement signed by another than its signer is unauthorised") {
  const std::string payload = payload_of(test::ledger_policy(), test::key(1).public_key());
  const auto opened = open_any(*sign(payload, test::key(2)));
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code == ErrorCode::kUnauthorised);
}

TEST_CASE("a small-order key signs nothing") {
  // The identity point: OpenSSL accepts a forged signature under it for any message.
  std::string payload = payload_of(test::ledger_policy(), test::key(1).public_key());
  const std::string mine = test::key(1).public_key().hex();
  payload.replace(payload.find(mine), mine.size(), "01" + std::string(62, '0'));
  const auto opened = open_any(*sign(payload, test::key(1)));
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message.find("predicate: signer: ") == 0);
}

TEST_CASE("a task beyond 16 KiB is refused") {
  Task task = test::task();
  task.model = std::string(1024, 'm');
  CHECK(seal(task, test::key(1)).ok());
  task.model += 'm';
  CHECK_FALSE(seal(task, test::key(1)).ok());
  task.model = "a\nb";
  CHECK_FALSE(seal(task, test::key(1)).ok());
}

TEST_CASE("a flip of any bit of a statement of any kind is noticed") {
  int accepted = 0;
  int flips = 0;
  for (const Body& body : test::bodies()) {
    const std::string good = seal_any(body, test::key(1))->envelope;
    // Flips every 7th byte of every kind, a fixed sample; envelope_test.cc flips all bytes of one.
    for (std::size_t i = 0; i < good.size(); i += 7) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      ++flips;
      const auto opened = open_any(flipped);
      accepted += opened.ok() ? 1 : 0;
    }
  }
  CHECK(flips > 2000);
  CHECK(accepted == 0);
}

TEST_CASE("states beside a proof are exactly those it commits to") {
  const std::vector<Digest> states{test::digest("0"), test::digest("1"), test::digest("2")};
  Proof proof;
  proof.states = states_root(states);
  proof.initial = states.front();
  proof.final_state = states.back();
  const std::string bytes = encode_states(states);
  REQUIRE(decode_states(bytes, proof).ok());
  CHECK(*decode_states(bytes, proof) == states);
  CHECK(decode_states(bytes.substr(1), proof).error().message ==
        "states: 95 bytes, the proof has 3 states of 32 bytes");
  std::string flipped = bytes;
  flipped[40] = static_cast<char>(flipped[40] ^ 1);
  CHECK(decode_states(flipped, proof).error().message == "states: their root is not the proof's");
  proof.initial = states[1];
  CHECK(decode_states(bytes, proof).error().message == "states: 0: is not the proof's initial state");
}

TEST_CASE("a proof's loss is its final state's, opened") {
  const test::Ending end = test::ending("end");
  const Proof good{
      test::digest("task"), {test::digest("states"), 11}, test::digest("initial"), end.state, 100, end.loss};
  REQUIRE(seal(good, test::key(1)).ok());
  const auto refused = [&](const auto& change) {
    Proof proof = good;
    change(proof);
    const auto sealed = seal(proof, test::key(1));
    return sealed.ok() ? "accepted" : sealed.error().message;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refused([](Proof& proof) { proof.loss.value = 0x1p-20F; }),
             Contains("loss: value: does not match the entry's digest"));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.value = -proof.loss.value; }), Contains("loss: value"));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.value = std::numeric_limits<float>::infinity(); }),
             Contains("finite"));
  CHECK_THAT(refused([](Proof& proof) { proof.loss = test::ending("other").loss; }), Contains("opens state"));
  CHECK_THAT(refused([](Proof& proof) { proof.loss = test::ending("end", 0.25F).loss; }),
             Contains("opens state"));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.entry.name = "step"; }), Contains("is not \"loss\""));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.entry.index = 1; }), Contains("loss: "));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.entry.count = 3; }), Contains("loss: "));
  CHECK_THAT(refused([](Proof& proof) { proof.loss.entry.path.clear(); }), Contains("loss: "));
  CHECK_THAT(refused([](Proof& proof) { proof.final_state = test::digest("another"); }),
             Contains("opens state"));
}

TEST_CASE("rows beside a verdict are exactly those it commits to") {
  std::vector<VerdictRow> rows;
  for (const std::int64_t index : {1, 4, 9}) {
    rows.push_back({index, test::digest("e"), test::digest("e"), true, RowReason::kEqual, test::digest("w")});
  }
  Verdict verdict;
  verdict.rows = rows_root(rows);
  const std::string text = encode_rows(rows);
  REQUIRE(decode_rows(text, verdict).ok());
  CHECK(*decode_rows(text, verdict) == rows);
  CHECK(decode_rows(text.substr(0, text.size() - 1), verdict).error().message ==
        "rows: line 3: no newline at its end");
  CHECK(decode_rows(text + text, verdict).error().message == "rows: line 4: more than the verdict has");
  std::swap(rows[0], rows[1]);
  CHECK(decode_rows(encode_rows(rows), verdict).error().message == "rows: line 2: segments do not ascend");
  CHECK(decode_rows("", verdict).error().message == "rows: their root is not the verdict's");
}

TEST_CASE("a verdict states only what a chance can be") {
  Verdict verdict;
  for (const Body& body : test::bodies()) {
    if (const auto* one = std::get_if<Verdict>(&body)) verdict = *one;
  }
  const auto read = [&](const std::string& text) {
    verdict.miss_probability.one_percent = text;
    const auto sealed = seal(verdict, test::key(1));
    return sealed.ok() && open_any(sealed->envelope).ok();
  };
  for (const char* chance :
       {"0", "1", "0.7", "0.0520936", "0.00000123456", "1.5e-20", "4e-7", "4.06111e-23", "9e-1234567"}) {
    INFO(chance);
    CHECK(read(chance));
  }
  for (const char* other :
       {"",       "none",    "2",       "0.",    "0.70",   "0.1234567", "0.0000001", "-0.5",
        "1.0",    "1.5",     ".5",      "0.5x",  "1.e-20", "15e-20",    "0.5e-20",   "1.50e-20",
        "1.5e-6", "1.5e-07", "1.5e+20", "1.5e-", "e-20",   "1.5E-20",   "1,5e-20"}) {
    INFO(other);
    CHECK_FALSE(read(other));
  }
}

TEST_CASE("beacons and verdict commitments are the hashes that Python gives") {
  // hashlib.sha256(b"dgx-beacon-commit" + r) and so on, with r = sha256(b"secret"), proof = sha256(b"proof").
  const Digest secret = test::digest("secret");
  const Digest proof = test::digest("proof");
  CHECK(beacon_commitment(secret).hex() ==
        "cbd7de932024cee00f643f7fa8a385f8c4946828e9f470d53185ff03dc9da771");
  CHECK(beacon_value(secret, proof).hex() ==
        "3c322467fd75b959b1912d94cd1e7e972616430b1345e1a40f064bfc0ac566aa");
  CHECK(verdict_commitment(proof, secret).hex() ==
        "8f29873406480762caf4c86610b9c7518fd378f39b0f14765596809834ec12a4");
}

TEST_CASE("a beacon whose value does not follow from its secret is refused") {
  Beacon beacon = std::get<Beacon>(test::bodies()[4]);
  beacon.value = test::digest("another");
  CHECK(seal(beacon, test::key(1)).error().message ==
        "predicate: value: does not follow from secret and proof");
}

TEST_CASE("a policy file names what it changes and keeps the other defaults") {
  const auto policy = parse_policy_file("{ \"solver_bond\": 5,\n \"window_move_ms\": 1000 }");
  REQUIRE(policy.ok());
  Policy expected = standard_policy();
  expected.solver_bond = 5;
  expected.window_move_ms = 1000;
  CHECK(*policy == expected);
  CHECK(*parse_policy_file("{}") == standard_policy());
  CHECK(parse_policy_file(R"({"window_move_ms":"1h30m","window_proof_ms":"7d"})")->window_move_ms ==
        5'400'000);
  CHECK(parse_policy_file(R"({"window_move_ms":"90"})").error().message ==
        "policy: window_move_ms: '90' is not a time such as 1h30m, 45m, 90s or 2d");
  CHECK(parse_policy_file(R"({"solver_bond":"7d"})").error().message ==
        parse_policy_file(R"({"solver_bond":"x"})").error().message);
  CHECK(*parse_policy_file(seal(test::ledger_policy(), test::key(1))->envelope) == test::policy());
  CHECK(parse_policy_file(R"({"solver_bnod":5})").error().message == "policy: solver_bnod: unknown field");
  CHECK(parse_policy_file(R"({"solver_bnod":5})").error().hint == "did you mean solver_bond?");
  CHECK(parse_policy_file(R"({"sample_ppm":0})").error().message ==
        "policy: sample_ppm: is 0, must be 1 to 1000000");
  CHECK(parse_policy_file(R"({"miss_ppm":1000001})").error().message ==
        "policy: miss_ppm: is 1000001, must be 0 to 1000000");
  CHECK(parse_policy_file(R"({"miss_share_ppm":0})").error().message ==
        "policy: miss_share_ppm: is 0, must be 1 to 1000000");
  CHECK(parse_policy_file(R"({"audit_ppm":1})").error().message ==
        "policy: audit_ppm: needs a beacon_source: without rounds nobody can draw by chance");
  CHECK(parse_policy_file(R"({"forced_error_ppm":1})").error().message ==
        "policy: forced_error_ppm: needs a beacon_source: without rounds nobody can draw by chance");
  CHECK(parse_policy_file(R"({"audit_ppm":1000000,"beacon_source":1,"forced_error_ppm":1})").ok());
  CHECK(parse_policy_file(R"({"beacon_source":3})").error().message ==
        "policy: beacon_source: is 3, must be 0 to 2");
  CHECK(parse_policy_file(R"({"beacon_slot_ms":"1m","beacon_source":2})")->beacon_slot_ms == 60'000);
  CHECK(parse_policy_file(R"({"beacon_steps":65535})").error().message ==
        "policy: beacon_steps: is 65535, must be 65536 to 1099511627776");
  CHECK_FALSE(parse_policy_file("[]").ok());
}

TEST_CASE("the policy's table is sorted, and its defaults are in range") {
  const auto keys = policy_keys();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CAPTURE(keys[i].name);
    CHECK(keys[i].low <= keys[i].standard);
    CHECK(keys[i].standard <= keys[i].high);
    if (i > 0) CHECK(keys[i - 1].name < keys[i].name);
  }
}

TEST_CASE("two keys never have one name") {
  Trust trust;
  trust.add(test::key_id(1), "alice");
  trust.add(test::key_id(2), "alice");
  trust.add(test::key_id(1), "bob");  // of two names of a key the first counts
  CHECK(trust.names().at(test::key_id(1)) == "alice");
  CHECK(trust.names().at(test::key_id(2)) == "alice " + test::key_id(2).brief());
}

TEST_CASE("trust accepts whom it names and nobody else") {
  const Trust nobody;
  CHECK(*nobody.check(test::key_id(1), "task") == "self-asserted");
  Trust one;
  one.add(test::key_id(1));
  CHECK(*one.check(test::key_id(1), "task") == "trusted");
  const auto other = one.check(test::key_id(2), "T.json");
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().code == ErrorCode::kUnauthorised);
  CHECK_FALSE(Trust::load("no/such/file.pub.pem").ok());
}
