#include "dgx/manifest/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"
#include "dgx/merkle/tree.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kMaxRowBytes = 1024;
constexpr std::array kOutcomes{Outcome::kAccepted, Outcome::kRefuted};
constexpr std::array kDraws{Draw::kPolicy, Draw::kChosen, Draw::kAudit};
constexpr std::array kReasons{RowReason::kEqual, RowReason::kDigest, RowReason::kStep, RowReason::kState,
                              RowReason::kNonFinite};

VerdictRow read_row(json::Fields& in) {
  VerdictRow out;
  out.index = in.integer("index", 0, kMaxStates);
  out.expected = read_digest(in, "expected");
  out.recomputed = read_digest(in, "recomputed");
  out.agrees = in.boolean("agrees");
  out.reason = read_enum(in, "reason", kReasons);
  out.witness = read_digest(in, "witness");
  if (out.agrees != (out.expected == out.recomputed)) in.fail("agrees", "contradicts the digests");
  if (out.agrees != (out.reason == RowReason::kEqual)) in.fail("reason", "does not fit `agrees`");
  return out;
}

RootReference read_rows(json::Fields& in) {
  RootReference out;
  out.count = in.integer("count", 0, kMaxStates);
  out.root = read_digest(in, "root");
  return out;
}

/// True for one to six significant digits, of which neither the first nor the last is a zero.
bool is_significand(std::string_view digits) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !digits.empty() && digits.size() <= 6 && std::all_of(digits.begin(), digits.end(), is_digit) &&
         digits.front() != '0' && digits.back() != '0';
}

/// True if a chance can have this text: "0", "1", "0.0520936" or "4.06111e-23" (dgx-protocol(7), "Chances").
bool is_chance(std::string_view text) {
  if (text == "0" || text == "1") return true;
  if (text.starts_with("0.")) {
    const std::size_t zeros = std::min(text.find_first_not_of('0', 2), text.size()) - 2;
    return zeros <= 5 && is_significand(text.substr(2 + zeros));
  }
  const std::size_t split = text.find("e-");
  if (split == std::string_view::npos || split == 2) return false;
  std::string digits(text.substr(0, split));
  if (digits.size() > 2 && digits[1] == '.') digits.erase(1, 1);
  const std::string_view exponent = text.substr(split + 2);
  const bool counts = !exponent.empty() && exponent.front() != '0' &&
                      exponent.find_first_not_of("0123456789") == std::string_view::npos;
  const bool small = exponent.size() > 1 || exponent >= "7";
  return (split == 1 || text[1] == '.') && is_significand(digits) && counts && small;
}

MissProbability read_probabilities(json::Fields& in) {
  const auto chance = [&](const char* key) {
    std::string out = read_name(in, key, 32);
    if (!is_chance(out)) in.fail(key, "is not a probability in the prescribed form");
    return out;
  };
  MissProbability out;
  out.one_segment = chance("one_segment");
  out.one_percent = chance("one_percent");
  out.ten_percent = chance("ten_percent");
  return out;
}

std::vector<std::int64_t> read_denied(json::Fields& in) {
  std::vector<std::int64_t> out;
  for (const json::Value& item : in.array("denied", kMostWitnesses)) {
    const std::int64_t* index = item.as_int();
    if (index == nullptr || *index < 0 || *index > kMaxStates || (!out.empty() && *index <= out.back())) {
      in.fail("denied", fmt::format("entry {} is not an ascending segment number", out.size()));
      return out;
    }
    out.push_back(*index);
  }
  return out;
}

/// Checks what audits alone have, and the witnesses that any acceptance may state.
void check_audit(json::Fields& in, const Verdict& verdict) {
  if ((verdict.draw == Draw::kAudit) != verdict.audits.has_value())
    in.fail("audits", "must be present if and only if the draw is \"audit\"");
  if (!verdict.denied.empty() && verdict.denied.back() >= verdict.segments)
    in.fail("denied", fmt::format("has segment {} of {}", verdict.denied.back(), verdict.segments));
  if (verdict.witnesses.empty()) return;
  if (verdict.outcome != Outcome::kAccepted) in.fail("witnesses", "are those of an acceptance alone");
  if (std::ssize(verdict.witnesses) != verdict.replayed)
    in.fail("witnesses", fmt::format("are {} of {} rows", verdict.witnesses.size(), verdict.replayed));
}

void check_consistent(json::Fields& in, const Verdict& verdict) {
  if (verdict.draw != Draw::kChosen && !verdict.beacon)
    in.fail("beacon", "is required, since the draw is the policy's");
  check_audit(in, verdict);
  if (verdict.rows.count != verdict.replayed)
    in.fail("rows", "count: is not the number of replayed segments");
  if (verdict.replayed > verdict.segments)
    in.fail("replayed", fmt::format("is {} of {} segments", verdict.replayed, verdict.segments));
  const bool disagrees = verdict.first_disagreement.has_value();
  if (disagrees != (verdict.outcome == Outcome::kRefuted)) {
    in.fail("first_disagreement", "must be present if and only if the outcome is refuted");
  }
  if (disagrees && verdict.first_disagreement->agrees) in.fail("first_disagreement", "agrees");
  if (verdict.outcome == Outcome::kAccepted && verdict.replayed == 0)
    in.fail("outcome", "accepted without a replay");
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  constexpr std::array<std::string_view, 2> kNames{"accepted", "refuted"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::string_view name_of(Draw draw) {
  constexpr std::array<std::string_view, 3> kNames{"policy", "chosen", "audit"};
  return kNames[static_cast<std::size_t>(draw)];
}

std::string_view name_of(RowReason reason) {
  constexpr std::array<std::string_view, 5> kNames{"equal", "digest", "step", "state", "non-finite"};
  return kNames[static_cast<std::size_t>(reason)];
}

json::Value VerdictRow::to_json() const {
  return json::Object{{"index", index},   {"expected", expected.hex()}, {"recomputed", recomputed.hex()},
                      {"agrees", agrees}, {"reason", name_of(reason)},  {"witness", witness.hex()}};
}

Result<VerdictRow> VerdictRow::from_json(const json::Value& value) {
  json::Fields in(value, "row");
  const VerdictRow out = read_row(in);
  DGX_CHECK(in.finish());
  return out;
}

json::Object Verdict::predicate() const {
  json::Object out{{"task", task.hex()},
                   {"proof", proof.hex()},
                   {"draw", name_of(draw)},
                   {"outcome", name_of(outcome)},
                   {"segments", segments},
                   {"replayed", replayed},
                   {"rows", json::Object{{"count", rows.count}, {"root", rows.root.hex()}}},
                   {"work", work},
                   {"miss_probability", json::Object{{"one_segment", miss_probability.one_segment},
                                                     {"one_percent", miss_probability.one_percent},
                                                     {"ten_percent", miss_probability.ten_percent}}},
                   {"nonce", nonce.hex()}};
  if (beacon) out.emplace("beacon", beacon->hex());
  if (first_disagreement) out.emplace("first_disagreement", first_disagreement->to_json());
  if (!witnesses.empty()) out.emplace("witnesses", digests_json(witnesses));
  if (audits) {
    out.emplace("audits", audits->hex());
    out.emplace("denied", json::Array(denied.begin(), denied.end()));
  }
  return out;
}

Verdict Verdict::read(json::Fields& in) {
  Verdict out;
  out.task = read_digest(in, "task");
  out.proof = read_digest(in, "proof");
  out.beacon = read_optional_digest(in, "beacon");
  out.draw = read_enum(in, "draw", kDraws);
  out.outcome = read_enum(in, "outcome", kOutcomes);
  out.segments = in.integer("segments", 1, kMaxStates);
  out.replayed = in.integer("replayed", 0, kMaxStates);
  out.rows = read_object(in, "rows", read_rows);
  if (in.has("first_disagreement")) out.first_disagreement = read_object(in, "first_disagreement", read_row);
  out.work = in.integer("work", 0, kMaxInteger);
  out.miss_probability = read_object(in, "miss_probability", read_probabilities);
  out.nonce = read_digest(in, "nonce");
  if (in.has("witnesses")) {
    out.witnesses = read_digests(in, "witnesses", kMostWitnesses);
    if (out.witnesses.empty()) in.fail("witnesses", "are none");
  }
  out.audits = read_optional_digest(in, "audits");
  if (out.audits) out.denied = read_denied(in);
  check_consistent(in, out);
  return out;
}

std::vector<Subject> Verdict::subjects() const {
  if (audits) return {{"proof", proof}, {"verdict", *audits}, {"rows", rows.root}};
  return {{"proof", proof}, {"rows", rows.root}};
}

Digest verdict_commitment(const Digest& verdict_id, const Digest& nonce) {
  return crypto::sha256(ByteWriter().text("dgx-verdict-commit").digest(verdict_id).digest(nonce).bytes());
}

json::Object VerdictCommitment::predicate() const {
  json::Object out{{"task", task.hex()}, {"proof", proof.hex()}, {"commitment", commitment.hex()}};
  if (audits) out.emplace("audits", audits->hex());
  return out;
}

VerdictCommitment VerdictCommitment::read(json::Fields& in) {
  VerdictCommitment out;
  out.task = read_digest(in, "task");
  out.proof = read_digest(in, "proof");
  out.commitment = read_digest(in, "commitment");
  out.audits = read_optional_digest(in, "audits");
  return out;
}

std::vector<Subject> VerdictCommitment::subjects() const {
  if (audits) return {{"proof", proof}, {"verdict", *audits}, {"commitment", commitment}};
  return {{"proof", proof}, {"commitment", commitment}};
}

RootReference rows_root(std::span<const VerdictRow> rows) {
  merkle::TreeBuilder tree;
  for (const VerdictRow& row : rows) tree.add(as_bytes(row.to_json().dump()));
  return {tree.root(), static_cast<std::int64_t>(rows.size())};
}

std::string encode_rows(std::span<const VerdictRow> rows) {
  std::string out;
  for (const VerdictRow& row : rows) out += row.to_json().dump() + "\n";
  return out;
}

Result<std::vector<VerdictRow>> decode_rows(std::string_view text, const Verdict& verdict) {
  std::vector<VerdictRow> out;
  while (!text.empty()) {
    const std::string where = fmt::format("rows: line {}", out.size() + 1);
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return malformed(where + ": no newline at its end");
    if (static_cast<std::int64_t>(out.size()) == verdict.rows.count)
      return malformed(where + ": more than the verdict has");
    const auto value = json::parse_canonical(text.substr(0, end), {.bytes = kMaxRowBytes, .depth = 2});
    if (!value.ok()) return within(where, value.error());
    const auto row = VerdictRow::from_json(*value);
    if (!row.ok()) return within(where, row.error());
    if (!out.empty() && row->index <= out.back().index) return malformed(where + ": segments do not ascend");
    out.push_back(*row);
    text.remove_prefix(end + 1);
  }
  if (rows_root(out) != verdict.rows) return malformed("rows: their root is not the verdict's");
  return out;
}

}  // namespace dgx::manifest
