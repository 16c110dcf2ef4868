#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dgx/bundle/run.h"
#include "dgx/exec/executor.h"
#include "dgx/jobs/beacon.h"
#include "dgx/jobs/prove.h"
#include "dgx/jobs/task_files.h"
#include "dgx/jobs/verify.h"
#include "small_task.h"

namespace dgx::test {

/// A SmallTask's solver with the sources: trains in any way and writes a run that claims to be the task's.
class Forger {
 public:
  explicit Forger(const SmallTask& task)
      : task_(task),
        files_(must(jobs::open_task(task.at("task.json"), std::nullopt, std::nullopt))),
        data_(must(bundle::read_dataset(task.at("data.h5")))) {
    run_job([&](const JobContext& context) {
      return must(jobs::commit_beacon(
          {task_.at("task.json"), std::nullopt, {}, {}, {}, task_.key("verifier"), task_.at("commit.json")},
          context));
    });
  }

  /// The inputs from which steps are computed: change them to cheat.
  struct Machine {
    exec::StepInputs inputs;
    bundle::Dataset data;                                       ///< to which the inputs refer
    std::function<void(std::int64_t step, State&)> after = {};  ///< may edit the state after this many steps
  };
  [[nodiscard]] Machine honest() const {
    const manifest::Task& body = files_.body();
    Machine out{{must(program::schedule_parameters(body.optimizer, body.schedule, body.steps, body.update)),
                 body.seed,
                 body.batch,
                 {}},
                data_};
    return out;
  }
  [[nodiscard]] State initial() const { return must(jobs::initial_state(files_, std::nullopt)); }

  /// The states that would be committed: the given one, and one after each segment.
  [[nodiscard]] std::vector<State> train(Machine machine, State state) const {
    for (const auto& [name, field] : machine.data.fields) machine.inputs.fields[name] = field.numbers.view();
    auto executor = must(exec::ExactExecutor::create(files_.program, machine.inputs, 1));
    std::vector<State> out{state};
    must(executor->load(state));
    for (std::int64_t segment = 0; segment < files_.segments.count(); ++segment) {
      for (std::int64_t step = files_.segments[segment].first; step < files_.segments[segment].end; ++step) {
        must(executor->step());
        if (!machine.after) continue;
        State edited = executor->state().value();
        machine.after(step + 1, edited);
        must(executor->load(edited));
      }
      out.push_back(executor->state().value());
    }
    return out;
  }

  /// Writes the states as a run of the task.
  void write_run(const std::vector<State>& states) const {
    const bundle::RunHeader header{files_.task.id, files_.body().program.root, files_.body().checkpoint_every,
                                   ""};
    auto run = must(bundle::RunWriter::create(task_.at("run"), header, {}, states[0],
                                              must(bundle::digests_of(states[0], 1))));
    for (std::size_t i = 1; i < states.size(); ++i) {
      must(run.append(states[i], must(bundle::digests_of(states[i], 1)), std::vector<float>(4, 1.0F)));
    }
  }

  /// Proves the run, and has the verifier replay the policy's draw, which for this task is all segments.
  [[nodiscard]] manifest::Verdict verdict(const std::vector<State>& states) const {
    write_run(states);
    prove();
    return must(judged("run")).verdict;
  }

  /// Proves the run in the task's folder, and reveals the verifier's beacon.
  void prove() const {
    run_job([&](const JobContext& context) {
      must(jobs::prove({task_.at("task.json"), task_.at("run"), task_.key("solver"), task_.at("proof.json")},
                       context));
      jobs::LogEvidence nowhere;
      nowhere.unlogged = true;
      must(jobs::reveal_beacon({task_.at("commit.json"), task_.at("proof.json"), task_.at("task.json"),
                                nowhere, task_.key("verifier"), task_.at("beacon.json")},
                               context));
    });
  }

  /// The verification of the proved run, from the start states in `from`: a run or a sample.
  [[nodiscard]] Result<jobs::VerifyResult> judged(
      const std::string& from, jobs::ComputeDevice device = jobs::ComputeDevice::kCpu) const {
    jobs::VerifyOptions options;
    options.task = task_.at("task.json");
    options.proof = task_.at("proof.json");
    options.from = task_.at(from);
    options.data = task_.at("data.h5");
    options.beacon = task_.at("beacon.json");
    options.key = task_.key("verifier");
    options.output = task_.at("verdict.json");
    options.device = device;
    std::filesystem::remove(options.output);
    std::filesystem::remove(task_.at("verdict.rows.jsonl"));
    return run_job([&](const JobContext& context) { return jobs::verify(options, context); });
  }

  [[nodiscard]] const jobs::TaskFiles& files() const { return files_; }

 private:
  const SmallTask& task_;
  jobs::TaskFiles files_;
  bundle::Dataset data_;
};

}  // namespace dgx::test
