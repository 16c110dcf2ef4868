#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/manifest/log.h"

/// Signed notes, checkpoints and cosignatures in the formats of c2sp.org (signed-note, tlog-checkpoint,
/// tlog-cosignature, tlog-witness), which other people's logs and witnesses speak (dgx-ledger(5), "NOTES").
///
/// A note is a text with lines of signatures below it. A ledger's checkpoint is a note that its operator
/// signed: the text is the ledger's head. A witness adds a line of its own to it, which says when it saw that
/// head, and that the head continues all that it saw before.
namespace dgx::ledger {

/// The kinds of signature that are used here; all others are kept and never looked at.
enum class SignatureType : std::uint8_t {
  kEd25519 = 0x01,      ///< over the text
  kCosignature = 0x04,  ///< over a time and the text
};

inline constexpr std::size_t kMaxNoteBytes = 160 * 1024;
inline constexpr std::size_t kMaxNoteSignatures = 16;
inline constexpr std::size_t kMaxKeyName = 255;

/// A key by which lines of signatures are checked.
struct VerifierKey {
  std::string name;
  SignatureType type = SignatureType::kEd25519;
  crypto::PublicKey key;

  bool operator==(const VerifierKey&) const = default;
  /// SHA-256(name ‖ LF ‖ type ‖ key), its first four bytes: what lines of signatures call it by, besides its
  /// name.
  [[nodiscard]] std::uint32_t id() const;
  /// NAME+ID+KEY: the id in eight hex digits, type and key in base64.
  [[nodiscard]] std::string text() const;
};
/// Reads VerifierKey::text(). kMalformed for another form, a name that no key may have, an id that is not the
/// key's, a type not used here, or bytes that are no key.
[[nodiscard]] Result<VerifierKey> parse_verifier_key(std::string_view text);

/// One line of signatures.
struct NoteSignature {
  std::string name;
  std::uint32_t id = 0;
  Bytes bytes;  ///< what follows the id

  bool operator==(const NoteSignature&) const = default;
};

struct Note {
  std::string text;  ///< with its last newline
  std::vector<NoteSignature> signatures;

  /// The note's only bytes.
  [[nodiscard]] std::string print() const;
};
/// The line of one signature, with its newline.
[[nodiscard]] std::string print_line(const NoteSignature& signature);
/// Reads Note::print(). kMalformed, with the line, for anything else: controls other than newlines, invalid
/// UTF-8, more than 16 signatures or none, base64 that is not canonical, or more than 160 KiB.
[[nodiscard]] Result<Note> parse_note(std::string_view bytes);

/// Signs the note's text as `name`: type 0x01.
[[nodiscard]] NoteSignature sign_note(const Note& note, const std::string& name,
                                      const crypto::SecretKey& key);
/// Signs the note's text as `name` at Unix time `seconds`, which must not be negative: type 0x04.
[[nodiscard]] NoteSignature cosign_note(const Note& note, const std::string& name,
                                        const crypto::SecretKey& key, std::int64_t seconds);

/// A key's signature of a note, if there is one.
struct SignedBy {
  bool found = false;
  std::int64_t seconds = 0;  ///< of a cosignature: the latest, if there are several
};
/// Looks for the key's lines. kUnauthorised if one of them is not its signature of this text; lines of other
/// keys do not count.
[[nodiscard]] Result<SignedBy> signed_by(const Note& note, const VerifierKey& key);

/// A ledger's head, as the text of a note.
struct Checkpoint {
  Digest ledger;
  manifest::RootReference head;

  bool operator==(const Checkpoint&) const = default;
  /// "dgx-ledger/ID", which is also the name of the operator's key.
  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string text() const;
};
/// Reads Checkpoint::text(); kMalformed, with the line, for any other log's, and for further lines.
[[nodiscard]] Result<Checkpoint> parse_checkpoint(std::string_view text);

/// A request to a witness: a note, and the proof that it continues the note that the witness saw last, of
/// `old_count` entries; 0 if there is none.
struct WitnessRequest {
  std::int64_t old_count = 0;
  std::vector<Digest> proof;  ///< RFC 6962 section 2.1.2
  Note note;

  /// The body of an add-checkpoint request.
  [[nodiscard]] std::string print() const;
};
/// Reads WitnessRequest::print().
[[nodiscard]] Result<WitnessRequest> parse_request(std::string_view bytes);
/// True if bytes begin as a request does, and not as a ledger's note.
[[nodiscard]] bool is_request(std::string_view bytes);

/// A witness's word that it was shown a statement (dgx-ledger(5), "STATEMENTS THAT WERE SEEN"): the text of a
/// note of type 0x01.
struct Sighting {
  Digest ledger;
  Digest statement;
  std::int64_t milliseconds = 0;  ///< Unix time, by the witness's clock

  bool operator==(const Sighting&) const = default;
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] Result<Sighting> parse_sighting(std::string_view text);

}  // namespace dgx::ledger
