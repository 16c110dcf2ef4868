// dgx-threats(7), rows 1 to 5 and 10: proofs of something other than the work.

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "dgx/protocol/verify.h"
#include "forge.h"

namespace {

using namespace dgx;
using manifest::Outcome;
using manifest::RowReason;
using test::Forger;
using test::must;
using test::SmallTask;

/// Index of the first segment that does not replay; -1 if the proof was accepted.
std::int64_t first_refuted(const manifest::Verdict& verdict) {
  CHECK(verdict.draw == manifest::Draw::kPolicy);
  CHECK(verdict.replayed == 10);
  if (verdict.outcome == Outcome::kAccepted) return -1;
  REQUIRE(verdict.first_disagreement);
  CHECK(verdict.first_disagreement->reason == RowReason::kDigest);
  return verdict.first_disagreement->index;
}

/// The first entry whose name begins with `prefix`.
Tensor& entry(State& state, const std::string& prefix) {
  const auto found =
      std::find_if(state.begin(), state.end(), [&](const Entry& e) { return e.name.starts_with(prefix); });
  REQUIRE(found != state.end());
  return found->tensor;
}

}  // namespace

TEST_CASE("the forger's machine is honest unless told otherwise") {
  const SmallTask task;
  const Forger forger(task);
  CHECK(first_refuted(forger.verdict(forger.train(forger.honest(), forger.initial()))) == -1);
}

TEST_CASE("a solver cannot bring their own learning rate") {
  const SmallTask task;
  const Forger forger(task);
  auto machine = forger.honest();
  SECTION("a tiny one, so that nothing moves") { machine.inputs.schedule.learning_rate = 1e-12; }
  SECTION("one unit of the last place away") {
    machine.inputs.schedule.learning_rate = static_cast<double>(std::nextafter(0.1F, 1.0F));
  }
  CHECK(first_refuted(forger.verdict(forger.train(machine, forger.initial()))) == 0);
}

TEST_CASE("a solver cannot bring their own optimiser state") {
  const SmallTask task;
  const Forger forger(task);
  SECTION("in a committed state, parameters untouched") {
    auto machine = forger.honest();
    machine.after = [](std::int64_t step, State& state) {
      if (step == 12) entry(state, "optimizer/momentum/").as<float>()[0] += 0x1p-20F;
    };
    CHECK(first_refuted(forger.verdict(forger.train(machine, forger.initial()))) == 2);
  }
  SECTION("in the initial state") {
    State state = forger.initial();
    entry(state, "optimizer/momentum/").as<float>()[0] = 1;
    const auto states = forger.train(forger.honest(), state);
    forger.write_run(states);
    const auto proof = test::run_job([&](const JobContext& context) {
      return jobs::prove({task.at("task.json"), task.at("run"), task.key("solver"), task.at("proof.json")},
                         context);
    });
    REQUIRE_FALSE(proof.ok());
    CHECK_THAT(proof.error().message, Catch::EndsWith("does not begin at the task's initial state"));
  }
}

TEST_CASE("crafted initial weights are refused although the solver signs them") {
  const SmallTask task;
  const Forger forger(task);
  State state = forger.initial();
  entry(state, "model/").as<float>()[0] += 0x1p-24F;
  std::vector<Digest> digests;
  State last;
  for (const State& each : forger.train(forger.honest(), state)) {
    digests.push_back(must(bundle::digests_of(each, 1)).state);
    last = each;
  }
  std::vector<merkle::NamedDigest> entries;
  for (const Entry& each : last) entries.push_back({each.name, merkle::tensor_digest(each.tensor.view())});
  const float loss = find_entry(last, "loss")->tensor.as<float>()[0];
  const manifest::Proof proof{forger.files().task.id,
                              manifest::states_root(digests),
                              digests.front(),
                              digests.back(),
                              40,
                              must(manifest::open_loss(entries, loss))};
  const auto sealed = must(manifest::seal(proof, must(jobs::read_key(task.key("solver")))));
  const Status status = protocol::check_proof(forger.files().task, sealed);
  REQUIRE_FALSE(status.ok());
  CHECK_THAT(status.error().message, Catch::Contains("is not the task's initial state"));
}

TEST_CASE("an interpolated trajectory is refuted in every segment") {
  const SmallTask task;
  const Forger forger(task);
  auto states = forger.train(forger.honest(), forger.initial());
  const State first = states.front(), last = states.back();
  for (std::size_t i = 1; i + 1 < states.size(); ++i) {
    const float share = static_cast<float>(i) / static_cast<float>(states.size() - 1);
    for (std::size_t e = 0; e < first.size(); ++e) {
      if (first[e].tensor.dtype() != DType::kF32) continue;
      const auto from = first[e].tensor.as<float>(), to = last[e].tensor.as<float>();
      for (std::size_t n = 0; n < from.size(); ++n)
        states[i][e].tensor.as<float>()[n] = from[n] + share * (to[n] - from[n]);
    }
  }
  const auto verdict = forger.verdict(states);
  CHECK(first_refuted(verdict) == 0);
  const auto rows = must(read_file(task.at("verdict.rows.jsonl"), 1 << 20));
  std::size_t refuted = 0;
  for (std::size_t at = rows.find("\"agrees\":false"); at != std::string::npos;
       at = rows.find("\"agrees\":false", at + 1))
    ++refuted;
  CHECK(refuted == 10);
}

TEST_CASE(
    "one forged segment among honest ones is refuted, and the miss probability says zero when all are "
    "drawn") {
  const SmallTask task;
  const Forger forger(task);
  auto machine = forger.honest();
  machine.after = [](std::int64_t step, State& state) {
    // The smallest possible change that the program does not make.
    if (step == 27) {
      float& x = entry(state, "model/").as<float>()[0];
      x = std::nextafter(x, 1.0F);
    }
  };
  const auto verdict = forger.verdict(forger.train(machine, forger.initial()));
  CHECK(first_refuted(verdict) == 6);
  CHECK(verdict.miss_probability.one_segment == "0");
}

TEST_CASE("other data than the task's is noticed, whatever is changed") {
  const SmallTask task;
  const Forger forger(task);
  auto machine = forger.honest();
  SECTION("one bit of one number of one sample") {
    auto x = machine.data.fields["x"].numbers.as<float>();
    x[17] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[17]) ^ 1U);
  }
  SECTION("one label") {
    auto y = machine.data.fields["y"].numbers.as<std::int64_t>();
    y[3] = (y[3] + 1) % 3;
  }
  SECTION("the order") { machine.inputs.seed += 1; }
  SECTION("a sample twice") {
    auto x = machine.data.fields["x"].numbers.as<float>();
    std::copy_n(x.begin(), 4, x.begin() + 4);
  }
  // An epoch has five steps, so the change takes effect in the first two segments.
  const std::int64_t segment = first_refuted(forger.verdict(forger.train(machine, forger.initial())));
  CHECK((segment == 0 || segment == 1));
}

TEST_CASE("the task's dataset cannot be exchanged behind its name") {
  const SmallTask task;
  const Forger forger(task);
  auto data = forger.honest().data;
  std::int64_t& label = data.fields["y"].numbers.as<std::int64_t>()[3];
  label = (label + 1) % 3;
  must(bundle::write_dataset(task.at("data.h5"), data, Clobber::kReplace));
  const auto read = jobs::read_task_dataset(task.at("data.h5"), forger.files().body(), 1);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == ErrorCode::kMalformed);
  const auto opened = test::run_job([&](const JobContext& context) {
    return jobs::open_task_dataset(task.at("data.h5"), forger.files().body(), context);
  });
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code == ErrorCode::kMalformed);
}

TEST_CASE("the sign of a zero is part of the state") {
  const SmallTask task;
  const Forger forger(task);
  auto states = forger.train(forger.honest(), forger.initial());
  // Dead units leave momenta of exactly zero; if there are none, any number will do.
  bool flipped = false;
  for (std::size_t i = 1; i < states.size() && !flipped; ++i) {
    for (Entry& e : states[i]) {
      if (e.tensor.dtype() != DType::kF32) continue;
      for (float& x : e.tensor.as<float>()) {
        if (flipped || x != 0) continue;
        x = -x;
        flipped = true;
      }
    }
  }
  if (!flipped) entry(states[1], "model/").as<float>()[0] *= -1;
  const auto verdict = forger.verdict(states);
  CHECK(verdict.outcome == Outcome::kRefuted);
}

TEST_CASE("a committed state that holds NaN or infinity is refuted") {
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7FC00001U),
                             std::bit_cast<float>(0xFF800000U));
  const SmallTask task;
  const Forger forger(task);
  auto states = forger.train(forger.honest(), forger.initial());
  entry(states[4], "model/").as<float>()[0] = bad;
  const auto verdict = forger.verdict(states);
  REQUIRE(verdict.outcome == Outcome::kRefuted);
  CHECK(verdict.first_disagreement->index == 3);
}
