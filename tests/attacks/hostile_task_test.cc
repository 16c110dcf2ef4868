// dgx-threats(7), rows 8, 21 and 29: a submitter signs a task that is meant to harm whoever opens it.
// Signature, roots and counts are correct; only the program's content is hostile.

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>

#include "dgx/jobs/task_files.h"
#include "dgx/program/program.h"
#include "dgx/protocol/estimate.h"
#include "replaced.h"
#include "small_task.h"

namespace {

using namespace dgx;
using test::must;
using test::replaced;
using test::SmallTask;

/// Replaces the task by one that binds this program text, signed by the submitter like the real one.
void post(const SmallTask& task, const std::string& text,
          const std::function<void(manifest::Task&)>& change = {}) {
  manifest::Task body = must(manifest::read_statement<manifest::Task>(task.at("task.json"))).body;
  body.program = {program::program_root(text), std::ssize(program::lines_of(text))};
  if (change) change(body);
  const auto sealed = must(manifest::seal(body, must(jobs::read_key(task.key("submitter")))));
  must(write_file(task.at("task.program.jsonl"), text, Clobber::kReplace));
  must(write_file(task.at("task.json"), sealed.envelope + "\n", Clobber::kReplace));
}

std::string program_text(const SmallTask& task) {
  return must(read_file(task.at("task.program.jsonl"), 1 << 20));
}

Error refusal(const SmallTask& task) {
  const auto begin = std::chrono::steady_clock::now();
  const auto opened = jobs::open_task(task.at("task.json"), std::nullopt, std::nullopt);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  if (opened.ok()) return {ErrorCode::kInternal, "accepted", {}};
  return opened.error();
}

}  // namespace

TEST_CASE("the task opens as it was made") {
  const SmallTask task;
  post(task, program_text(task));
  CHECK(refusal(task).message == "accepted");
}

TEST_CASE("a program that leads outside its values is refused before anything runs") {
  const SmallTask task;
  const std::string text = program_text(task);
  const auto refused = [&](const std::string& changed) {
    post(task, changed);
    const Error error = refusal(task);
    INFO(error.message);
    CHECK(error.code == ErrorCode::kMalformed);
    CHECK_THAT(error.message, Catch::Contains("line "));
  };
  SECTION("an access beyond the end") { refused(replaced(text, "[i0,k0]", "[i0,k0+1]")); }
  SECTION("an access before the beginning") { refused(replaced(text, "[i0,k0]", "[i0-1,k0]")); }
  SECTION("an access whose formula overflows") {
    refused(replaced(text, "[i0,k0]", "[i0,9007199254740992*k0]"));
  }
  SECTION("a value that is defined later") { refused(replaced(text, "\"x\":[\"", "\"x\":[\"999[i0]\",\"")); }
  SECTION("a value that takes more memory than there is") {
    refused(replaced(text, "\"s\":[8,4]", "\"s\":[9007199254740992,9007199254740992]"));
  }
  SECTION("an element that takes longer than anyone lives") {
    refused(replaced(text, "\"f\":[4]", "\"f\":[9007199254740992]"));
  }
}

TEST_CASE("a program that is not the one bound is refused") {
  const SmallTask task;
  const std::string text = program_text(task);
  SECTION("with one line less") {
    must(write_file(task.at("task.program.jsonl"), text.substr(0, text.rfind('{')), Clobber::kReplace));
  }
  SECTION("with a line more") {
    must(write_file(task.at("task.program.jsonl"), text + text.substr(text.rfind('{')), Clobber::kReplace));
  }
  SECTION("with another number") {
    must(write_file(task.at("task.program.jsonl"), replaced(text, "[8,4]", "[4,8]"), Clobber::kReplace));
  }
  SECTION("without its last newline") {
    must(write_file(task.at("task.program.jsonl"), text.substr(0, text.size() - 1), Clobber::kReplace));
  }
  CHECK(refusal(task).code == ErrorCode::kMalformed);
}

TEST_CASE("a price that does not follow from the program is refused") {
  const SmallTask task;
  const auto change = GENERATE(
      std::function<void(manifest::Task&)>([](manifest::Task& t) {
        t.estimate.reward -= 1;
        t.estimate.escrow -= 1;
      }),
      std::function<void(manifest::Task&)>([](manifest::Task& t) { t.estimate.step_operations /= 2; }),
      std::function<void(manifest::Task&)>([](manifest::Task& t) { t.caps.bytes -= 1; }),
      std::function<void(manifest::Task&)>([](manifest::Task& t) {
        t.caps.constant_bytes = t.caps.bytes;
        t.estimate = *protocol::estimate(protocol::estimate_input(t, t.steps), t.policy);
      }));
  const std::string text = program_text(task);
  manifest::Task body = must(manifest::read_statement<manifest::Task>(task.at("task.json"))).body;
  change(body);
  const auto sealed = manifest::seal(body, must(jobs::read_key(task.key("submitter"))));
  if (!sealed.ok()) return;  // not even a valid statement
  must(write_file(task.at("task.json"), sealed->envelope + "\n", Clobber::kReplace));
  CHECK(refusal(task).code == ErrorCode::kMalformed);
}

TEST_CASE("a task that no honest solver could do or defend is refused before anything runs") {
  const SmallTask task;
  const auto change = GENERATE(std::function<void(manifest::Task&)>([](manifest::Task& t) {
                                 t.optimizer.learning_rate = 1e30;
                                 t.optimizer.weight_decay = 1e30;
                               }),
                               std::function<void(manifest::Task&)>([](manifest::Task& t) {
                                 t.schedule.kind = kernels::ScheduleKind::kLinear;
                                 t.schedule.warmup = t.steps;
                               }),
                               std::function<void(manifest::Task&)>(
                                   [](manifest::Task& t) { t.dataset.samples = std::int64_t{1} << 53; }),
                               std::function<void(manifest::Task&)>([](manifest::Task& t) { t.batch -= 1; }));
  post(task, program_text(task), change);
  CHECK(refusal(task).code == ErrorCode::kMalformed);
}

TEST_CASE("a program that page and trainer would read differently is refused") {
  const SmallTask task;
  const std::string text = program_text(task);
  const auto refused = [&](const std::string& changed) {
    post(task, changed);
    return refusal(task).message;
  };
  SECTION("a step counter that is not the count") {
    CHECK_THAT(refused(replaced(text, "\"add x0 1\"", "\"add x0 2\"")), Catch::Contains("of state step"));
  }
  SECTION("a name that no bundle can hold") {
    CHECK_THAT(refused(replaced(text, "state model/0.bias", "state model/0.bias/../x")),
               Catch::Contains("part"));
  }
}

TEST_CASE("a task that counts other samples than its dataset has is refused by who opens the dataset") {
  const SmallTask task;
  const auto samples =
      must(manifest::read_statement<manifest::Task>(task.at("task.json"))).body.dataset.samples;
  for (const std::int64_t claimed : {samples - 1, samples, samples + 1, 2 * samples}) {
    post(task, program_text(task), [&](manifest::Task& t) { t.dataset.samples = claimed; });
    const auto opened = must(jobs::open_task(task.at("task.json"), std::nullopt, std::nullopt));
    const auto data = jobs::read_task_dataset(task.at("data.h5"), opened.body(), 1);
    CHECK(data.ok() == (claimed == samples));
    if (!data.ok()) CHECK_THAT(data.error().message, Catch::Contains("the task's is"));
    const auto rows = test::run_job([&](const JobContext& context) {
      return jobs::open_task_dataset(task.at("data.h5"), opened.body(), context);
    });
    CHECK(rows.ok() == (claimed == samples));
    if (!rows.ok()) CHECK_THAT(rows.error().message, Catch::Contains("the task's is"));
  }
}

TEST_CASE("a state entry's name never becomes a path") {
  const SmallTask task;
  const std::string text = program_text(task);
  post(task, replaced(text, "state model/0.bias", "state model/../../../tmp/x"));
  const auto opened = jobs::open_task(task.at("task.json"), std::nullopt, std::nullopt);
  // Either the program or the bundle is refused: the name never reaches anything outside the file.
  if (opened.ok()) CHECK_FALSE(jobs::initial_state(*opened, std::nullopt).ok());
}
