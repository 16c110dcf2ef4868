#include "settle/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dgx/core/time_text.h"
#include "dgx/crypto/key_file.h"
#include "dgx/manifest/fields.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

using ledger::VerifierKey;
using manifest::Body;
using manifest::Signed;

constexpr std::size_t kMostWitnesses = 64;

const manifest::Policy& policy_of(const ledger::Log& log) {
  return std::get<manifest::LedgerPolicy>(log.policy.body).policy;
}

/// A witness's key: its text, or the file of a public key, of a witness who has the name that cosign() gives.
Result<VerifierKey> read_witness(const std::string& text) {
  auto key = ledger::parse_verifier_key(text);
  if (key.ok() || !exists(text)) return key;
  DGX_TRY(const crypto::PublicKey own, crypto::read_public_key(text));
  return VerifierKey{witness_name(own), ledger::SignatureType::kCosignature, own};
}

/// Statements that witnesses saw, and their notes of them, by the files given.
struct Sightings {
  std::map<Digest, Signed<Body>> statements;
  std::map<Digest, std::map<std::string, ledger::Sighting>> by_statement;  ///< and by the witness's name

  /// Takes a file: a statement, or a witness's note of one.
  [[nodiscard]] Status take(const std::string& text, const std::vector<VerifierKey>& witnesses) {
    if (text.starts_with('{')) {
      DGX_TRY(auto statement, manifest::open_any(text));
      const Digest id = statement.id;
      statements.emplace(id, std::move(statement));
      return {};
    }
    DGX_TRY(const ledger::Note note, ledger::parse_note(text));
    DGX_TRY(const ledger::Sighting sighting, ledger::parse_sighting(note.text));
    for (VerifierKey witness : witnesses) {
      witness.type = ledger::SignatureType::kEd25519;
      DGX_TRY(const ledger::SignedBy by, ledger::signed_by(note, witness));
      if (by.found) by_statement[sighting.statement].emplace(witness.name, sighting);
    }
    return {};
  }
};

}  // namespace

std::optional<std::int64_t> Watch::Cosigned::latest(std::size_t quorum) const {
  if (quorum == 0 || seconds.size() < quorum) return std::nullopt;
  return seconds[seconds.size() - quorum];
}

std::optional<std::int64_t> Watch::Cosigned::earliest(std::size_t quorum) const {
  if (quorum == 0 || seconds.size() < quorum) return std::nullopt;
  return seconds[quorum - 1];
}

Result<Watch> Watch::open(const LedgerEvidence& evidence) {
  Watch out;
  DGX_CHECK(out.take_witnesses(evidence));
  for (const std::string& path : evidence.cosigned) {
    Status status = out.take_note(path);
    if (!status.ok()) return within(path, std::move(status).error());
  }
  DGX_CHECK(out.take_sightings(evidence.saw));
  return out;
}

/// One key is one witness, whatever names it has.
Status Watch::take_witnesses(const LedgerEvidence& evidence) {
  const auto all = static_cast<std::int64_t>(evidence.witnesses.size());
  if (evidence.witnesses.size() > kMostWitnesses)
    return usage_error(fmt::format("{} witnesses, at most {} allowed", all, kMostWitnesses));
  for (const std::string& text : evidence.witnesses) {
    auto key = read_witness(text);
    if (!key.ok()) return usage_error("--witness: " + key.error().message);
    if (key->type != ledger::SignatureType::kCosignature)
      return usage_error(fmt::format("--witness: {} is no witness's key, whose type is 0x04", key->name));
    const bool again = std::any_of(witnesses_.begin(), witnesses_.end(),
                                   [&](const VerifierKey& other) { return other.key == key->key; });
    if (again) return usage_error(fmt::format("--witness: {} has the key of another one", key->name));
    witnesses_.push_back(*std::move(key));
  }
  const std::int64_t quorum = evidence.quorum.value_or(all);
  if (quorum < std::min<std::int64_t>(1, all) || quorum > all)
    return usage_error(fmt::format("--quorum {}: must be 1 to {}, the number of witnesses", quorum, all));
  quorum_ = static_cast<std::size_t>(quorum);
  return {};
}

Status Watch::take_note(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, ledger::kMaxNoteBytes));
  DGX_TRY(ledger::Note note, ledger::parse_note(text));
  DGX_TRY(const ledger::Checkpoint checkpoint, ledger::parse_checkpoint(note.text));
  Cosigned out{path, std::move(note), checkpoint, {}};
  for (const VerifierKey& witness : witnesses_) {
    DGX_TRY(const ledger::SignedBy by, ledger::signed_by(out.note, witness));
    if (by.found) out.seconds.push_back(by.seconds);
  }
  std::sort(out.seconds.begin(), out.seconds.end());
  notes_.push_back(std::move(out));
  return {};
}

Status Watch::take_sightings(const std::vector<std::string>& paths) {
  Sightings all;
  for (const std::string& path : paths) {
    DGX_TRY(const std::string text, read_file(path, manifest::kMaxEnvelopeBytes + 1));
    Status status = all.take(text, witnesses_);
    if (!status.ok()) return within(path, std::move(status).error());
  }
  for (const auto& [id, by_witness] : all.by_statement) {
    const auto statement = all.statements.find(id);
    if (statement == all.statements.end())
      return usage_error(fmt::format("--saw: statement {} was seen, but is not given itself", id.brief()));
    const Digest& ledger = by_witness.begin()->second.ledger;
    std::vector<std::int64_t> times;
    for (const auto& [name, sighting] : by_witness) {
      if (sighting.ledger != ledger)
        return malformed(fmt::format("--saw: statement {} was seen for two ledgers", id.brief()));
      times.push_back(sighting.milliseconds);
    }
    std::sort(times.begin(), times.end());
    if (times.size() < quorum_)
      return usage_error(fmt::format("--saw: statement {} was seen by {} of {} witnesses", id.brief(),
                                     times.size(), quorum_));
    seen_.push_back({std::move(statement->second), ledger, times[quorum_ - 1]});
    all.statements.erase(statement);
  }
  if (all.statements.empty()) return {};
  return usage_error(fmt::format("--saw: none of the witnesses has seen statement {}",
                                 all.statements.begin()->first.brief()));
}

void Watch::begin() {
  for (Seen& seen : seen_) seen.allowed.reset();
}

void Watch::before(std::int64_t milliseconds, const protocol::Market& market) {
  for (Seen& seen : seen_) {
    if (seen.allowed || milliseconds <= seen.milliseconds || !market.policy()) continue;
    // While the operator is away the market's time stands still.
    const std::int64_t last = market.clock().receipt_now();
    const std::int64_t at = market.is_pause(seen.milliseconds) ? last : std::max(seen.milliseconds, last);
    protocol::Market copy = market;
    seen.allowed = copy.apply(seen.statement, at);
  }
}

/// The operator must have signed the notes, and no witness may be the operator.
Status Watch::check_signers(const ledger::Log& log) const {
  for (const VerifierKey& witness : witnesses_) {
    if (witness.key == log.operator_key())
      return usage_error(fmt::format("--witness: {} has the key of the ledger's operator", witness.name));
  }
  for (const Cosigned& one : notes_) {
    if (one.checkpoint.ledger != log.id())
      return malformed(fmt::format("{}: is of ledger {}, not of {}", one.path, one.checkpoint.ledger.brief(),
                                   log.id().brief()));
    const VerifierKey signer{one.checkpoint.origin(), ledger::SignatureType::kEd25519, log.operator_key()};
    const auto by = ledger::signed_by(one.note, signer);
    if (!by.ok()) return within(one.path, by.error());
    if (!by->found) return unauthorised(one.path + ": is not signed by the ledger's operator");
  }
  return {};
}

void Watch::compare_notes(const ledger::Log& log, std::vector<std::string>& faults) const {
  for (std::size_t i = 0; i < notes_.size(); ++i) {
    const Cosigned& one = notes_[i];
    const manifest::RootReference& head = one.checkpoint.head;
    if (one.seconds.size() < quorum_)
      faults.push_back(
          fmt::format("{}: is cosigned by {} of {} witnesses", one.path, one.seconds.size(), quorum_));
    for (std::size_t k = 0; k < i; ++k) {
      const manifest::RootReference& other = notes_[k].checkpoint.head;
      if (other.count != head.count || other == head) continue;
      faults.push_back(
          fmt::format("{} and {}: two histories of {} entries, both signed by the operator: a fork",
                      notes_[k].path, one.path, head.count));
    }
    const std::string fault = fault_of(head, log);
    if (!fault.empty()) faults.push_back(one.path + ": " + fault);
    if (fault.empty()) compare_times(one, log, faults);
  }
}

/// Receipts must have times that agree with those of a note, give or take a heartbeat: within that an
/// operator has a head cosigned.
void Watch::compare_times(const Cosigned& note, const ledger::Log& log,
                          std::vector<std::string>& faults) const {
  const auto latest = note.latest(quorum_);
  const auto earliest = note.earliest(quorum_);
  if (!latest || !earliest) return;
  const std::int64_t slack = protocol::heartbeat_ms(policy_of(log));
  const auto count = static_cast<std::size_t>(note.checkpoint.head.count);
  const auto say = [&](std::size_t index, std::int64_t seconds, std::string_view what) {
    faults.push_back(fmt::format("line {}: its receipt is of {}, but {}, cosigned at {}, {}", index + 1,
                                 utc_text(log.entries[index].milliseconds), note.path,
                                 utc_text(seconds * 1000), what));
  };
  if (count < log.entries.size() && log.entries[count].milliseconds + slack < *latest * 1000)
    say(count, *latest, "does not have it: dated back");
  if (log.entries[count - 1].milliseconds > (*earliest + 1) * 1000 + slack)
    say(count - 1, *earliest, "has it: dated forward");
}

Status Watch::compare_seen(const Seen& seen, const ledger::Log& log, std::vector<std::string>& faults) const {
  const std::string brief = seen.statement.id.brief();
  if (seen.ledger != log.id())
    return malformed(fmt::format("--saw: statement {} was seen for ledger {}, not for {}", brief,
                                 seen.ledger.brief(), log.id().brief()));
  const std::int64_t until = seen.milliseconds + policy_of(log).window_move_ms;
  const auto index = log.find(seen.statement.id);
  bool judged = false;
  for (const Cosigned& note : notes_) {
    const auto at = note.latest(quorum_);
    if (!at || *at * 1000 <= until) continue;
    judged = true;
    if (index && *index < static_cast<std::size_t>(note.checkpoint.head.count)) continue;
    if (!seen.allowed || !seen.allowed->ok()) continue;
    faults.push_back(fmt::format(
        "statement {}: was seen by {} witnesses at {} and allowed then, but {}, cosigned at {}, does not "
        "have it: refused",
        brief, quorum_, utc_text(seen.milliseconds), note.path, utc_text(*at * 1000)));
    break;
  }
  if (judged) return {};
  return usage_error(
      fmt::format("--saw: statement {}: no note was cosigned later than {}", brief, utc_text(until)),
      "give a later one with --cosigned");
}

Result<std::vector<std::string>> Watch::compare(const ledger::Log& log, const protocol::Market& market) {
  DGX_CHECK(check_signers(log));
  before(manifest::kMaxInteger, market);
  std::vector<std::string> faults;
  compare_notes(log, faults);
  for (const Seen& seen : seen_) DGX_CHECK(compare_seen(seen, log, faults));
  return faults;
}

std::optional<std::vector<NotAnchored>> Watch::not_anchored(const ledger::Log& log,
                                                            const protocol::Market& market) const {
  const manifest::Policy& policy = policy_of(log);
  if (notes_.empty() || policy.beacon_source == 0) return std::nullopt;
  std::vector<const Cosigned*> believed;
  for (const Cosigned& note : notes_) {
    if (note.earliest(quorum_) && fault_of(note.checkpoint.head, log).empty()) believed.push_back(&note);
  }
  std::vector<NotAnchored> out;
  for (const auto& [slot, record] : market.slots().all) {
    if (!record.round) continue;
    const NotAnchored one{slot, record.head.count, protocol::known_from(slot, policy)};
    const bool anchored = std::any_of(believed.begin(), believed.end(), [&](const Cosigned* note) {
      return note->checkpoint.head.count >= one.entries && *note->earliest(quorum_) * 1000 <= one.known_ms;
    });
    if (!anchored) out.push_back(one);
  }
  return out;
}

}  // namespace dgx::jobs
