#include "dgx/manifest/file_kind.h"

#include <algorithm>

#include "dgx/core/json.h"
#include "dgx/crypto/key_file.h"
#include "dgx/manifest/envelope.h"
#include "dgx/manifest/policy.h"
#include "dgx/manifest/statement.h"

namespace dgx::manifest {
namespace {

bool is_policy(const json::Object& object) {
  const auto known = [](const auto& field) {
    const auto keys = policy_keys();
    return std::any_of(keys.begin(), keys.end(),
                       [&](const PolicyKey& key) { return key.name == field.first; });
  };
  return !object.empty() && std::all_of(object.begin(), object.end(), known);
}

/// True for the length of a JSON header, less than 4 GiB, and its first byte: no text has the zeros.
bool is_safetensors(std::string_view content) {
  constexpr std::string_view kHigh("\0\0\0\0{", 5);
  return content.size() > 4 && content.substr(4, kHigh.size()) == kHigh;
}

/// A zip's first member, whose header it begins with; empty if there is none, or not all of its name.
std::string_view first_member(std::string_view content) {
  constexpr std::size_t kLengthAt = 26;
  constexpr std::size_t kNameAt = 30;
  if (content.size() < kNameAt) return {};
  const auto byte = [&](std::size_t n) { return std::size_t{static_cast<unsigned char>(content[n])}; };
  const std::size_t length = byte(kLengthAt) | byte(kLengthAt + 1) << 8U;
  return content.size() - kNameAt < length ? std::string_view() : content.substr(kNameAt, length);
}

/// True for the first fields of ONNX's message: its version, then the producer's name or a later field.
bool is_onnx(std::string_view content) {
  constexpr std::string_view kNext = "\x12\x1a\x22\x28\x32\x3a\x42";
  return content.size() >= 3 && content[0] == '\x08' && content[1] > 0 && content[1] < 32 &&
         kNext.find(content[2]) != std::string_view::npos;
}

/// True for a pickle of protocol 2 or later.
bool is_pickle(std::string_view content) {
  return content.size() >= 2 && content[0] == '\x80' && content[1] >= 2 && content[1] <= 5;
}

Recognised statement_in(std::string_view line) {
  const auto envelope = parse_envelope(line);
  return {FileKind::kStatement, envelope.ok() ? claimed_kind(envelope->payload) : std::nullopt};
}

}  // namespace

Recognised recognise(std::string_view content) {
  if (content.starts_with("\x89HDF\r\n\x1a\n")) return {FileKind::kHdf5};
  if (content.starts_with("PK\x03\x04"))
    return {first_member(content).ends_with(".npy") ? FileKind::kNpz : FileKind::kZip};
  if (content.starts_with("PK\x05\x06")) return {FileKind::kNpz};
  if (is_safetensors(content)) return {FileKind::kSafetensors};
  if (is_onnx(content)) return {FileKind::kOnnx};
  if (is_pickle(content)) return {FileKind::kPickle};
  if (crypto::is_public_key(content)) return {FileKind::kPublicKey};
  if (content.starts_with("-----BEGIN ")) return {FileKind::kPrivateKey};
  const std::string_view first = content.substr(0, content.find('\n'));
  const auto line = json::parse(first, {std::size_t{1} << 28});
  const json::Object* const object = line.ok() ? line->as_object() : nullptr;
  const auto has = [object](const char* key) { return object != nullptr && object->contains(key); };
  if (has("payload") && has("signatures"))
    return first.size() + 1 < content.size() ? Recognised{FileKind::kStatements} : statement_in(first);
  if (has("k") && has("v")) return {FileKind::kProgram};
  if (has("drawn")) return {FileKind::kShard};
  if (has("agrees") && has("expected")) return {FileKind::kRows};
  const auto whole = json::parse(content);
  if (whole.ok() && whole->as_object() != nullptr && is_policy(*whole->as_object()))
    return {FileKind::kPolicy};
  return {};
}

std::string Recognised::words() const {
  switch (kind) {
    case FileKind::kStatement:
      return statement ? with_article(name_of(*statement)) + " statement" : "an unknown statement";
    case FileKind::kStatements: return "a file of several statements";
    case FileKind::kProgram: return "a step program";
    case FileKind::kShard: return "a shard";
    case FileKind::kRows: return "a verdict's rows";
    case FileKind::kPolicy: return "a policy";
    case FileKind::kPublicKey: return "a public key";
    case FileKind::kPrivateKey: return "a private key";
    case FileKind::kHdf5: return "an HDF5 bundle";
    case FileKind::kSafetensors: return "a safetensors file";
    case FileKind::kNpz: return "an NPZ archive";
    case FileKind::kZip: return "a ZIP archive";
    case FileKind::kOnnx: return "an ONNX model";
    case FileKind::kPickle: return "a pickle";
    case FileKind::kOther: break;
  }
  return "a file of another kind";
}

std::string with_article(std::string_view noun) {
  const bool vowel = !noun.empty() && std::string_view("aeiou").find(noun.front()) != std::string_view::npos;
  return (vowel ? "an " : "a ") + std::string(noun);
}

}  // namespace dgx::manifest
