#include "dgx/manifest/statement.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/files.h"
#include "dgx/manifest/fields.h"
#include "dgx/manifest/file_kind.h"
#include "envelope_frame.h"

namespace dgx::manifest {
namespace {

constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr std::string_view kTypePrefix = "urn:x-dgx:";
constexpr std::string_view kTypeSuffix = ":v2";
constexpr std::string_view kOldSuffix = ":v1";

/// The alternative of Body that belongs to `kind`, read from `in`.
template <std::size_t I = 0>
Body read_body(Kind kind, json::Fields& in) {
  if constexpr (I == std::variant_size_v<Body>) {
    return LedgerPolicy{};  // not reached: every kind is an alternative (test)
  } else {
    using Alternative = std::variant_alternative_t<I, Body>;
    if (Alternative::kKind == kind) return Alternative::read(in);
    return read_body<I + 1>(kind, in);
  }
}

json::Array subjects_json(const Body& body) {
  json::Array out;
  for (const Subject& subject : std::visit([](const auto& b) { return b.subjects(); }, body)) {
    json::Object digest;
    digest.emplace("sha256", subject.digest.hex());
    json::Object item;
    item.emplace("digest", std::move(digest));
    item.emplace("name", subject.name);
    out.emplace_back(std::move(item));
  }
  return out;
}

Result<Kind> kind_from_type(std::string_view type) {
  if (!type.starts_with(kTypePrefix)) {
    return malformed(fmt::format("statement: predicateType: \"{}\" is not a dgx statement type", type));
  }
  std::string_view rest = type.substr(kTypePrefix.size());
  if (!rest.ends_with(kTypeSuffix)) {
    return malformed(fmt::format("statement: predicateType: \"{}\": only version v2 is known", type),
                     rest.ends_with(kOldSuffix) ? "dgx 0.1 reads version v1" : "");
  }
  rest.remove_suffix(kTypeSuffix.size());
  return kind_from_name(rest);
}

/// The predicate type that JSON gives itself; empty if it has none.
std::string claimed_type(std::string_view payload) {
  const auto value = json::parse_canonical(payload, {.bytes = kMaxPayloadBytes});
  const json::Object* const object = value.ok() ? value->as_object() : nullptr;
  if (object == nullptr || !object->contains("predicateType")) return {};
  const std::string* const text = object->at("predicateType").as_string();
  return text == nullptr ? "" : *text;
}

/// The error of a file that is no statement but another kind of ours; else `error`.
Error not_a_statement(const std::string& path, std::string_view content, std::string_view expected,
                      Error error) {
  const Recognised found = recognise(content);
  if (found.kind == FileKind::kStatement || found.kind == FileKind::kOther)
    return within(path, std::move(error));
  return malformed(fmt::format("{}: is {}, expected {}", path, found.words(), with_article(expected)));
}

/// A payload's parts, before anything in the predicate except its signer is trusted.
struct Outline {
  Kind kind = Kind::kTask;
  json::Value predicate;
  crypto::PublicKey signer;
};

Result<crypto::PublicKey> signer_of(const json::Value& predicate) {
  const json::Object* object = predicate.as_object();
  if (object == nullptr) return malformed("statement: predicate: is not an object");
  const auto member = object->find("signer");
  const std::string* text = member == object->end() ? nullptr : member->second.as_string();
  if (text == nullptr) return malformed("predicate: signer: is missing or not a string");
  auto key = crypto::public_key_from_hex(*text);
  if (!key.ok()) return within("predicate: signer", std::move(key).error());
  return key;
}

/// The outline of JSON that need not be canonical: read_checked() finds out.
Result<Outline> read_outline(std::string_view payload) {
  DGX_TRY(json::Value value, json::parse(payload, {.bytes = kMaxPayloadBytes, .depth = 8}));
  json::Fields in(value, "statement");
  if (in.string("_type", 64) != kStatementType)
    in.fail("_type", fmt::format("is not \"{}\"", kStatementType));
  const std::string type = in.string("predicateType", 128);
  const json::Value& predicate = in.value("predicate");
  static_cast<void>(in.array("subject", 16));
  DGX_CHECK(in.finish());
  DGX_TRY(const Kind kind, kind_from_type(type));
  DGX_TRY(const crypto::PublicKey signer, signer_of(predicate));
  return Outline{kind, std::move(value.as_object()->at("predicate")), signer};
}

/// Checks the size: some kinds have a lower limit than payloads in general.
Status check_size(Kind kind, std::size_t bytes) {
  const std::size_t most = kind == Kind::kTask   ? kMaxTaskBytes
                           : kind == Kind::kMove ? kMaxMoveBytes
                                                 : kMaxPayloadBytes;
  if (bytes <= most) return {};
  return malformed(fmt::format("{}: payload has {} bytes, at most {} allowed", name_of(kind), bytes, most));
}

/// Reads every field of the predicate, then checks that encoding the result gives the payload byte for byte,
/// which also checks the subjects.
Result<Body> read_checked(const Outline& outline, std::string_view payload) {
  DGX_CHECK(check_size(outline.kind, payload.size()));
  json::Fields in(outline.predicate, "predicate");
  static_cast<void>(in.string("signer", 64));
  Body body = read_body(outline.kind, in);
  DGX_CHECK(in.finish());
  const std::string again = payload_of(body, outline.signer);
  if (again != payload) {
    const auto [ours, theirs] = std::mismatch(again.begin(), again.end(), payload.begin(), payload.end());
    return malformed(
        fmt::format("statement: subject or a field is not in canonical form at byte {} of the payload",
                    ours - again.begin()));
  }
  return body;
}

enum class CheckSignature { kYes, kNo };

/// Opens an envelope. An error need not say that the payload is not canonical JSON.
Result<Signed<Body>> open_frame(const Envelope& envelope, CheckSignature check) {
  if (envelope.type != kPayloadType) {
    return malformed(
        fmt::format("envelope: payloadType: is \"{}\", a statement's is \"{}\"", envelope.type, kPayloadType),
        "dgx-key sign --statement signs statements");
  }
  DGX_TRY(const Outline outline, read_outline(envelope.payload));
  if (check == CheckSignature::kYes) DGX_CHECK(verify(envelope, outline.signer));
  if (check == CheckSignature::kNo && crypto::key_id(outline.signer) != envelope.key_id)
    return unauthorised("envelope: keyid: is not the signer's");
  DGX_TRY(Body body, read_checked(outline, envelope.payload));
  return Signed<Body>{std::move(body), statement_id(envelope.payload), outline.signer, envelope.key_id, {}};
}

Result<Signed<Body>> open_text(std::string_view text, CheckSignature check) {
  DGX_TRY(const Envelope envelope, parse_frame(text));
  auto out = open_frame(envelope, check);
  // A payload that is not canonical is called so, whatever else is wrong with it.
  if (!out.ok()) DGX_CHECK(check_payload(envelope.payload));
  if (!out.ok()) return out;
  if (text.ends_with('\n')) text.remove_suffix(1);
  out->envelope = std::string(text);
  return out;
}

}  // namespace

Kind kind_of(const Body& body) {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}

std::optional<Digest> task_of(const Body& body) {
  return std::visit(
      [](const auto& b) -> std::optional<Digest> {
        if constexpr (requires { b.task; }) {
          return b.task;
        } else {
          return std::nullopt;
        }
      },
      body);
}

bool claims_to_be_statement(std::string_view payload) {
  return claimed_type(payload).starts_with(kTypePrefix);
}

std::optional<Kind> claimed_kind(std::string_view payload) {
  const auto kind = kind_from_type(claimed_type(payload));
  return kind.ok() ? std::optional<Kind>(*kind) : std::nullopt;
}

Error wrong_kind(Kind found, Kind expected) {
  return malformed(fmt::format("{} statement, expected {}", with_article(name_of(found)),
                               with_article(name_of(expected))));
}

std::string payload_of(const Body& body, const crypto::PublicKey& signer) {
  json::Object predicate = std::visit([](const auto& b) { return b.predicate(); }, body);
  predicate.emplace("signer", signer.hex());
  // Objects made from lists of members copy each of them, which would take most of the time of opening.
  json::Object statement;
  statement.emplace("_type", kStatementType);
  statement.emplace("predicate", std::move(predicate));
  statement.emplace("predicateType", fmt::format("{}{}{}", kTypePrefix, name_of(kind_of(body)), kTypeSuffix));
  statement.emplace("subject", subjects_json(body));
  return json::Value(std::move(statement)).dump();
}

Result<Signed<Body>> seal_any(Body body, const crypto::SecretKey& key) {
  const std::string payload = payload_of(body, key.public_key());
  DGX_TRY(const Outline outline, read_outline(payload));
  DGX_TRY(Body checked, read_checked(outline, payload));
  DGX_TRY(std::string envelope, sign(payload, key));
  return Signed<Body>{std::move(checked), statement_id(payload), key.public_key(),
                      crypto::key_id(key.public_key()), std::move(envelope)};
}

Result<Signed<Body>> open_any(std::string_view envelope_text) {
  return open_text(envelope_text, CheckSignature::kYes);
}

Result<Signed<Body>> open_again(std::string_view envelope_text) {
  return open_text(envelope_text, CheckSignature::kNo);
}

Result<Signed<Body>> read_any(const std::string& path, std::string_view expected) {
  auto text = read_file(path, kMaxEnvelopeBytes + 1);
  if (!text.ok()) {
    // Too long: its beginning may say what it is. The error names the path already.
    const auto start =
        text.error().code == ErrorCode::kMalformed ? read_start(path, 4096) : Result(std::string());
    if (!start.ok() || recognise(*start).kind == FileKind::kOther) return std::move(text).error();
    return not_a_statement(path, *start, expected, std::move(text).error());
  }
  auto out = open_any(*text);
  if (!out.ok()) return not_a_statement(path, *text, expected, std::move(out).error());
  return out;
}

}  // namespace dgx::manifest
