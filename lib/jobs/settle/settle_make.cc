#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "dgx/core/text.h"
#include "dgx/jobs/check_model.h"
#include "dgx/jobs/ledger_name.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_program.h"
#include "dgx/manifest/fields.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/verify.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Kind;
using manifest::Signed;

/// Everything from which a statement's fields may follow. The signatures are checked, and their signers are
/// among those whom the user accepts.
struct Sources {
  std::optional<Signed<manifest::Task>> task;
  std::optional<Signed<Body>> about;
  std::optional<Digest> ledger;
  std::optional<std::int64_t> segment_milliseconds;  ///< the longest segment's time, by the signer's profile
  std::optional<std::string> model;                  ///< the file that was delivered
  int threads = 1;
  Digest signer;  ///< key id
};

[[nodiscard]] Error needs(std::string_view kind, std::string_view what) {
  return usage_error(fmt::format("make {}: needs {}", kind, what));
}

/// The statement that --about names: checked to be of kind T and of the task.
template <class T>
Result<Signed<T>> about(const Sources& sources, std::string_view kind) {
  if (!sources.about) return needs(kind, fmt::format("--about, a {} statement", name_of(T::kKind)));
  auto statement = manifest::as<T>(*sources.about);
  if (!statement.ok()) return within("--about", std::move(statement).error());
  if constexpr (requires { statement->body.task; }) {
    if (statement->body.task != sources.task->id) {
      return malformed(fmt::format("--about: is a {} of task {}, not {}", name_of(T::kKind),
                                   statement->body.task.brief(), sources.task->id.brief()));
    }
  }
  return statement;
}

/// Two statements with the same content count once, so equal transfers need different references.
Result<json::Object> transfer_fields(const Sources& sources) {
  DGX_TRY(const std::string word, random_word());
  json::Object out{
      {"reference", sources.task ? fmt::format("task {} {}", sources.task->id.brief(), word) : word}};
  if (sources.ledger) out.emplace("ledger", sources.ledger->hex());
  return out;
}

/// The fields of a deposit; with a task, its amount is what the submitter has to lock.
Result<json::Object> deposit_fields(const Sources& sources) {
  DGX_TRY(json::Object out, transfer_fields(sources));
  if (!sources.task) return out;
  out.emplace("account", sources.task->key_id.hex());
  out.emplace("amount", sources.task->body.estimate.escrow);
  return out;
}

Result<json::Object> withdrawal_fields(const Sources& sources) {
  DGX_TRY(json::Object out, transfer_fields(sources));
  out.emplace("account", sources.signer.hex());
  return out;
}

Result<json::Object> offer_end_fields(const Sources& sources) {
  DGX_TRY(const auto offer, about<manifest::BeaconCommitment>(sources, "offer-end"));
  return json::Object{{"task", sources.task->id.hex()}, {"commitment", offer.id.hex()}};
}

Result<json::Object> assign_fields(const Sources& sources) {
  const manifest::Task& task = sources.task->body;
  json::Object out{{"task", sources.task->id.hex()},
                   {"dataset", task.dataset.digest.hex()},
                   {"initial", task.initial.digest.hex()}};
  if (sources.segment_milliseconds) out.emplace("segment_milliseconds", *sources.segment_milliseconds);
  if (!sources.about) return out;
  DGX_TRY(const auto offer, about<manifest::BeaconCommitment>(sources, "assign"));
  out.emplace("commitment", offer.id.hex());
  return out;
}

Result<json::Object> verdict_commitment_fields(const Sources& sources) {
  DGX_TRY(const auto verdict, about<manifest::Verdict>(sources, "verdict-commitment"));
  if (verdict.key_id != sources.signer)
    return unauthorised("--about: the verdict is signed by another key than --key");
  json::Object out{{"task", sources.task->id.hex()},
                   {"proof", verdict.body.proof.hex()},
                   {"commitment", manifest::verdict_commitment(verdict.id, verdict.body.nonce).hex()}};
  if (verdict.body.audits) out.emplace("audits", verdict.body.audits->hex());
  return out;
}

/// kMalformed unless the file is the final state of the proof, or its model.
Status check_delivered(const std::string& path, const Digest& final_state, int threads) {
  DGX_TRY(const ModelComparison found, compare_model(path, final_state, threads));
  if (found.same && !found.averages) return {};
  if (found.averages) {
    return malformed("--model: " + path + ": has averages of the parameters, not the model",
                     "ask for the model, or for the state, which has both");
  }
  const std::string hint = "dgx-inspect check-model tells the difference";
  if (found.state != final_state) {
    return malformed(fmt::format("--model: {}: is from state {}, the proof's final state is {}", path,
                                 found.state.brief(), final_state.brief()),
                     hint);
  }
  const TensorDifference& first = found.differences.front();
  return malformed(fmt::format("--model: {}: {} {}", path, first.tensor, first.difference), hint);
}

Result<json::Object> delivery_fields(const Sources& sources) {
  json::Object out{{"task", sources.task->id.hex()}};
  if (!sources.about) {
    if (sources.model) return needs("delivery", "--about, the proof to compare --model with");
    return out;
  }
  DGX_TRY(const auto proof, about<manifest::Proof>(sources, "delivery"));
  DGX_CHECK(protocol::check_proof(*sources.task, proof));
  if (sources.model) DGX_CHECK(check_delivered(*sources.model, proof.body.final_state, sources.threads));
  out.emplace("proof", proof.id.hex());
  out.emplace("final", proof.body.final_state.hex());
  return out;
}

template <class T>
Result<Body> read_body(json::Fields& in) {
  return Body(T::read(in));
}

/// The way to make a kind: a function for the fields that follow, and the reader that judges all of them.
struct Recipe {
  Kind kind;
  bool needs_task;
  Result<json::Object> (*fields)(const Sources&);
  Result<Body> (*read)(json::Fields&);
};

constexpr std::array kRecipes{
    Recipe{Kind::kAssign, true, assign_fields, read_body<manifest::Assign>},
    Recipe{Kind::kDelivery, true, delivery_fields, read_body<manifest::Delivery>},
    Recipe{Kind::kDeposit, false, deposit_fields, read_body<manifest::Deposit>},
    Recipe{Kind::kOfferEnd, true, offer_end_fields, read_body<manifest::OfferEnd>},
    Recipe{Kind::kVerdictCommitment, true, verdict_commitment_fields, read_body<manifest::VerdictCommitment>},
    Recipe{Kind::kWithdrawal, false, withdrawal_fields, read_body<manifest::Withdrawal>}};

Result<const Recipe*> recipe_of(const std::string& name) {
  for (const Recipe& recipe : kRecipes) {
    if (manifest::name_of(recipe.kind) == name) return &recipe;
  }
  const std::string list =
      fmt::format("use one of {}; the other programs make the rest", fmt::join(makeable_kinds(), ", "));
  return usage_error(fmt::format("make: unknown statement \"{}\"", name),
                     hint_among(name, makeable_kinds(), list));
}

bool is_integer(std::string_view field) { return field == "amount" || field == "segment_milliseconds"; }

/// Sets a field from FIELD=VALUE; `set` has the fields set so far.
Status set_field(const std::string& setting, json::Object& fields, std::vector<std::string>& set) {
  const std::size_t sign = setting.find('=');
  if (sign == std::string::npos || sign == 0)
    return usage_error(fmt::format("--set: \"{}\" is not FIELD=VALUE", setting));
  const std::string field = setting.substr(0, sign);
  const std::string text = setting.substr(sign + 1);
  if (std::find(set.begin(), set.end(), field) != set.end())
    return usage_error(fmt::format("--set: {}: is given twice", field));
  set.push_back(field);
  auto value = is_integer(field)    ? integer_of(field, text)
               : field == "account" ? account_of(text)
                                    : Result<json::Value>(text);
  if (!value.ok()) return within("--set: " + field, std::move(value).error());
  fields.insert_or_assign(field, std::move(value).value());
  return {};
}

/// A hint for a missing field: the option that gives it.
std::string hint_for(const std::string& message) {
  if (message.find(" ledger: ") != std::string::npos)
    return "name the market with --ledger: its id, LEDGER.jsonl, a receipt or a head";
  return "give it with --set FIELD=VALUE, or name the statement that has it with --about";
}

/// Reads the fields as a file's would be, but reports errors as kUsage, since they were typed.
Result<Body> body_of(const Recipe& recipe, const json::Object& fields) {
  const json::Value value(fields);
  json::Fields in(value, std::string(manifest::name_of(recipe.kind)));
  DGX_TRY(Body body, recipe.read(in));
  // A field that is misspelt is missing, too.
  if (const auto unknown = in.unknown()) return usage_error(unknown->message, unknown->hint);
  const Status status = in.finish();
  if (status.ok()) return body;
  const bool missing = status.error().message.ends_with("is missing");
  return usage_error(status.error().message, missing ? hint_for(status.error().message) : "");
}

/// Refuses an assign that no ledger of the task's policy would take.
Status check_assign(const manifest::Task& task, const manifest::Assign& assign) {
  if (task.policy.beacon_source != 0 && assign.commitment)
    return usage_error("assign: commitment: this market draws the verifier", "leave out --about");
  if (task.policy.beacon_source == 0 && !assign.commitment) {
    const std::string message = "assign: commitment: is missing";
    return usage_error(message, hint_for(message));
  }
  return protocol::check_segment_time(task, assign.segment_milliseconds);
}

/// Refuses options from which nothing of this kind follows.
Status check_options(const MakeStatement& options, const Recipe& recipe) {
  const bool transfers = recipe.kind == Kind::kDeposit || recipe.kind == Kind::kWithdrawal;
  if (options.profile && recipe.kind != Kind::kAssign) return usage_error("--profile is only for assign");
  if (options.model && recipe.kind != Kind::kDelivery) return usage_error("--model is only for delivery");
  if (options.about_path && transfers) return usage_error("--about is not for " + options.kind);
  if (options.ledger && !transfers) return usage_error("--ledger is only for deposit and withdrawal");
  return {};
}

/// Opens what the options name, and checks that task, profile, ledger and statement belong together.
Result<Sources> open_sources(const MakeStatement& options, const Recipe& recipe, const crypto::SecretKey& key,
                             const JobContext& context) {
  Sources out;
  out.signer = crypto::key_id(key.public_key());
  out.model = options.model;
  out.threads = context.threads;
  DGX_TRY(const manifest::Trust trust, load_trust(context.trust));
  if (options.task_path) {
    DGX_TRY(out.task, manifest::read_statement<manifest::Task>(*options.task_path));
    DGX_TRY([[maybe_unused]] const auto word,
            trust.check(out.task->key_id, *options.task_path + ": the submitter"));
    if (recipe.kind == Kind::kAssign) DGX_CHECK(check_admission_of(*options.task_path, out.task->body));
  } else if (recipe.needs_task) {
    return needs(options.kind, "TASK.json");
  }
  if (options.profile) {
    DGX_TRY(out.segment_milliseconds,
            profiled_segment_milliseconds(*options.profile, out.task->id, out.signer));
  }
  if (out.task) out.ledger = out.task->body.ledger;
  if (options.ledger) {
    DGX_TRY(const LedgerName ledger, read_ledger_name(*options.ledger));
    if (out.ledger && *out.ledger != ledger.id)
      return malformed(
          fmt::format("--ledger: is {}, the task names {}", ledger.id.brief(), out.ledger->brief()));
    out.ledger = ledger.id;
  }
  if (options.about_path) {
    DGX_TRY(out.about, manifest::read_any(*options.about_path));
    DGX_TRY([[maybe_unused]] const auto word,
            trust.check(out.about->key_id, *options.about_path + ": the signer"));
  }
  return out;
}

}  // namespace

std::vector<std::string> makeable_kinds() {
  std::vector<std::string> out;
  for (const Recipe& recipe : kRecipes) out.emplace_back(manifest::name_of(recipe.kind));
  return out;
}

Result<Signed<Body>> make_statement(const MakeStatement& options, const JobContext& context) {
  DGX_TRY(const Recipe* recipe, recipe_of(options.kind));
  DGX_CHECK(check_options(options, *recipe));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(const Sources sources, open_sources(options, *recipe, key, context));
  if (recipe->kind == Kind::kDelivery && !options.model)
    context.progress.note("no model was compared with the proof's final state; --model FILE does that");
  DGX_TRY(json::Object fields, recipe->fields(sources));
  std::vector<std::string> set;
  for (const std::string& setting : options.settings) DGX_CHECK(set_field(setting, fields, set));
  DGX_TRY(Body body, body_of(*recipe, fields));
  if (const auto* assign = std::get_if<manifest::Assign>(&body))
    DGX_CHECK(check_assign(sources.task->body, *assign));
  return manifest::seal_any(std::move(body), key);
}

}  // namespace dgx::jobs
