#include "dgx/manifest/money.h"

#include <fmt/format.h>

#include <array>

#include "dgx/manifest/fields.h"
#include "dgx/manifest/opening.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kMaxReference = 64;
constexpr std::size_t kMaxPayouts = 400;
constexpr std::array kReasons{Reason::kAccepted,     Reason::kRefuted,   Reason::kUnverified,
                              Reason::kNoAssignment, Reason::kNoProof,   Reason::kNoDelivery,
                              Reason::kConvicted,    Reason::kOverturned};

template <class Transfer>
json::Object transfer_json(const Transfer& transfer, const std::string& account) {
  return {{"account", account},
          {"amount", transfer.amount},
          {"ledger", transfer.ledger.hex()},
          {"reference", transfer.reference}};
}

/// Reads all of a transfer except its account.
template <class Transfer>
Transfer read_transfer(json::Fields& in) {
  Transfer out;
  out.amount = in.integer("amount", 1, kMaxInteger);
  out.ledger = read_digest(in, "ledger");
  out.reference = read_name(in, "reference", kMaxReference);
  return out;
}

Payout read_payout(json::Fields& in) {
  Payout out;
  out.account = in.string("account", 64);
  if (out.account != "jackpot" && out.account != kTreasury && !digest_from_hex(out.account).ok()) {
    in.fail("account", "is neither a key id nor \"jackpot\" or \"treasury\"");
  }
  out.amount = in.integer("amount", 1, kMaxInteger);
  return out;
}

}  // namespace

json::Object Deposit::predicate() const { return transfer_json(*this, account.hex()); }
Deposit Deposit::read(json::Fields& in) {
  Deposit out = read_transfer<Deposit>(in);
  out.account = read_digest(in, "account");
  return out;
}
std::vector<Subject> Deposit::subjects() const { return {{"account", account}}; }

json::Object Withdrawal::predicate() const { return transfer_json(*this, account); }
Withdrawal Withdrawal::read(json::Fields& in) {
  Withdrawal out = read_transfer<Withdrawal>(in);
  out.account = in.string("account", 64);
  if (out.account != kTreasury && !digest_from_hex(out.account).ok())
    in.fail("account", "is neither a key id nor \"treasury\"");
  return out;
}
std::vector<Subject> Withdrawal::subjects() const {
  const auto id = digest_from_hex(account);
  return id.ok() ? std::vector<Subject>{{"account", *id}} : std::vector<Subject>{{"ledger", ledger}};
}

json::Object Delivery::predicate() const {
  json::Object out{{"task", task.hex()}, {"proof", proof.hex()}, {"final", final_state.hex()}};
  if (location) out.emplace("location", *location);
  return out;
}

Delivery Delivery::read(json::Fields& in) {
  Delivery out;
  out.task = read_digest(in, "task");
  out.proof = read_digest(in, "proof");
  out.final_state = read_digest(in, "final");
  if (in.has("location")) out.location = read_location(in, "location");
  return out;
}

std::vector<Subject> Delivery::subjects() const { return {{"proof", proof}, {"final", final_state}}; }

std::string_view name_of(Reason reason) {
  constexpr std::array<std::string_view, kReasons.size()> kNames{"accepted",      "refuted",   "unverified",
                                                                 "no-assignment", "no-proof",  "no-delivery",
                                                                 "convicted",     "overturned"};
  return kNames[static_cast<std::size_t>(reason)];
}

json::Object Settlement::predicate() const {
  json::Array list;
  for (const Payout& payout : payouts) {
    list.emplace_back(json::Object{{"account", payout.account}, {"amount", payout.amount}});
  }
  return {{"task", task.hex()}, {"reason", name_of(reason)}, {"payouts", list}};
}

Settlement Settlement::read(json::Fields& in) {
  Settlement out;
  out.task = read_digest(in, "task");
  out.reason = read_enum(in, "reason", kReasons);
  const json::Array& list = in.array("payouts", kMaxPayouts);
  for (std::size_t i = 0; i < list.size(); ++i) {
    json::Fields item(list[i], "payouts");
    out.payouts.push_back(read_payout(item));
    const Status status = item.finish();
    if (!status.ok()) fail_nested(in, "payouts", status.error());
    if (i > 0 && out.payouts[i].account <= out.payouts[i - 1].account) {
      in.fail("payouts", fmt::format("entry {} is not sorted by account", i));
    }
  }
  return out;
}

std::vector<Subject> Settlement::subjects() const { return {{"task", task}}; }

}  // namespace dgx::manifest
