#include "dgx/jobs/task_files.h"

#include <catch2/catch.hpp>

#include "small_task.h"

namespace dgx::jobs {
namespace {

/// Signs the small task again after `change`, with its money adjusted.
template <class Change>
void reseal(const test::SmallTask& files, const Change& change) {
  manifest::Task task = test::must(manifest::read_statement<manifest::Task>(files.at("task.json"))).body;
  protocol::EstimateInput input = protocol::estimate_input(task, task.steps);
  change(input);
  task.estimate = test::must(protocol::estimate(input, task.policy));
  task.caps.bytes = input.state_bytes;
  task.caps.constant_bytes = input.constant_bytes;
  const auto sealed = test::must(manifest::seal(task, test::must(read_key(files.key("submitter")))));
  test::must(write_file(files.at("task.json"), sealed.envelope + "\n", Clobber::kReplace));
}

TEST_CASE("a task whose work is not its program's is refused") {
  const test::SmallTask files;
  REQUIRE(open_task(files.at("task.json"), std::nullopt, std::nullopt).ok());
  reseal(files, [](auto& input) { input.step_operations += 1; });
  auto opened = open_task(files.at("task.json"), std::nullopt, std::nullopt);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code == ErrorCode::kMalformed);
  CHECK(opened.error().message.find("operations") != std::string::npos);
  reseal(files, [](auto& input) {
    input.step_operations -= 1;
    input.state_bytes *= 2;
  });
  opened = open_task(files.at("task.json"), std::nullopt, std::nullopt);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message.find("bytes") != std::string::npos);
}

}  // namespace
}  // namespace dgx::jobs
