#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dgx/core/json_output.h"
#include "dgx/core/time_text.h"
#include "dgx/crypto/key_file.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/verdict_words.h"
#include "dgx/ledger/ledger.h"
#include "dgx/manifest/file_kind.h"
#include "dgx/manifest/policy.h"
#include "dgx/manifest/statement.h"
#include "dgx/manifest/trust.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "dgx/protocol/referee.h"
#include "dgx/protocol/shards.h"
#include "inspect/describe.h"
#include "settle/read_ledger.h"
#include "train/log_rows.h"
#include "train/resume_point.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kStatesExtension = ".states";
constexpr std::string_view kLossesExtension = ".losses";
constexpr std::string_view kSecretExtension = ".secret";
constexpr std::string_view kRevealedExtension = ".revealed";

/// The signers to trust; with --trust, a signer who is not named is refused.
Result<manifest::Trust> trust_of(const JobContext& context) {
  if (!context.trust) return manifest::Trust();
  return manifest::Trust::load(*context.trust);
}

/// A statement's fields: id, signer, the trust in the signer, and the predicate as it was signed.
template <class T>
Result<std::vector<Description::Field>> statement_fields(const manifest::Signed<T>& statement,
                                                         const std::string& path, const JobContext& context) {
  DGX_TRY(const manifest::Trust trust, trust_of(context));
  DGX_TRY(const std::string_view standing, trust.check(statement.key_id, path + ": the signer"));
  DGX_TRY(const manifest::Envelope envelope, manifest::parse_envelope(statement.envelope));
  DGX_TRY(json::Value payload, json::parse(envelope.payload));
  return std::vector<Description::Field>{{"id", statement.id.hex()},
                                         {"signer", statement.key_id.hex()},
                                         {"identity", standing},
                                         {"predicate", payload.as_object()->at("predicate")}};
}

/// Recomputes the digests by which a statement binds files next to it.
class Beside {
 public:
  Beside(std::string path, Description& out) : path_(std::move(path)), out_(out) {}

  Status task(const manifest::Task& task) {
    DGX_CHECK(program(".program.jsonl", task.program, "step program"));
    return program(".eval.jsonl", task.evaluation, "evaluation program");
  }

  Status proof(const manifest::Proof& proof) {
    return file(kStatesExtension, "states", [&](const std::string& path, const std::string& text) -> Status {
      const auto states = manifest::decode_states(text, proof);
      return states.ok() ? Status() : within(path, states.error());
    });
  }

  Status verdict(const manifest::Verdict& verdict) {
    return file(".rows.jsonl", "rows", [&](const std::string& path, const std::string& text) -> Status {
      const auto rows = manifest::decode_rows(text, verdict);
      return rows.ok() ? Status() : within(path, rows.error());
    });
  }

 private:
  Status program(std::string_view extension, const manifest::ProgramReference& reference,
                 const std::string& what) {
    return file(extension, what, [&](const std::string& path, const std::string&) -> Status {
      DGX_TRY([[maybe_unused]] const auto program, open_program(path, reference, what));
      return {};
    });
  }

  template <class Check>
  Status file(std::string_view extension, const std::string& what, const Check& check) {
    const std::string path = beside(path_, extension);
    if (path_ == "-" || !exists(path)) return out_.absent.push_back(what), Status();
    DGX_TRY(const std::string text, read_file(path, std::size_t{1} << 30));
    DGX_CHECK(check(path, text));
    return out_.recomputed.push_back(what), Status();
  }

  std::string path_;
  Description& out_;
};

Result<Description> describe_statement(const std::string& path, std::string_view text, Recompute recompute,
                                       const JobContext& context) {
  auto statement = manifest::open_any(text);
  if (!statement.ok()) return within(path, std::move(statement).error());
  Description out{std::string(manifest::name_of(manifest::kind_of(statement->body))), {}, {}, {}};
  DGX_TRY(out.fields, statement_fields(*statement, path, context));
  if (const auto* verdict = std::get_if<manifest::Verdict>(&statement->body)) {
    out.verdict = *verdict;
    out.fields.insert(out.fields.begin(), {std::string(kInWords), words_of(*verdict)});
  }
  if (recompute == Recompute::kNo) return out;
  out.recomputed = {"id", "signature"};
  Beside files(path, out);
  if (const auto* task = std::get_if<manifest::Task>(&statement->body)) DGX_CHECK(files.task(*task));
  if (const auto* proof = std::get_if<manifest::Proof>(&statement->body)) DGX_CHECK(files.proof(*proof));
  if (const auto* verdict = std::get_if<manifest::Verdict>(&statement->body))
    DGX_CHECK(files.verdict(*verdict));
  return out;
}

/// A string field of a move's `say`; a move may say anything.
std::string said_word(const json::Object& say, const char* key) {
  const auto found = say.find(key);
  const std::string* word = found == say.end() ? nullptr : found->second.as_string();
  const bool is_word = word != nullptr && !word->empty() && word->size() <= 16 &&
                       std::all_of(word->begin(), word->end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return is_word ? *word : "?";
}

/// A dispute statement's subject, in a few words; empty for other kinds.
struct DisputeWords {
  std::string operator()(const manifest::Challenge& challenge) const {
    return fmt::format("{}, {} {}", challenge.verdict ? "verdict" : "proof",
                       manifest::name_of(challenge.about), challenge.segment);
  }
  std::string operator()(const manifest::Move& move) const {
    const std::string kind = said_word(move.say, "kind");
    return fmt::format("turn {}: {}", move.turn,
                       kind == "claim" ? "claim " + said_word(move.say, "claim") : kind);
  }
  std::string operator()(const manifest::Ruling& ruling) const { return ruling.falls ? "falls" : "stands"; }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

/// Adds the column "about" to a table of statements if any of `words` is not empty.
void add_about(const std::vector<std::string>& words, json::Output::Array& rows,
               std::vector<std::string>& columns) {
  if (std::all_of(words.begin(), words.end(), [](const std::string& one) { return one.empty(); })) return;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].as_object()->emplace("about", words[i].empty() ? json::Output() : json::Output(words[i]));
  columns.emplace_back("about");
}

/// Adds the column "logged", the times by receipts, to a table of statements if there are any.
void add_logged(const std::vector<Digest>& ids, const std::map<Digest, std::string>& logged,
                json::Output::Array& rows, std::vector<std::string>& columns) {
  if (logged.empty()) return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto found = logged.find(ids[i]);
    rows[i].as_object()->emplace("logged", found == logged.end() ? "-" : found->second);
  }
  columns.emplace_back("logged");
}

json::Output::Object statement_row(const manifest::Signed<manifest::Body>& statement) {
  return {{"kind", manifest::name_of(manifest::kind_of(statement.body))},
          {"id", statement.id.hex()},
          {"signer", statement.key_id.hex()}};
}

Result<Description> describe_ledger(const std::string& path, Recompute recompute, const JobContext& context) {
  json::Output::Array rows;
  std::vector<std::string> abouts;
  const auto visit = [&](std::size_t index, const manifest::Signed<manifest::Body>& statement,
                         std::int64_t milliseconds) {
    if (index == 0) rows.clear(), abouts.clear();
    json::Output::Object row = statement_row(statement);
    abouts.push_back(std::visit(DisputeWords{}, statement.body));
    row.emplace("entry", json::integer_in_output(static_cast<std::int64_t>(index)));
    row.emplace("time", utc_text(milliseconds));
    rows.emplace_back(std::move(row));
  };
  DGX_TRY(const ledger::Log log, read_ledger(ledger_file(path, context), visit));
  DGX_TRY(const manifest::Trust trust, trust_of(context));
  DGX_TRY([[maybe_unused]] const auto word, trust.check(log.operator_id(), path + ": the operator"));
  const manifest::RootReference head = log.head();
  Description out{"ledger",
                  {{"id", log.id().hex()},
                   {"operator", log.operator_id().hex()},
                   {"entries", json::integer_in_output(head.count)},
                   {"root", head.root.hex()},
                   {"time", utc_text(log.now())}},
                  {},
                  {}};
  if (!log.torn.empty()) out.fields.push_back({"torn", log.torn});
  std::vector<std::string> columns{"entry", "time", "kind", "id", "signer"};
  add_about(abouts, rows, columns);
  out.fields.push_back({"log", std::move(rows), std::move(columns)});
  if (recompute == Recompute::kYes) out.recomputed = {"ids", "signatures", "receipts", "heads"};
  return out;
}

Result<Description> describe_statements(const std::string& path, const std::string& text, Recompute recompute,
                                        const JobContext& context) {
  DGX_TRY(const manifest::Trust trust, trust_of(context));
  json::Output::Array rows;
  std::vector<std::string> abouts;
  std::vector<Digest> ids;
  std::map<Digest, std::string> logged;  // times that receipts among them vouch for
  std::vector<manifest::Kind> kinds;
  for (const std::string_view line : program::lines_of(text)) {
    const auto statement = manifest::open_any(line);
    const std::string place = fmt::format("{}: line {}", path, rows.size() + 1);
    if (!statement.ok()) return within(place, statement.error());
    DGX_TRY([[maybe_unused]] const auto word, trust.check(statement->key_id, place + ": the signer"));
    rows.emplace_back(statement_row(*statement));
    abouts.push_back(std::visit(DisputeWords{}, statement->body));
    ids.push_back(statement->id);
    kinds.push_back(manifest::kind_of(statement->body));
    if (const auto* receipt = std::get_if<manifest::Receipt>(&statement->body))
      logged.emplace(receipt->statement, utc_text(receipt->milliseconds));
  }
  Description out{
      "statements", {{"count", json::integer_in_output(static_cast<std::int64_t>(rows.size()))}}, {}, {}};
  std::vector<std::string> columns{"kind", "id", "signer"};
  add_about(abouts, rows, columns);
  add_logged(ids, logged, rows, columns);
  out.fields.push_back({"statements", std::move(rows), std::move(columns)});
  if (std::find(kinds.begin(), kinds.end(), manifest::Kind::kChallenge) != kinds.end() &&
      kinds.front() == manifest::Kind::kTask) {
    const auto dispute = protocol::play_transcript(text);
    out.fields.push_back({"game", dispute.ok() ? protocol::standing_in_words(dispute->game)
                                               : "none: " + dispute.error().message});
  }
  if (recompute == Recompute::kYes) out.recomputed = {"ids", "signatures"};
  return out;
}

json::Array counts_table(const std::map<std::string, std::int64_t>& counts, const std::string& key,
                         const std::string& number) {
  json::Array rows;
  for (const auto& [name, count] : counts)
    rows.emplace_back(json::Object{{key, name}, {number, json::integer_in_output(count)}});
  return rows;
}

Result<Description> describe_program(const std::string& path, const std::string& text, Recompute recompute) {
  auto program = program::parse_program(text);
  if (!program.ok()) return within(path, std::move(program).error());
  const bool trains = std::any_of(program->values.begin(), program->values.end(),
                                  [](const auto& v) { return v.next.has_value(); });
  const auto role = trains ? program::ProgramRole::kTraining : program::ProgramRole::kEvaluation;
  if (auto checked = program::check_program(*program, role); !checked.ok())
    return within(path, std::move(checked).error());
  const program::Cost cost = program::cost_of(*program);
  std::map<std::string, std::int64_t> kinds;
  for (const kernels::Primitive& value : program->values) ++kinds[std::string(kernels::name_of(value.kind))];
  std::map<std::string, std::int64_t> roles;
  for (std::size_t i = 0; i < program::kWorkRoleCount; ++i) {
    if (cost.by_role[i] > 0)
      roles[std::string(program::name_of(static_cast<program::WorkRole>(i)))] = cost.by_role[i];
  }
  std::map<std::string, std::int64_t> operations;
  for (std::size_t i = 0; i < cost.operations.size(); ++i) {
    if (cost.operations[i] > 0)
      operations[std::string(kernels::name_of(static_cast<kernels::ScalarOp>(i)))] = cost.operations[i];
  }
  Description out{"program",
                  {{"role", trains ? "training step" : "evaluation"},
                   {"root", program::program_root(text).hex()},
                   {"values", json::integer_in_output(static_cast<std::int64_t>(program->values.size()))},
                   {"operations", json::integer_in_output(cost.total_operations)},
                   {"matrix_product_flop", json::integer_in_output(cost.matrix_product_flop)},
                   {"state_bytes", json::integer_in_output(cost.state_bytes)},
                   {"value_bytes", json::integer_in_output(cost.value_bytes)}},
                  {},
                  {}};
  out.fields.push_back({"kinds", counts_table(kinds, "kind", "values"), {"kind", "values"}});
  out.fields.push_back({"work", counts_table(roles, "role", "operations"), {"role", "operations"}});
  out.fields.push_back(
      {"scalar_operations", counts_table(operations, "operation", "count"), {"operation", "count"}});
  if (recompute == Recompute::kYes) out.recomputed = {"root"};
  return out;
}

Result<Description> describe_states(const std::string& path, const std::string& bytes) {
  constexpr std::size_t kSize = 32;
  if (bytes.empty() || bytes.size() % kSize != 0)
    return malformed(path + ": not a whole number of 32-byte digests");
  std::vector<Digest> states;
  json::Array rows;
  for (std::size_t at = 0; at < bytes.size(); at += kSize) {
    DGX_TRY(const Digest state, digest_from_bytes(as_bytes(std::string_view(bytes).substr(at, kSize))));
    rows.emplace_back(
        json::Object{{"state", json::integer_in_output(static_cast<std::int64_t>(states.size()))},
                     {"digest", state.hex()}});
    states.push_back(state);
  }
  const manifest::RootReference root = manifest::states_root(states);
  return Description{"states",
                     {{"count", json::integer_in_output(root.count)},
                      {"root", root.root.hex()},
                      {"states", std::move(rows), {"state", "digest"}}},
                     {"root"},
                     {}};
}

json::Object verdict_row(const manifest::VerdictRow& row) {
  return {{"segment", json::integer_in_output(row.index)},
          {"agrees", row.agrees},
          {"reason", manifest::name_of(row.reason)},
          {"expected", row.expected.hex()},
          {"recomputed", row.recomputed.hex()}};
}

Result<Description> describe_rows(const std::string& path, const std::string& text) {
  json::Array rows;
  for (const std::string_view line : program::lines_of(text)) {
    const std::string where = fmt::format("{}: line {}", path, rows.size() + 1);
    const auto value = json::parse_canonical(line);
    if (!value.ok()) return within(where, value.error());
    const auto row = manifest::VerdictRow::from_json(*value);
    if (!row.ok()) return within(where, row.error());
    rows.emplace_back(verdict_row(*row));
  }
  Description out{
      "rows", {{"count", json::integer_in_output(static_cast<std::int64_t>(rows.size()))}}, {}, {}};
  out.fields.push_back({"rows", std::move(rows), {"segment", "agrees", "reason", "expected", "recomputed"}});
  return out;
}

Result<Description> describe_shard(const std::string& path, const std::string& text) {
  const auto shard = protocol::decode_shard(std::string_view(text).substr(0, text.find('\n')));
  if (!shard.ok()) return within(path, shard.error());
  json::Array rows;
  for (const manifest::VerdictRow& row : shard->rows) rows.emplace_back(verdict_row(row));
  return Description{"shard",
                     {{"role", std::string(protocol::name_of(shard->role))},
                      {"version", shard->version},
                      {"task", shard->assignment.task.hex()},
                      {"proof", shard->assignment.proof.hex()},
                      {"verifier", shard->assignment.verifier.hex()},
                      {"index", json::integer_in_output(shard->index)},
                      {"count", json::integer_in_output(shard->count)},
                      {"drawn", json::integer_in_output(static_cast<std::int64_t>(shard->drawn.size()))},
                      {"rows", std::move(rows), {"segment", "agrees", "reason", "expected", "recomputed"}}},
                     {},
                     {}};
}

Result<Description> describe_policy(const std::string& path, const std::string& text) {
  const auto policy = manifest::parse_policy_file(text);
  if (!policy.ok()) return within(path, policy.error());
  Description out{"policy", {}, {}, {}};
  for (const manifest::PolicyKey& key : manifest::policy_keys()) {
    out.fields.push_back({std::string(key.name), json::integer_in_output((*policy).*(key.member))});
  }
  return out;
}

/// A key, whose passphrase is not asked for: that it is encrypted is an answer.
Result<Description> describe_key(const std::string& path, const std::string& text) {
  if (crypto::is_public_key(text)) {
    const auto key = crypto::parse_public_key(text);
    if (!key.ok()) return within(path, key.error());
    return Description{"public key", {{"key_id", crypto::key_id(*key).hex()}}, {}, {}};
  }
  const auto key = crypto::parse_secret_key(text);
  if (key.ok())
    return Description{"private key", {{"key_id", crypto::key_id(key->public_key()).hex()}}, {}, {}};
  if (key.error().code != ErrorCode::kUnauthorised) return within(path, key.error());
  return Description{"private key", {{"encrypted", true}}, {}, {}};
}

/// COMMIT.secret: not what it says, but the commitment that it opens, which is public. COMMIT.revealed: the
/// proof for which that was done.
Result<Description> describe_digest_line(const std::string& path, std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto digest = digest_from_hex(text);
  if (!digest.ok()) return within(path, digest.error());
  if (path.ends_with(kRevealedExtension)) return Description{"revealed", {{"proof", digest->hex()}}, {}, {}};
  return Description{"secret", {{"commitment", manifest::beacon_commitment(*digest).hex()}}, {}, {}};
}

/// RUN/log.csv or RUN/validation.csv, by its header.
Result<Description> describe_log(const std::string& path, const std::string& text, const LogFormat& format) {
  std::int64_t rows = 0;
  std::vector<double> last;
  const auto read = read_log_rows(text, format, [&](LogRow row) {
    last.assign(row.begin(), row.end());
    return ++rows, true;
  });
  if (!read.ok()) return within(path, read.error());
  Description out{&format == &kTrainingFormat ? "training log" : "validation log",
                  {{"rows", json::integer_in_output(rows)}},
                  {},
                  {}};
  if (rows == 0) return out;
  out.fields.push_back({"last_step", json::integer_in_output(static_cast<std::int64_t>(last[kStepColumn]))});
  out.fields.push_back({"last_loss", last[kLossColumn]});
  return out;
}

/// The losses since the last checkpoint of a run that was interrupted.
Result<Description> describe_losses(const std::string& path, const std::string& bytes) {
  const auto found = parse_resume_losses(bytes);
  if (!found.ok()) return malformed(path + ": " + found.error().message);
  Description out{
      "losses",
      {{"state", found->states[0].hex()}, {"count", json::integer_in_output(std::ssize(found->losses))}},
      {},
      {}};
  if (!found->losses.empty()) out.fields.push_back({"last", found->losses.back()});
  return out;
}

}  // namespace

Result<Description> describe_text(const std::string& path, const std::string& text, Recompute recompute,
                                  const JobContext& context) {
  using manifest::FileKind;
  const FileKind kind = manifest::recognise(text).kind;
  if (kind == FileKind::kPublicKey || kind == FileKind::kPrivateKey) return describe_key(path, text);
  if (path.ends_with(kStatesExtension)) return describe_states(path, text);
  if (path.ends_with(kLossesExtension)) return describe_losses(path, text);
  if (path.ends_with(kSecretExtension) || path.ends_with(kRevealedExtension))
    return describe_digest_line(path, text);
  for (const LogFormat* format : {&kTrainingFormat, &kValidationFormat}) {
    if (text.starts_with(std::string(format->header) + "\n")) return describe_log(path, text, *format);
  }
  const bool is_signed = kind == FileKind::kStatement || kind == FileKind::kStatements;
  if (is_signed && path != "-" && exists(ledger::receipts_path(path)))
    return describe_ledger(path, recompute, context);
  switch (kind) {
    case FileKind::kStatement: return describe_statement(path, text, recompute, context);
    case FileKind::kStatements: return describe_statements(path, text, recompute, context);
    case FileKind::kProgram: return describe_program(path, text, recompute);
    case FileKind::kShard: return describe_shard(path, text);
    case FileKind::kRows: return describe_rows(path, text);
    case FileKind::kPolicy: return describe_policy(path, text);
    default: break;
  }
  return malformed(path + ": is not a file that dgx writes");
}

}  // namespace dgx::jobs
