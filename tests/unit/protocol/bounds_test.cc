// The closed forms of dgx-money(7): tests/vectors/bounds.json, derived by a second implementation from what
// each party gains.
#include "dgx/protocol/bounds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "dgx/protocol/economy.h"
#include "json_vectors.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;
using namespace dgx::protocol;

namespace {

std::int64_t& number_of(Policy& policy, std::string_view name) {
  for (const PolicyKey& key : policy_keys()) {
    if (key.name == name) return policy.*key.member;
  }
  FAIL("no policy key is called " << name);
  return policy.jackpot;
}

Policy policy_with(const json::Value& keys) {
  Policy out = standard_policy();
  for (const auto& [name, value] : *keys.as_object()) number_of(out, name) = *value.as_int();
  return out;
}

const Bound& row_of(const std::vector<Bound>& rows, std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Bound& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

std::vector<Bound> bounds_of(const Policy& policy, const BoundsInput& input = {}) {
  auto rows = bounds(policy, nullptr, input);
  REQUIRE(rows.ok());
  return *rows;
}

std::vector<std::string> warnings_of(const std::vector<Bound>& rows) {
  std::vector<std::string> out;
  for (const Bound& row : rows) {
    CHECK((row.warning.empty() || !row.holds));
    if (!row.warning.empty()) out.push_back(row.warning);
  }
  return out;
}

json::Object object_of(const std::vector<Mend>& mends) {
  json::Object out;
  for (const Mend& mend : mends) out.insert_or_assign(std::string(mend.key), json::Value(mend.value));
  return out;
}

/// A policy of which every number that the closed forms read is drawn, from all of its range or near zero.
Policy drawn_policy(std::mt19937_64& random) {
  Policy out = standard_policy();
  for (const char* const name :
       {"audit_ppm", "beacon_slot_ms", "beacon_source", "beacon_steps", "challenger_bond", "forced_error_ppm",
        "jackpot", "jackpot_tax_ppm", "sample_ppm", "solver_bond", "solver_bond_ppm", "treasury_ppm",
        "verifier_bond", "verifier_bond_ppm", "verifier_fee"}) {
    for (const PolicyKey& key : policy_keys()) {
      if (key.name != name) continue;
      const auto range = static_cast<std::uint64_t>(key.high - key.low + 1);
      const std::uint64_t most = random() % 2 == 0 ? range : std::min<std::uint64_t>(range, 1'000'000);
      out.*key.member = random() % 4 == 0 ? key.low : key.low + static_cast<std::int64_t>(random() % most);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("every closed form and every mend is what Python derives from the parties' gains") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/bounds.json");
  std::size_t cases = 0;
  for (const json::Value& one : *test::member(vectors, "cases").as_array()) {
    CAPTURE(*test::member(one, "name").as_string());
    const Policy policy = policy_with(test::member(one, "policy"));
    const BoundsInput input{test::integer(one, "alpha_ppm"), test::integer(one, "tasks")};
    const auto rows = bounds_of(policy, input);
    for (const auto& [name, expected] : *test::member(one, "rules").as_object()) {
      CAPTURE(name);
      const Bound& row = row_of(rows, name);
      CHECK(row.holds == *test::member(expected, "holds").as_bool());
      CHECK(object_of(row.mend) == *test::member(expected, "mend").as_object());
      if (!row.policy.empty()) CHECK(row.policy == std::to_string(test::integer(expected, "policy")));
      const bool has_number = row.value.find_first_not_of("0123456789") == std::string::npos;
      if (has_number) CHECK(row.value == std::to_string(test::integer(expected, "value")));
      if (!has_number)
        CHECK((!expected.as_object()->contains("value") || test::integer(expected, "value") == 0));
    }
    for (const auto& [name, expected] : *test::member(one, "told").as_object())
      CHECK(row_of(rows, name).value == std::to_string(*expected.as_int()));
    CHECK(mended(policy, rows) == policy_with(test::member(one, "mended")));
    CHECK(warnings_of(bounds_of(mended(policy, rows), input)).empty());
    ++cases;
  }
  CHECK(cases == 10);
}

TEST_CASE("a policy with all mends has no warning, whatever it was") {
  std::mt19937_64 random(5);
  std::map<std::string, int> warned;
  for (int n = 0; n < 3'000; ++n) {
    const Policy policy = drawn_policy(random);
    const BoundsInput input{static_cast<std::int64_t>(random() % 3 * (random() % 333'000)),
                            1 + static_cast<std::int64_t>(random() % 100)};
    const auto rows = bounds_of(policy, input);
    for (const Bound& row : rows) warned[row.name] += row.warning.empty() ? 0 : 1;
    const Policy better = mended(policy, rows);
    const auto left = warnings_of(bounds_of(better, input));
    CAPTURE(json::Value(policy.to_json()).dump(), json::Value(better.to_json()).dump(), input.alpha_ppm);
    REQUIRE(left == std::vector<std::string>{});
    // With nothing left to mend, but for what a cheat plants against themselves where they break even.
    for (const Bound& row : bounds_of(better, input)) CHECK(row.mend.empty());
  }
  for (const char* const name :
       {"named_verifier", "solver_bond", "bribed_verifier", "delay_steps", "audit_fee", "lazy_verifier",
        "lazy_auditor", "saved_auditor", "farming", "guessing", "saved_guesser"})
    CHECK(warned[name] > 20);
}

TEST_CASE("a mend is the number nearest to the policy's own") {
  std::mt19937_64 random(6);
  int tried = 0;
  for (int n = 0; n < 300; ++n) {
    Policy before = drawn_policy(random);
    for (const Bound& row : bounds_of(before)) {
      Policy almost = before;
      for (const Mend& mend : row.mend) {
        if (row.mend.size() > 1 && (mend.value == 1'000'000 || mend.key == "forced_error_ppm")) {
          number_of(almost, mend.key) = mend.value;  // not near: the best there is, and not enough
        } else {
          const bool raised = mend.value > number_of(before, mend.key);
          number_of(almost, mend.key) = mend.value + (raised ? -1 : 1);
        }
        number_of(before, mend.key) = mend.value;
      }
      if (row.mend.empty() || row.name == "planting") continue;
      CAPTURE(row.name, json::Value(almost.to_json()).dump());
      CHECK_FALSE(row_of(bounds_of(almost), row.name).holds);
      CHECK(row_of(bounds_of(before), row.name).holds);
      ++tried;
    }
  }
  CHECK(tried > 900);
}

TEST_CASE("numbers at their limits are answered, and inputs out of range refused") {
  Policy policy = standard_policy();
  for (const PolicyKey& key : policy_keys()) {
    for (const std::int64_t number : {key.low, key.high}) {
      policy.*key.member = number;
      CAPTURE(key.name, number);
      CHECK(bounds(policy, nullptr, {999'999, 1'000'000}).ok());
    }
  }
  const Policy standard = standard_policy();
  for (const BoundsInput input : {BoundsInput{-1, 1}, {1'000'000, 1}, {0, 0}, {0, 1'000'001}}) {
    const auto rows = bounds(standard, nullptr, input);
    REQUIRE_FALSE(rows.ok());
    CHECK(rows.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("the picture's curves are those of the closed forms") {
  Policy policy = standard_policy();
  policy.beacon_source = 1;
  policy.audit_ppm = 180'000;
  const auto economy = economy_of(policy, nullptr);
  REQUIRE(economy.ok());
  // R + D_s = 1.21 C: all of it faked is always found, one segment with q / N.
  CHECK(economy->gain(100, 0) == Approx(1 - 1.21));
  CHECK(economy->gain(1, 0) == Approx(0.01 - 0.05 * 1.21));
  CHECK(economy->gain(100, 0.4) == Approx(1 - 0.6 * (1 + 0.4 * 0.18) * 1.21));
  CHECK(economy->overhead == Approx(0.0701));
  CHECK(economy->overhead_of(0) == Approx(0.0501));
  CHECK(economy->overhead_of(1) == Approx(0.1002));
}
