#include "dgx/manifest/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/crypto/sha256.h"
#include "dgx/manifest/fields.h"
#include "dgx/manifest/log.h"

namespace dgx::manifest {
namespace {

constexpr std::array kSources{RoundSource::kDelay, RoundSource::kDrand};

DelayChain read_chain(json::Fields& in) {
  DelayChain out;
  out.steps = in.integer("steps", kLeastDelaySteps, kMostDelaySteps);
  out.checkpoints = read_digests(in, "checkpoints", kMostCheckpoints);
  if (out.steps >= kLeastDelaySteps && std::ssize(out.checkpoints) != delay_checkpoints(out.steps))
    in.fail("checkpoints", fmt::format("are {}, {} steps have {}", out.checkpoints.size(), out.steps,
                                       delay_checkpoints(out.steps)));
  return out;
}

bool is_point(ByteView signature) {
  return signature.size() == kPulseBytes && (static_cast<unsigned>(signature[0]) & 0xc0U) == 0x80U;
}

/// Reads a pulse. The first bits of the signature are those of a compressed point that is not infinity; more
/// cannot be told without the arithmetic of the curve.
DrandPulse read_pulse(json::Fields& in) {
  DrandPulse out;
  out.number = in.integer("number", 1, kMaxInteger);
  out.signature = read_bytes(in, "signature", kPulseBytes);
  if (!is_point(out.signature)) in.fail("signature", "is not a compressed point of 48 bytes");
  return out;
}

/// A field of drand's JSON that holds bytes in hex; nullopt if there is none.
std::optional<Bytes> hex_field(const json::Object& pulse, std::string_view key) {
  const auto field = pulse.find(key);
  const std::string* const text = field == pulse.end() ? nullptr : field->second.as_string();
  if (text == nullptr) return std::nullopt;
  auto out = from_hex(*text);
  return out.ok() ? std::optional(*std::move(out)) : std::nullopt;
}

/// Refuses what says of itself that it is of another network of drand.
Status check_network(const json::Object& pulse) {
  constexpr std::string_view kQuicknet = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
  for (const std::string_view key : {"chain_hash", "chainhash", "chain"}) {
    const auto chain = pulse.find(key);
    if (chain != pulse.end() && chain->second != json::Value(kQuicknet))
      return malformed(fmt::format("{}: is not that of quicknet", key));
  }
  if (!pulse.contains("previous_signature")) return {};
  return malformed("is a pulse of another network: those of quicknet have no previous_signature");
}

}  // namespace

std::string_view name_of(RoundSource source) { return source == RoundSource::kDelay ? "delay" : "drand"; }

std::int64_t delay_interval(std::int64_t steps) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;
  return std::max(kLeast, (steps + kMostCheckpoints - 1) / kMostCheckpoints);
}

std::int64_t delay_checkpoints(std::int64_t steps) {
  const std::int64_t interval = delay_interval(steps);
  return (steps + interval - 1) / interval;
}

Digest delay_start(const Digest& ledger, std::int64_t slot, const RootReference& head) {
  return crypto::sha256(ByteWriter()
                            .text("dgx-delay")
                            .digest(ledger)
                            .u64(static_cast<std::uint64_t>(slot))
                            .u64(static_cast<std::uint64_t>(head.count))
                            .digest(head.root)
                            .bytes());
}

Digest round_value(const DelayChain& chain) {
  const Digest end = chain.checkpoints.empty() ? Digest{} : chain.checkpoints.back();
  return crypto::sha256(ByteWriter().text("dgx-round").digest(end).bytes());
}

Digest round_value(const DrandPulse& pulse) { return crypto::sha256(pulse.signature); }

json::Object Round::predicate() const {
  json::Object out{{"ledger", ledger.hex()},
                   {"slot", slot},
                   {"head", head_json(head)},
                   {"source", name_of(source())},
                   {"value", value.hex()}};
  if (const auto* chain = std::get_if<DelayChain>(&origin)) {
    out.emplace("steps", chain->steps);
    out.emplace("checkpoints", digests_json(chain->checkpoints));
  } else {
    const auto& pulse = std::get<DrandPulse>(origin);
    out.emplace("number", pulse.number);
    out.emplace("signature", to_base64(pulse.signature));
  }
  return out;
}

Round Round::read(json::Fields& in) {
  Round out;
  out.ledger = read_digest(in, "ledger");
  out.slot = in.integer("slot", 0, kMaxInteger);
  out.head = read_object(in, "head", read_head);
  out.value = read_digest(in, "value");
  if (read_enum(in, "source", kSources) == RoundSource::kDelay) {
    out.origin = read_chain(in);
  } else {
    out.origin = read_pulse(in);
  }
  if (out.value != std::visit([](const auto& origin) { return round_value(origin); }, out.origin))
    in.fail("value", "does not follow from the round's source");
  return out;
}

std::vector<Subject> Round::subjects() const { return {{"head", head.root}, {"value", value}}; }

Result<DrandPulse> parse_pulse(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse(text));
  const json::Object* const pulse = value.as_object();
  const auto number = pulse == nullptr ? json::Object::const_iterator() : pulse->find("round");
  const bool has_number = pulse != nullptr && number != pulse->end() && number->second.as_int() != nullptr;
  if (!has_number || *number->second.as_int() < 1)
    return malformed("is no pulse of drand: it has no \"round\" of 1 or more");
  DGX_CHECK(check_network(*pulse));
  const auto signature = hex_field(*pulse, "signature");
  if (!signature || !is_point(*signature))
    return malformed(fmt::format(
        "signature: is not a compressed point of {} bytes in hex, as those of quicknet are", kPulseBytes));
  DrandPulse out{*number->second.as_int(), *signature};
  if (!pulse->contains("randomness")) return out;
  const auto randomness = hex_field(*pulse, "randomness");
  const Digest hash = round_value(out);
  if (randomness && std::equal(randomness->begin(), randomness->end(), hash.bytes.begin(), hash.bytes.end()))
    return out;
  return malformed("randomness: is not SHA-256 of the signature");
}

}  // namespace dgx::manifest
