// dgx-threats(7), rows 1 and 3: entries that no step changes, which runs and samples store once, and the
// memory of averages and of the schedule plateau.

#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/bundle/constants.h"
#include "dgx/bundle/sample.h"
#include "dgx/bundle/state.h"
#include "dgx/merkle/tree.h"
#include "forge.h"

namespace {

using namespace dgx;
using test::Forger;
using test::must;
using test::SmallTask;

constexpr const char* kBase = "model/0.weight";  ///< frozen, and so is its bias

program::UpdateSpec with_frozen_base() {
  program::UpdateSpec out;
  out.frozen = {"0.*"};
  return out;
}

Tensor& entry(State& state, std::string_view name) {
  Entry* const found = find_entry(state, name);
  REQUIRE(found != nullptr);
  return found->tensor;
}

void change_base(State& state) {
  float& x = entry(state, kBase).as<float>()[5];
  x = std::nextafter(x, 2.0F);
}

bundle::Constants constants_of(const State& state, std::vector<std::string> names) {
  return must(bundle::constants_of(state, must(bundle::digests_of(state)), std::move(names)));
}

/// The constant entries of a task, and attacks on the files that store them.
class Base {
 public:
  Base(const SmallTask& task, const Forger& forger)
      : task_(task), forger_(forger), names_(program::constant_entries(*forger.files().program)) {
    REQUIRE(names_ == std::vector<std::string>{"model/0.bias", kBase});
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  /// The file of constant entries that `state` needs, with the numbers of `numbers`.
  void write_file(const State& state, const State& numbers) const {
    const bundle::Constants constants = constants_of(state, names_);
    State only;
    merkle::StateDigests digests{{}, constants.digest};
    for (const merkle::NamedDigest& each : constants.entries) {
      only.push_back({each.name, find_entry(numbers, each.name)->tensor});
      digests.tensors.push_back(each.digest);
    }
    must(bundle::write_state(bundle::constants_path(task_.at("run"), constants.digest), only, digests,
                             Clobber::kReplace));
  }

  /// Lets checkpoint `i`, which is `state`, leave out its constant entries, and name the file that `base`
  /// needs.
  void share(std::size_t i, const State& state, const State& base) const {
    const auto run = must(bundle::RunReader::open(task_.at("run")));
    must(bundle::write_state(bundle::checkpoint_path(task_.at("run"), run.index().checkpoints[i]), state,
                             must(bundle::digests_of(state)), constants_of(base, names_), Clobber::kReplace));
  }

  /// Writes and proves a run that stores the constant entries of its states once, or once for each of their
  /// numbers.
  void prove(const std::vector<State>& states) const {
    forger_.write_run(states);
    for (std::size_t i = 0; i < states.size(); ++i) {
      write_file(states[i], states[i]);
      share(i, states[i], states[i]);
    }
    forger_.prove();
  }

  /// Writes sample.h5: the proved start states, whose entries `shared` are those of `constants`, under these
  /// digests.
  void write_sample(const std::vector<State>& states, State constants, const merkle::StateDigests& digests,
                    const std::vector<std::string>& shared) const {
    std::vector<Digest> leaves;
    for (const State& state : states)
      leaves.push_back(merkle::committed_state_leaf(must(bundle::digests_of(state)).state));
    const auto proof = must(jobs::open_proof(task_.at("proof.json"), forger_.files().task, std::nullopt));
    auto sample = must(bundle::SampleWriter::create(
        task_.at("sample.h5"), {forger_.files().task.id, proof.proof.id, std::ssize(states)},
        Clobber::kReplace, {}, constants_of(constants, shared)));
    for (std::size_t i = 0; i + 1 < states.size(); ++i) {
      const auto own = must(bundle::digests_of(states[i]));
      const bundle::SampleSegment segment{static_cast<std::int64_t>(i), own.state,
                                          must(merkle::inclusion_path(leaves, i))};
      // Only the first state's constant entries are written.
      if (i == 0)
        must(sample.add(segment, constants, digests));
      else
        must(sample.add(segment, states[i], own));
    }
    must(sample.commit());
  }

 private:
  const SmallTask& task_;
  const Forger& forger_;
  std::vector<std::string> names_;
};

/// The segments that a verification found wrong.
std::vector<std::int64_t> wrong_segments(const Result<jobs::VerifyResult>& found) {
  std::vector<std::int64_t> out;
  if (!found.ok()) FAIL(found.error().message);
  for (const manifest::VerdictRow& row : found->rows) {
    if (!row.agrees) out.push_back(row.index);
  }
  CHECK(found->verdict.replayed == 10);
  CHECK((found->verdict.outcome == manifest::Outcome::kRefuted) == !out.empty());
  return out;
}

void refuses(const Result<jobs::VerifyResult>& found, const std::string& words) {
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().code == ErrorCode::kMalformed);
  CHECK_THAT(found.error().message, Catch::Contains(words));
}

}  // namespace

TEST_CASE("a frozen base that is another for a while is refuted where it comes and where it goes") {
  const SmallTask task(with_frozen_base());
  const Forger forger(task);
  const Base base(task, forger);
  auto states = forger.train(forger.honest(), forger.initial());
  change_base(states[3]);
  base.prove(states);
  CHECK(wrong_segments(forger.judged("run")) == std::vector<std::int64_t>{2, 3});
#ifdef DGX_EMULATED_MODULE
  ::setenv("DGX_CUDA_MODULE", DGX_EMULATED_MODULE, 1);
  CHECK(wrong_segments(forger.judged("run", jobs::ComputeDevice::kCuda)) == std::vector<std::int64_t>{2, 3});
#endif
}

TEST_CASE("a solver who goes on from another base is refuted where it comes, and opens no sample") {
  const SmallTask task(with_frozen_base());
  const Forger forger(task);
  const Base base(task, forger);
  auto machine = forger.honest();
  machine.after = [](std::int64_t step, State& state) {
    if (step == 12) change_base(state);
  };
  base.prove(forger.train(machine, forger.initial()));
  CHECK(wrong_segments(forger.judged("run")) == std::vector<std::int64_t>{2});
  const auto opened = test::run_job([&](const JobContext& context) {
    jobs::OpenSampleOptions options;
    options.task = task.at("task.json");
    options.proof = task.at("proof.json");
    options.run = task.at("run");
    options.beacon = task.at("beacon.json");
    options.output = task.at("sample.h5");
    return jobs::open_sample(options, context);
  });
  REQUIRE_FALSE(opened.ok());
  CHECK_THAT(opened.error().message, Catch::Contains("is not the one that was proved"));
  CHECK_FALSE(exists(task.at("sample.h5")));
}

TEST_CASE("constant entries of a run's folder are those that its checkpoints were proved with") {
  const SmallTask task(with_frozen_base());
  const Forger forger(task);
  const Base base(task, forger);
  const auto states = forger.train(forger.honest(), forger.initial());
  State other = states[0];
  change_base(other);
  base.prove(states);
  CHECK(wrong_segments(forger.judged("run")).empty());
  SECTION("not those of another file, which a checkpoint names") {
    base.write_file(other, other);
    base.share(4, states[4], other);
    refuses(forger.judged("run"), "the state has digest");
  }
  SECTION("not others under the same digests") {
    base.write_file(states[0], other);
    refuses(forger.judged("run"), "\"model/0.weight\" has digest");
  }
  SECTION("not those of a file that states another digest") {
    base.write_file(other, other);
    const auto at = [&](const State& state) {
      return bundle::constants_path(task.at("run"), constants_of(state, base.names()).digest);
    };
    std::filesystem::rename(at(other), at(states[0]));
    refuses(forger.judged("run"), "has digest");
  }
  SECTION("not none") {
    std::filesystem::remove(
        bundle::constants_path(task.at("run"), constants_of(states[0], base.names()).digest));
    const auto found = forger.judged("run");
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().code == ErrorCode::kMissing);
  }
  CHECK_FALSE(exists(task.at("verdict.json")));
}

TEST_CASE("constant entries of a sample are those that were proved") {
  program::UpdateSpec update = with_frozen_base();
  const SmallTask task(update, "plateau:every=19,patience=0");
  const Forger forger(task);
  const Base base(task, forger);
  const auto states = forger.train(forger.honest(), forger.initial());
  base.prove(states);
  const auto honest = must(bundle::digests_of(states[0]));
  State other = states[0];
  change_base(other);
  SECTION("they are accepted") {
    base.write_sample(states, states[0], honest, base.names());
    CHECK(wrong_segments(forger.judged("sample.h5")).empty());
    return;
  }
  SECTION("not others") {
    base.write_sample(states, other, must(bundle::digests_of(other)), base.names());
    refuses(forger.judged("sample.h5"), "the state has digest");
  }
  SECTION("not others under the same digests") {
    base.write_sample(states, other, honest, base.names());
    refuses(forger.judged("sample.h5"), "constant: \"model/0.weight\" has digest");
  }
  SECTION("not one that the program changes, though it is the same in every start state") {
    auto names = base.names();
    names.emplace_back("optimizer/plateau/bad");
    base.write_sample(states, states[0], honest, names);
    refuses(forger.judged("sample.h5"),
            "\"constant/optimizer/plateau/bad\": the task's program changes this entry, or has none");
  }
  CHECK_FALSE(exists(task.at("verdict.json")));
}

TEST_CASE("averages and what the schedule plateau remembers are replayed like all else") {
  program::UpdateSpec update;
  update.ema = 0.75;
  const SmallTask task(update, "plateau:every=4,patience=0,threshold=0.9,factor=0.5");
  const Forger forger(task);
  auto machine = forger.honest();
  const auto cheat = [&](const std::function<void(State&)>& change) {
    machine.after = [change](std::int64_t step, State& state) {
      if (step == 12) change(state);
    };
  };
  // Each is right in form, and is gone on from honestly.
  SECTION("an average that is the parameter") {
    cheat([](State& state) { entry(state, "optimizer/ema/2.weight") = entry(state, "model/2.weight"); });
  }
  SECTION("an average of another decay") {
    cheat([](State& state) {
      const Tensor& p = entry(state, "model/2.bias");
      Tensor& e = entry(state, "optimizer/ema/2.bias");
      for (std::size_t i = 0; i < e.as<float>().size(); ++i)
        e.as<float>()[i] += (p.as<float>()[i] - e.as<float>()[i]) * 0x1p-10F;
    });
  }
  SECTION("a rate that did not fall") {
    cheat([](State& state) {
      REQUIRE(entry(state, "optimizer/plateau/factor").as<float>()[0] < 1);
      entry(state, "optimizer/plateau/factor").as<float>()[0] = 1;
    });
  }
  SECTION("a best loss that was never seen") {
    cheat([](State& state) { entry(state, "optimizer/plateau/best").as<float>()[0] += 1; });
  }
  SECTION("windows that do not count") {
    cheat([](State& state) { entry(state, "optimizer/plateau/bad").as<std::int64_t>()[0] = -1000; });
  }
  SECTION("part of a window forgotten") {
    cheat([](State& state) { entry(state, "optimizer/plateau/mean").as<float>()[0] -= 1; });
  }
  const auto verdict = forger.verdict(forger.train(machine, forger.initial()));
  REQUIRE(verdict.first_disagreement);
  CHECK(verdict.first_disagreement->index == 2);
}
