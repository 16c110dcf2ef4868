#include "dgx/jobs/cosign.h"

#include <fmt/format.h>

#include "dgx/crypto/key_file.h"
#include "dgx/jobs/ledger_name.h"
#include "dgx/merkle/consistency.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

using ledger::Checkpoint;
using ledger::Note;
using ledger::SignatureType;
using ledger::VerifierKey;
using ledger::WitnessRequest;

/// A note with at most 63 digests before it.
constexpr std::size_t kMaxRequestBytes = ledger::kMaxNoteBytes + 64 * 45;

/// The witness's key, by the name that they go by.
Result<VerifierKey> key_of(const Witness& witness, SignatureType type, const crypto::PublicKey& key) {
  const VerifierKey out{witness.name.value_or(witness_name(key)), type, key};
  if (ledger::parse_verifier_key(out.text()).ok()) return out;
  return usage_error(fmt::format("--name {}: is not a name of a key", out.name),
                     "such as witness.example/w1");
}

/// A note, and the proof that came with it.
struct Asked {
  std::optional<std::int64_t> old_count;  ///< nullopt: a note alone
  std::vector<Digest> proof;
  Note note;
  Checkpoint checkpoint;
};

Result<Asked> parse_asked(const std::string& text) {
  Asked out;
  if (ledger::is_request(text)) {
    DGX_TRY(WitnessRequest request, ledger::parse_request(text));
    out = {request.old_count, std::move(request.proof), std::move(request.note), {}};
  } else {
    DGX_TRY(out.note, ledger::parse_note(text));
  }
  DGX_TRY(out.checkpoint, ledger::parse_checkpoint(out.note.text));
  return out;
}

Result<Asked> read_asked(const std::string& path, std::size_t most_bytes) {
  DGX_TRY(const std::string text, read_file(path, most_bytes));
  auto out = parse_asked(text);
  if (!out.ok()) return within(path, std::move(out).error());
  return out;
}

/// Checks that a note has a line of this key, and gives its time.
Result<std::int64_t> check_signed(const std::string& path, const Note& note, const VerifierKey& key,
                                  std::string_view by) {
  const auto found = ledger::signed_by(note, key);
  if (!found.ok()) return within(path, found.error());
  if (found->found) return found->seconds;
  return unauthorised(fmt::format("{}: is not signed by {}", path, by));
}

/// A witness's memory: the last note, signed by the operator and by them.
struct Last {
  Note note;
  Checkpoint checkpoint;
  std::int64_t seconds = 0;
};

Result<std::optional<Last>> read_last(const CosignRequest& request, const VerifierKey& operator_key,
                                      const VerifierKey& witness) {
  const std::string& path = request.seen;
  if (request.first && exists(path))
    return Error{ErrorCode::kCannotCreate, path + ": already exists", "without --first it is continued"};
  if (request.first) return std::optional<Last>();
  if (!exists(path))
    return Error{ErrorCode::kMissing, path + ": is not there, so nothing says what was cosigned last",
                 "--first begins it, for a ledger of which no note was cosigned before"};
  DGX_TRY(Asked seen, read_asked(path, ledger::kMaxNoteBytes));
  if (seen.checkpoint.origin() != operator_key.name)
    return malformed(
        fmt::format("{}: is of ledger {}, the note is of another", path, seen.checkpoint.ledger.brief()));
  DGX_CHECK(check_signed(path, seen.note, operator_key, "the ledger's operator"));
  DGX_TRY(const std::int64_t seconds, check_signed(path, seen.note, witness, "this witness"));
  return std::optional(Last{std::move(seen.note), seen.checkpoint, seconds});
}

/// The reason why the note cannot continue the last one; empty if it does. An error if it may, but does not
/// show it.
Result<std::string> contradiction(const std::string& path, const Asked& asked, const Last& last) {
  const auto& [old_root, old_count] = last.checkpoint.head;
  const auto& [root, count] = asked.checkpoint.head;
  if (count < old_count) return fmt::format("has {} entries, {} were cosigned before", count, old_count);
  if (count == old_count && root != old_root)
    return fmt::format("has another history of the {} entries that were cosigned before", count);
  // The same head once more, as after a call that was killed before its answer, needs no proof.
  if (count == old_count) return std::string();
  const std::string hint = fmt::format("ask the operator for dgx-settle head --note --old {}", old_count);
  if (!asked.old_count)
    return usage_error(
        fmt::format("{}: has no proof that it continues the {} entries cosigned before", path, old_count),
        hint);
  if (*asked.old_count != old_count)
    return not_allowed(fmt::format("{}: proves how it continues {} entries, {} were cosigned before", path,
                                   *asked.old_count, old_count),
                       hint);
  if (merkle::verify_consistency(static_cast<std::uint64_t>(old_count), old_root,
                                 static_cast<std::uint64_t>(count), root, asked.proof))
    return std::string();
  return fmt::format("has a proof that does not lead from the {} entries that were cosigned before",
                     old_count);
}

/// The memory of a note that is cosigned now, with the lines that are known to be right.
Note to_remember(const Asked& asked, const VerifierKey& operator_key, ledger::NoteSignature ours) {
  Note out{asked.note.text, {}};
  for (const auto& line : asked.note.signatures) {
    const bool theirs = line.name == operator_key.name && line.id == operator_key.id();
    if (theirs && out.signatures.empty()) out.signatures.push_back(line);
  }
  out.signatures.push_back(std::move(ours));
  return out;
}

}  // namespace

std::string witness_name(const crypto::PublicKey& key) { return "dgx-witness/" + crypto::key_id(key).hex(); }

Result<std::string> note_of_ledger(const LedgerWriter& writer, std::optional<std::int64_t> old_count) {
  DGX_TRY(const crypto::SecretKey key, read_key(writer.key));
  DGX_TRY(const ledger::Log log, read_as_operator(writer, key));
  const Checkpoint checkpoint{log.id(), log.head()};
  Note note{checkpoint.text(), {}};
  note.signatures.push_back(ledger::sign_note(note, checkpoint.origin(), key));
  if (!old_count) return note.print();
  if (*old_count < 0) return usage_error(fmt::format("--old {}: is below 0", *old_count));
  WitnessRequest request{*old_count, {}, std::move(note)};
  if (*old_count > 0) {
    DGX_TRY(request.proof,
            ledger::prove_consistency(log, static_cast<std::size_t>(*old_count), log.entries.size()));
  }
  return request.print();
}

Result<Cosignature> cosign(const CosignRequest& request, const Witness& witness) {
  DGX_TRY(const crypto::SecretKey key, read_key(witness.key));
  DGX_TRY(const crypto::PublicKey operator_public, crypto::read_public_key(request.operator_key));
  if (operator_public == key.public_key())
    return usage_error("the key is the operator's own, which is no witness");
  DGX_TRY(const VerifierKey ours, key_of(witness, SignatureType::kCosignature, key.public_key()));
  DGX_TRY(const Asked asked, read_asked(request.note, kMaxRequestBytes));
  const VerifierKey operator_key{asked.checkpoint.origin(), SignatureType::kEd25519, operator_public};
  DGX_CHECK(check_signed(request.note, asked.note, operator_key, "the ledger's operator"));
  DGX_TRY(const FileLock lock, FileLock::acquire_file(request.seen + ".lock", request.wait));
  DGX_TRY(const auto last, read_last(request, operator_key, ours));
  Cosignature out{ours, asked.checkpoint, witness.clock() / 1000, {}, {}, {}, asked.note.print()};
  if (last) {
    out.last_note = last->note.print();
    DGX_TRY(out.refusal, contradiction(request.note, asked, *last));
    if (!out.refusal.empty()) return out;
    if (out.seconds < last->seconds)
      return not_allowed(
          fmt::format("the clock is {} s behind the last note's", last->seconds - out.seconds));
  } else if (asked.old_count.value_or(0) != 0) {
    return not_allowed(fmt::format("{}: proves how it continues {} entries, none were cosigned before",
                                   request.note, *asked.old_count));
  }
  const Note seen =
      to_remember(asked, operator_key, ledger::cosign_note(asked.note, ours.name, key, out.seconds));
  DGX_CHECK(write_file(request.seen, seen.print(), request.first ? Clobber::kRefuse : Clobber::kReplace));
  out.line = ledger::print_line(seen.signatures.back());
  return out;
}

Result<std::string> sight_statement(const std::string& statement, const std::string& ledger,
                                    const Witness& witness) {
  DGX_TRY(const crypto::SecretKey key, read_key(witness.key));
  DGX_TRY(const VerifierKey ours, key_of(witness, SignatureType::kEd25519, key.public_key()));
  DGX_TRY(const auto shown, manifest::read_any(statement));
  DGX_TRY(const LedgerName named, read_ledger_name(ledger));
  Note note{ledger::Sighting{named.id, shown.id, witness.clock()}.text(), {}};
  note.signatures.push_back(ledger::sign_note(note, ours.name, key));
  return note.print();
}

}  // namespace dgx::jobs
