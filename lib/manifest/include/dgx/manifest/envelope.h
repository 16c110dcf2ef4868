#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::manifest {

/// The payload type of statements. It is signed with the payload, so an envelope of the other type is never
/// taken for a statement, whatever it holds.
inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
/// The payload type of any other JSON that dgx-key signs.
inline constexpr std::string_view kPlainPayloadType = "application/json";
/// Limits checked before anything is parsed. An envelope's base64 takes 4/3 of its payload.
inline constexpr std::size_t kMaxPayloadBytes = 256 * 1024;
inline constexpr std::size_t kMaxEnvelopeBytes = kMaxPayloadBytes / 3 * 4 + 1024;

/// A DSSE envelope in the strict profile of dgx-manifest(5): canonical JSON, exactly one signature, padded
/// base64, a keyid, no other field. A statement has only one envelope text per signature.
struct Envelope {
  std::string payload;    ///< the bytes that were signed, canonical JSON
  std::string_view type;  ///< kPayloadType or kPlainPayloadType
  Digest key_id;          ///< as stated in the envelope; not to be trusted before verify()
  crypto::Signature signature;
};

/// PAE = "DSSEv1" SP len(type) SP type SP len(body) SP body: the bytes that are signed.
[[nodiscard]] std::string pre_authentication(std::string_view payload, std::string_view type = kPayloadType);

/// SHA-256 of a statement's PAE. Every link between statements is such an id, never a digest of envelope
/// bytes.
[[nodiscard]] Digest statement_id(std::string_view payload);

/// The envelope's text, without a newline. kMalformed if `payload` is not canonical JSON or too long.
[[nodiscard]] Result<std::string> sign(std::string_view payload, const crypto::SecretKey& key,
                                       std::string_view type = kPayloadType);

/// Parses the text of an envelope; one newline may follow it. kMalformed, with the position, for anything the
/// strict profile does not allow, for a payload type other than the two above, and for a payload that is not
/// canonical JSON. Checks no signature.
[[nodiscard]] Result<Envelope> parse_envelope(std::string_view text);

/// The id that the statement in an envelope has if it is one: only the envelope's form is checked.
[[nodiscard]] Result<Digest> id_in(std::string_view text);

/// kUnauthorised unless `key` is the one the envelope names and its signature over the payload is valid.
[[nodiscard]] Status verify(const Envelope& envelope, const crypto::PublicKey& key);

/// parse_envelope() and verify().
[[nodiscard]] Result<Envelope> open(std::string_view text, const crypto::PublicKey& key);

}  // namespace dgx::manifest
