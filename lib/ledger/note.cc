#include "dgx/ledger/note.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dgx/core/text.h"
#include "dgx/core/utf8.h"
#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"

namespace dgx::ledger {
namespace {

constexpr std::string_view kDash = "\xE2\x80\x94 ";  // an em dash and a space
constexpr std::string_view kOrigin = "dgx-ledger/";
constexpr std::string_view kSaw = "dgx-saw/v1";
constexpr std::string_view kOld = "old ";
constexpr std::size_t kMaxProofLines = 63;
constexpr std::size_t kTimeBytes = 8;

Error at_line(std::size_t line, std::string_view what) {
  return malformed(fmt::format("line {}: {}", line, what));
}

/// Takes a line off the beginning of the text, without its newline; all of it if it has none.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) out.push_back(take_line(text));
  return out;
}

/// True for a name that a key may have: not empty, without '+', and without a space of Unicode or a control.
bool is_key_name(std::string_view name) {
  constexpr std::string_view kSpaces[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80",
                                          "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84",
                                          "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88",
                                          "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8", "\xE2\x80\xA9",
                                          "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  if (name.empty() || name.size() > kMaxKeyName || !is_utf8(name)) return false;
  if (std::any_of(name.begin(), name.end(),
                  [](unsigned char c) { return c <= 0x20 || c == 0x7f || c == '+'; }))
    return false;
  return std::none_of(std::begin(kSpaces), std::end(kSpaces),
                      [&](std::string_view space) { return name.find(space) != std::string_view::npos; });
}

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = bytes; i-- > 0;) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::uint64_t from_big_endian(ByteView bytes) {
  std::uint64_t out = 0;
  for (const std::uint8_t byte : bytes) out = out << 8U | byte;
  return out;
}

/// A number in decimal, without a sign or leading zeros, of at most 2^53.
Result<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || fmt::format("{}", value) != text ||
      value < 0 || value > manifest::kMaxInteger)
    return malformed(fmt::format("\"{}\" is not a number in decimal", printable(text.substr(0, 40))));
  return value;
}

Result<Digest> parse_hash(std::string_view text) {
  DGX_TRY(const Bytes bytes, from_base64(text));
  return digest_from_bytes(bytes);
}

/// The bytes that a cosignature signs.
std::string cosigned_text(std::uint64_t seconds, std::string_view text) {
  return fmt::format("cosignature/v1\ntime {}\n{}", seconds, text);
}

Result<NoteSignature> parse_signature(std::string_view line) {
  if (!line.starts_with(kDash)) return malformed("does not begin with an em dash and a space");
  line.remove_prefix(kDash.size());
  const std::size_t space = line.find(' ');
  const std::string_view name = line.substr(0, space);
  if (space == std::string_view::npos || !is_key_name(name))
    return malformed("is not a key's name, a space, and a signature");
  auto bytes = from_base64(line.substr(space + 1));
  if (!bytes.ok()) return std::move(bytes).error();
  if (bytes->size() < 5) return malformed("has too short a signature");
  const auto id = static_cast<std::uint32_t>(from_big_endian(ByteView(*bytes).first(4)));
  return NoteSignature{std::string(name), id, Bytes(bytes->begin() + 4, bytes->end())};
}

/// The time that a key's own line states; an error if it is not the key's signature of the text.
Result<std::int64_t> check_line(const Note& note, const NoteSignature& line, const VerifierKey& key) {
  const bool timed = key.type == SignatureType::kCosignature;
  const std::size_t before = timed ? kTimeBytes : 0;
  const Error bad =
      unauthorised(fmt::format("the signature of {} is not its signature of this text", key.name));
  if (line.bytes.size() != before + sizeof(crypto::Signature::bytes)) return bad;
  const std::uint64_t seconds = from_big_endian(ByteView(line.bytes).first(before));
  const std::string text = timed ? cosigned_text(seconds, note.text) : note.text;
  DGX_TRY(const auto signature, crypto::signature_from_bytes(ByteView(line.bytes).subspan(before)));
  if (!crypto::verify(key.key, as_bytes(text), signature)) return bad;
  if (seconds > static_cast<std::uint64_t>(manifest::kMaxInteger) / 1000)
    return malformed(fmt::format("the signature of {} has a time beyond all times", key.name));
  return static_cast<std::int64_t>(seconds);
}

/// Splits a text into `count` lines, each ended by a newline.
Result<std::vector<std::string_view>> exactly(std::string_view text, std::size_t count,
                                              std::string_view what) {
  const auto lines = lines_of(text);
  if (lines.size() != count || !text.ends_with('\n'))
    return malformed(fmt::format("{} has {} lines, this has {}", what, count, lines.size()));
  return lines;
}

}  // namespace

std::uint32_t VerifierKey::id() const {
  const std::string text = fmt::format("{}\n{}", name, static_cast<char>(type));
  return static_cast<std::uint32_t>(
      from_big_endian(ByteView(crypto::sha256(as_bytes(text), key.bytes).bytes).first(4)));
}

std::string VerifierKey::text() const {
  Bytes bytes{static_cast<std::uint8_t>(type)};
  bytes.insert(bytes.end(), key.bytes.begin(), key.bytes.end());
  return fmt::format("{}+{:08x}+{}", name, id(), to_base64(bytes));
}

Result<VerifierKey> parse_verifier_key(std::string_view text) {
  const std::size_t first = text.find('+');
  const std::size_t second = first == std::string_view::npos ? first : text.find('+', first + 1);
  if (second == std::string_view::npos) return malformed("verifier key: is not NAME+ID+KEY");
  const std::string_view name = text.substr(0, first);
  if (!is_key_name(name)) return malformed("verifier key: the name is not one of a key");
  const auto bytes = from_base64(text.substr(second + 1));
  if (!bytes.ok()) return within("verifier key", bytes.error());
  if (bytes->size() != 33) return malformed("verifier key: is not a type and 32 bytes");
  VerifierKey out{std::string(name), static_cast<SignatureType>(bytes->front()), {}};
  if (out.type != SignatureType::kEd25519 && out.type != SignatureType::kCosignature)
    return malformed(fmt::format("verifier key: type {:#04x} is neither 0x01 nor 0x04", bytes->front()));
  std::copy(bytes->begin() + 1, bytes->end(), out.key.bytes.begin());
  if (!crypto::valid_public_key(out.key)) return malformed("verifier key: is not a valid Ed25519 key");
  if (out.text() != text) return malformed("verifier key: the id is not that of name and key");
  return out;
}

std::string print_line(const NoteSignature& signature) {
  Bytes bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(signature.id >> static_cast<unsigned>(shift)));
  bytes.insert(bytes.end(), signature.bytes.begin(), signature.bytes.end());
  return fmt::format("{}{} {}\n", kDash, signature.name, to_base64(bytes));
}

std::string Note::print() const {
  std::string out = text + "\n";
  for (const NoteSignature& signature : signatures) out += print_line(signature);
  return out;
}

Result<Note> parse_note(std::string_view bytes) {
  if (bytes.size() > kMaxNoteBytes)
    return malformed(fmt::format("note: {} bytes, at most {} allowed", bytes.size(), kMaxNoteBytes));
  std::size_t line = 1;
  for (const char c : bytes) {
    if (c == '\n') ++line;
    if (c != '\n' && static_cast<unsigned char>(c) < 0x20) return at_line(line, "has a control character");
  }
  if (!is_utf8(bytes)) return malformed("note: is not UTF-8");
  const std::size_t cut = bytes.rfind("\n\n");
  if (cut == std::string_view::npos || cut == 0)
    return malformed("note: no empty line divides a text from its signatures");
  if (!bytes.ends_with('\n')) return malformed("note: does not end with a newline");
  Note out{std::string(bytes.substr(0, cut + 1)), {}};
  line = static_cast<std::size_t>(std::count(out.text.begin(), out.text.end(), '\n')) + 2;
  for (std::string_view rest = bytes.substr(cut + 2); !rest.empty(); ++line) {
    auto signature = parse_signature(take_line(rest));
    if (!signature.ok()) return within(fmt::format("line {}", line), std::move(signature).error());
    out.signatures.push_back(*std::move(signature));
    if (out.signatures.size() > kMaxNoteSignatures)
      return at_line(line,
                     fmt::format("is beyond the {} signatures that a note may have", kMaxNoteSignatures));
  }
  if (out.signatures.empty()) return malformed("note: has no signature");
  return out;
}

NoteSignature sign_note(const Note& note, const std::string& name, const crypto::SecretKey& key) {
  const auto signature = key.sign(as_bytes(note.text));
  const VerifierKey signer{name, SignatureType::kEd25519, key.public_key()};
  return {name, signer.id(), Bytes(signature.bytes.begin(), signature.bytes.end())};
}

NoteSignature cosign_note(const Note& note, const std::string& name, const crypto::SecretKey& key,
                          std::int64_t seconds) {
  const auto time = static_cast<std::uint64_t>(seconds);
  const auto signature = key.sign(as_bytes(cosigned_text(time, note.text)));
  const VerifierKey signer{name, SignatureType::kCosignature, key.public_key()};
  const std::string front = big_endian(time, kTimeBytes);
  Bytes bytes(front.begin(), front.end());
  bytes.insert(bytes.end(), signature.bytes.begin(), signature.bytes.end());
  return {name, signer.id(), std::move(bytes)};
}

Result<SignedBy> signed_by(const Note& note, const VerifierKey& key) {
  SignedBy out;
  for (const NoteSignature& line : note.signatures) {
    if (line.name != key.name || line.id != key.id()) continue;
    DGX_TRY(const std::int64_t seconds, check_line(note, line, key));
    out.found = true;
    out.seconds = std::max(out.seconds, seconds);
  }
  return out;
}

std::string Checkpoint::origin() const { return fmt::format("{}{}", kOrigin, ledger.hex()); }

std::string Checkpoint::text() const {
  return fmt::format("{}\n{}\n{}\n", origin(), head.count, to_base64(head.root.view()));
}

Result<Checkpoint> parse_checkpoint(std::string_view text) {
  DGX_TRY(const auto lines, exactly(text, 3, "a ledger's note"));
  if (!lines[0].starts_with(kOrigin))
    return at_line(1, fmt::format("\"{}\" is not the origin of a ledger", printable(lines[0].substr(0, 80))));
  const auto ledger = digest_from_hex(lines[0].substr(kOrigin.size()));
  if (!ledger.ok()) return within("line 1", ledger.error());
  const auto count = parse_number(lines[1]);
  if (!count.ok()) return within("line 2", count.error());
  if (*count == 0) return at_line(2, "a ledger has at least one entry");
  const auto root = parse_hash(lines[2]);
  if (!root.ok()) return within("line 3", root.error());
  return Checkpoint{*ledger, {*root, *count}};
}

std::string WitnessRequest::print() const {
  std::string out = fmt::format("{}{}\n", kOld, old_count);
  for (const Digest& digest : proof) out += to_base64(digest.view()) + "\n";
  return out + "\n" + note.print();
}

bool is_request(std::string_view bytes) { return bytes.starts_with(kOld); }

Result<WitnessRequest> parse_request(std::string_view bytes) {
  if (!is_request(bytes)) return at_line(1, "does not begin with \"old \"");
  WitnessRequest out;
  std::string_view rest = bytes.substr(kOld.size());
  const auto count = parse_number(take_line(rest));
  if (!count.ok()) return within("line 1", count.error());
  out.old_count = *count;
  std::size_t number = 2;
  for (std::string_view line = take_line(rest); !line.empty(); line = take_line(rest), ++number) {
    if (out.proof.size() == kMaxProofLines)
      return at_line(number, fmt::format("is beyond the {} that a proof may have", kMaxProofLines));
    const auto digest = parse_hash(line);
    if (!digest.ok()) return within(fmt::format("line {}", number), digest.error());
    out.proof.push_back(*digest);
  }
  auto note = parse_note(rest);
  if (!note.ok()) return within(fmt::format("after line {}", number), std::move(note).error());
  out.note = *std::move(note);
  return out;
}

std::string Sighting::text() const {
  return fmt::format("{}\n{}\n{}\n{}\n", kSaw, ledger.hex(), statement.hex(), milliseconds);
}

Result<Sighting> parse_sighting(std::string_view text) {
  DGX_TRY(const auto lines, exactly(text, 4, "a witness's note of a statement"));
  if (lines[0] != kSaw) return at_line(1, fmt::format("is not \"{}\"", kSaw));
  const auto ledger = digest_from_hex(lines[1]);
  if (!ledger.ok()) return within("line 2", ledger.error());
  const auto statement = digest_from_hex(lines[2]);
  if (!statement.ok()) return within("line 3", statement.error());
  const auto milliseconds = parse_number(lines[3]);
  if (!milliseconds.ok()) return within("line 4", milliseconds.error());
  return Sighting{*ledger, *statement, *milliseconds};
}

}  // namespace dgx::ledger
