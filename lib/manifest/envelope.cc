#include "dgx/manifest/envelope.h"

#include <fmt/format.h>

#include <optional>

#include "dgx/core/json.h"
#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"
#include "envelope_frame.h"

namespace dgx::manifest {
namespace {

/// One entry of `signatures`.
struct SignatureField {
  Digest key_id;
  crypto::Signature signature;
};

SignatureField read_signature(json::Fields& in) {
  SignatureField out;
  out.key_id = read_digest(in, "keyid");
  const std::string text = in.string("sig", 88);
  const auto bytes = from_base64(text);
  if (!bytes.ok()) {
    in.fail("sig", bytes.error().message);
    return out;
  }
  const auto signature = crypto::signature_from_bytes(*bytes);
  if (!signature.ok()) {
    in.fail("sig", signature.error().message);
    return out;
  }
  out.signature = *signature;
  return out;
}

/// Takes `word` off the beginning of `text`; false if it does not begin with it.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Takes off the beginning of `text` what stands before its first quotation mark.
std::string_view take_string(std::string_view& text) {
  const std::string_view out = text.substr(0, text.find('"'));
  text.remove_prefix(out.size());
  return out;
}

Result<Envelope> frame_of(std::string_view payload, std::string_view type, const SignatureField& signature) {
  const auto bytes = from_base64(payload);
  if (!bytes.ok()) return within("envelope: payload", bytes.error());
  return Envelope{std::string(as_text(*bytes)), type, signature.key_id, signature.signature};
}

/// The envelope of a statement in the only bytes that it can have; nullopt for any other text.
std::optional<Envelope> parse_plain(std::string_view text) {
  if (text.size() > kMaxEnvelopeBytes || !take(text, R"({"payload":")")) return std::nullopt;
  const std::string_view payload = take_string(text);
  if (!take(text, R"(","payloadType":")") || !take(text, kPayloadType) ||
      !take(text, R"(","signatures":[{"keyid":")"))
    return std::nullopt;
  const auto key_id = digest_from_hex(take_string(text));
  if (!take(text, R"(","sig":")") || !key_id.ok()) return std::nullopt;
  const auto bytes = from_base64(take_string(text));
  if (text != R"("}]})" || !bytes.ok()) return std::nullopt;
  const auto signature = crypto::signature_from_bytes(*bytes);
  if (!signature.ok()) return std::nullopt;
  auto out = frame_of(payload, kPayloadType, {*key_id, *signature});
  if (!out.ok()) return std::nullopt;
  return std::move(out).value();
}

}  // namespace

std::string pre_authentication(std::string_view payload, std::string_view type) {
  return fmt::format("DSSEv1 {} {} {} {}", type.size(), type, payload.size(), payload);
}

Digest statement_id(std::string_view payload) {
  return crypto::sha256(as_bytes(pre_authentication(payload)));
}

Result<std::string> sign(std::string_view payload, const crypto::SecretKey& key, std::string_view type) {
  DGX_CHECK(check_payload(payload));
  const crypto::Signature signature = key.sign(as_bytes(pre_authentication(payload, type)));
  const json::Object entry{{"keyid", crypto::key_id(key.public_key()).hex()},
                           {"sig", to_base64(signature.bytes)}};
  const json::Object envelope{
      {"payload", to_base64(as_bytes(payload))}, {"payloadType", type}, {"signatures", json::Array{entry}}};
  return json::Value(envelope).dump();
}

Result<Envelope> parse_frame(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (auto plain = parse_plain(text)) return *std::move(plain);
  DGX_TRY(const json::Value value, json::parse_canonical(text, {.bytes = kMaxEnvelopeBytes, .depth = 3}));
  json::Fields in(value, "envelope");
  const std::string payload = in.string("payload", kMaxEnvelopeBytes);
  const std::string type = in.string("payloadType", 256);
  if (type != kPayloadType && type != kPlainPayloadType)
    in.fail("payloadType", fmt::format("is neither \"{}\" nor \"{}\"", kPayloadType, kPlainPayloadType));
  const json::Array& signatures = in.array("signatures", 1);
  if (signatures.size() != 1) in.fail("signatures", "must have exactly one entry");
  DGX_CHECK(in.finish());

  json::Fields signature(signatures[0], "envelope: signatures: 0");
  const SignatureField field = read_signature(signature);
  DGX_CHECK(signature.finish());
  return frame_of(payload, type == kPayloadType ? kPayloadType : kPlainPayloadType, field);
}

Status check_payload(std::string_view payload) {
  const auto value = json::parse_canonical(payload, {.bytes = kMaxPayloadBytes});
  if (!value.ok()) return within("payload", value.error());
  return {};
}

Result<Envelope> parse_envelope(std::string_view text) {
  DGX_TRY(Envelope out, parse_frame(text));
  DGX_CHECK(check_payload(out.payload));
  return out;
}

Result<Digest> id_in(std::string_view text) {
  DGX_TRY(const Envelope envelope, parse_frame(text));
  return statement_id(envelope.payload);
}

Status verify(const Envelope& envelope, const crypto::PublicKey& key) {
  const Digest id = crypto::key_id(key);
  if (id != envelope.key_id) {
    return unauthorised(
        fmt::format("envelope: signed by key {}, not by {}", envelope.key_id.brief(), id.brief()));
  }
  if (!crypto::verify(key, as_bytes(pre_authentication(envelope.payload, envelope.type)),
                      envelope.signature)) {
    return unauthorised(fmt::format("envelope: bad signature of key {}", id.brief()));
  }
  return {};
}

Result<Envelope> open(std::string_view text, const crypto::PublicKey& key) {
  DGX_TRY(Envelope envelope, parse_envelope(text));
  DGX_CHECK(verify(envelope, key));
  return envelope;
}

}  // namespace dgx::manifest
