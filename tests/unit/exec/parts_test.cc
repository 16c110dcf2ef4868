#include "dgx/exec/parts_executor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "dgx/core/files.h"
#include "dgx/program/check.h"
#include "in_parts.h"
#include "instruction_sets.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::require_same;
using test::states_of;
using test::Stored;

std::unique_ptr<PartsExecutor> in_parts(const Stored& stored, int threads, std::int64_t parts) {
  auto executor = PartsExecutor::create(stored.program, stored.inputs(), threads, parts);
  if (!executor.ok()) FAIL(executor.error().message);
  return std::move(executor).value();
}

TEST_CASE(
    "parts give the states of the whole batch, for every kind of model, thread count and instruction set") {
  for (const char* name :
       {"placement/regression", "placement/clipped", "placement/gpt", "placement/switch",
        "placement/convolutions", "placement/counting", "placement/recurrence", "placement/encoder"}) {
    CAPTURE(name);
    const Stored stored(name);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 2);
    test::with_every_instruction_set([&](auto) {
      for (const int threads : {1, 3}) {
        for (const std::int64_t parts :
             {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{5}, stored.batch}) {
          CAPTURE(threads, parts);
          require_same(states_of(*in_parts(stored, threads, parts), stored.state, 2), expected);
        }
      }
    });
  }
}

TEST_CASE("a snapshot between steps has their state, and changes none that follows") {
  for (const char* name : {"placement/gpt", "placement/convolutions", "placement/regression"}) {
    CAPTURE(name);
    const Stored stored(name);
    const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
    const auto expected = states_of(*whole, stored.state, 3);
    const auto parts = in_parts(stored, 2, 3);
    REQUIRE(parts->load(stored.state).ok());
    std::vector<State> states;
    for (int step = 0; step < 3; ++step) {
      REQUIRE(parts->step().ok());
      states.push_back(parts->snapshot({}).value()().value());
    }
    require_same(states, expected);
  }
}

/// A step whose activations outweigh its weights by far.
const std::string kWide =
    R"({"k":"input","next":9,"s":[],"src":"state loss","t":"f32","v":0})"
    "\n"
    R"({"k":"input","next":10,"s":[4096],"src":"state model/w","t":"f32","v":1})"
    "\n"
    R"({"k":"input","next":11,"s":[],"src":"state step","t":"i64","v":2})"
    "\n"
    R"({"k":"input","s":[60,4096],"src":"batch x","t":"f32","v":3})"
    "\n"
    R"({"k":"input","of":["0x1p0"],"s":[1],"src":"constant","t":"f32","v":4})"
    "\n"
    R"({"do":["mul x0 x1","tanh t0"],"k":"map","s":[60,4096],"t":"f32","v":5,"x":["3[i0,i1]","1[i1]"]})"
    "\n"
    R"({"f":[4096],"k":"sum","s":[60],"t":"f32","v":6,"x":["5[i0,k0]"]})"
    "\n"
    R"({"do":["mul x0 x1"],"k":"map","s":[60,4096],"t":"f32","v":7,"x":["5[i0,i1]","6[i0]"]})"
    "\n"
    R"({"f":[60],"k":"dot","s":[4096],"t":"f32","v":8,"x":["4[0]","7[k0,i0]"]})"
    "\n"
    R"({"f":[60],"k":"sum","s":[],"t":"f32","v":9,"x":["6[k0]"]})"
    "\n"
    R"({"do":["fma -0x1p-10 x1 x0"],"k":"map","s":[4096],"t":"f32","v":10,"x":["1[i0]","8[i0]"]})"
    "\n"
    R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":11,"x":["2[]"]})"
    "\n";

TEST_CASE("the more parts, the less memory") {
  const Stored stored{Result<std::string>(kWide)};
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto expected = states_of(*whole, stored.state, 2);
  std::int64_t before = whole->planned_bytes();
  for (const std::int64_t parts : {2, 5, 30}) {
    const auto cut = in_parts(stored, 1, parts);
    require_same(states_of(*cut, stored.state, 2), expected);
    const std::int64_t now = cut->planned_bytes();
    CAPTURE(parts, before, now);
    CHECK(now < before * 6 / 10);
    before = now;
  }
}

TEST_CASE("parts whose folds stop within blocks give the states of the whole batch") {
  const Stored stored("tasks/quickstart");
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 2).value();
  const auto expected = states_of(*whole, stored.state, 2);
  for (const std::int64_t parts : {2, 5, 128}) {
    CAPTURE(parts);
    require_same(states_of(*in_parts(stored, 2, parts), stored.state, 2), expected);
  }
}

TEST_CASE("an executor of parts digests, watches, traces and takes faults as another does") {
  const Stored stored("placement/gpt");
  StepInputs inputs = stored.inputs();
  for (const ValueIndex v : stored.program->values.indices()) {  // of body and tail
    const kernels::Primitive& line = stored.program->values[v];
    if (line.kind != kernels::Kind::kInput && line.shape.empty() && line.dtype == DType::kF32)
      inputs.watched.push_back(v);
  }
  REQUIRE(inputs.watched.size() > 2);
  const auto whole = ExactExecutor::create(stored.program, inputs, 2).value();
  const auto parts = PartsExecutor::create(stored.program, inputs, 2, 3).value();
  for (StepExecutor* executor :
       {static_cast<StepExecutor*>(whole.get()), static_cast<StepExecutor*>(parts.get())}) {
    REQUIRE(executor->load(stored.state).ok());
    REQUIRE(executor->step().ok());
    CHECK(executor->position() == 1);
  }
  CHECK(std::ranges::equal(whole->watched(), parts->watched()));
  CHECK(whole->loss() == parts->loss());
  CHECK(whole->digests(1)->state == parts->digests(2)->state);
  const Fault fault{*stored.program->values[*program::find_state_input(*stored.program, "loss")].next, 0, 20};
  std::int64_t shown = 0;
  const auto count = [&](ValueIndex, const TensorView&) -> Status { return ++shown, Status(); };
  REQUIRE(whole->trace(fault, {}).ok());
  REQUIRE(parts->trace(fault, count).ok());
  CHECK(shown == static_cast<std::int64_t>(stored.program->values.size()));
  CHECK(whole->digests(1)->state == parts->digests(1)->state);
  REQUIRE(whole->step().ok());
  REQUIRE(parts->step().ok());
  CHECK(parts->position() == 3);
  CHECK(whole->digests(1)->state == parts->digests(1)->state);
  const auto without = parts->snapshot([](std::string_view name) { return name.starts_with("optimizer/"); });
  REQUIRE(without.ok());
  const auto copy = (*without)();
  REQUIRE(copy.ok());
  CHECK(std::ranges::none_of(*copy, [](const Entry& entry) { return entry.name.starts_with("optimizer/"); }));
  CHECK(!parts->explain().empty());
}

TEST_CASE("a step that would not be finite is refused with the same words") {
  const Stored stored("placement/regression");
  State state = stored.state;
  for (Entry& entry : state) {
    if (entry.tensor.dtype() == DType::kF32)
      for (float& x : entry.tensor.as<float>()) x = 3e38F;
  }
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  const auto parts = in_parts(stored, 1, 4);
  REQUIRE(whole->load(state).ok());
  REQUIRE(parts->load(state).ok());
  const Status expected = whole->step(), found = parts->step();
  REQUIRE(!expected.ok());
  REQUIRE(!found.ok());
  CHECK(found.error().message == expected.error().message);
  CHECK(found.error().code == expected.error().code);
}

/// A step with these lines behind its inputs (0: loss, 1: step, 2: batch x of `samples`, 3: the constant 1).
/// The last becomes the loss. Each has # for its number.
Stored step_with(const std::string& samples, const std::vector<std::string>& lines) {
  const std::size_t loss = 3 + lines.size();
  const std::vector<std::string> inputs{
      fmt::format(R"({{"k":"input","next":{},"s":[],"src":"state loss","t":"f32","v":#}})", loss),
      fmt::format(R"({{"k":"input","next":{},"s":[],"src":"state step","t":"i64","v":#}})", loss + 1),
      fmt::format(R"({{"k":"input","s":{},"src":"batch x","t":"f32","v":#}})", samples),
      R"({"k":"input","of":["0x1p0"],"s":[1],"src":"constant","t":"f32","v":#})"};
  const std::vector<std::string> ends{R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":#,"x":["1[]"]})"};
  std::string text;
  int number = 0;
  for (const auto* some : {&inputs, &lines, &ends}) {
    for (std::string line : *some) {
      line.replace(line.find('#'), 1, std::to_string(number++));
      text += line + "\n";
    }
  }
  return Stored{Result<std::string>(text)};
}

/// Megabytes of memory that this process may have, as long as this lives.
class MemoryLimit {
 public:
  explicit MemoryLimit(int megabytes) {
    ::setenv("SLURM_MEM_PER_NODE", std::to_string(megabytes).c_str(), 1);
  }
  ~MemoryLimit() { ::unsetenv("SLURM_MEM_PER_NODE"); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

std::int64_t most_kilobytes() {
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss;
}

TEST_CASE("state and carries of parts are counted before any is taken") {
  // Three dots, 120 MB each, as much again for a word of each (600 positions end within a group), and for a
  // fold of the tail.
  std::vector<std::string> lines{R"({"do":["neg x0"],"k":"map","s":[600],"t":"f32","v":#,"x":["2[i0]"]})"};
  for (int n = 0; n < 3; ++n)
    lines.push_back(fmt::format(
        R"({{"f":[600],"g":"{}","k":"dot","s":[30000000],"t":"f32","v":#,"x":["4[k0]","3[0]"]}})", n));
  lines.emplace_back(R"({"do":["add x0 x1","add t0 x2"],"f":[30000000],"k":"sum","s":[],)"
                     R"("t":"f32","v":#,"x":["5[k0]","6[k0]","7[k0]"]})");
  const Stored stored = step_with("[600]", lines);
  const MemoryLimit limit(500);
  const std::int64_t before = most_kilobytes();
  const auto executor = PartsExecutor::create(stored.program, stored.inputs(), 1, 7);
  REQUIRE(!executor.ok());
  CHECK(executor.error().code == ErrorCode::kUsage);
  CHECK_THAT(executor.error().message, Catch::Matches("a step needs 84[0-9]{7} bytes of memory, this process "
                                                      "may have 524288000"));
  CHECK(most_kilobytes() - before < 100'000);
}

/// Lines that are different in every part, as they read the number of their sample.
Stored numbered(int samples, int lines) {
  std::vector<std::string> all;
  for (int n = 0; n < lines; ++n)
    all.push_back(
        fmt::format(R"({{"do":["f32 i0","add t0 x0"],"k":"map","s":[{}],"t":"f32","v":#,"x":["{}[i0]"]}})",
                    samples, n == 0 ? 2 : 3 + n));
  all.push_back(
      fmt::format(R"({{"f":[{}],"k":"sum","s":[],"t":"f32","v":#,"x":["{}[k0]"]}})", samples, 3 + lines));
  return step_with(fmt::format("[{}]", samples), all);
}

TEST_CASE("plans of parts that differ are counted before they are made, and bounded") {
  const Stored few = numbered(12, 5);
  const auto whole = ExactExecutor::create(few.program, few.inputs(), 1).value();
  require_same(states_of(*in_parts(few, 2, 5), few.state, 2), states_of(*whole, few.state, 2));

  const Stored stored = numbered(200, 500);
  const std::int64_t before = most_kilobytes();
  {
    const MemoryLimit limit(400);
    CHECK(PartsExecutor::create(stored.program, stored.inputs(), 1, 20).ok());
    const auto refused = PartsExecutor::create(stored.program, stored.inputs(), 1, 200);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK_THAT(refused.error().message,
               Catch::Matches("a step needs [0-9]{10} bytes of memory, this process may have 419430400"));
    CHECK(most_kilobytes() - before < 300'000);
  }
  const Stored longer = numbered(200, 2000);
  const auto refused = PartsExecutor::create(longer.program, longer.inputs(), 1, 200);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK(refused.error().message ==
        "200 parts have 200 different local programs of 2001 lines, in all more than 262144");
}

TEST_CASE("operands of dots are gathered only if they are small") {
  // 1,048,576 positions of each sample for each of COUNT elements, by a coordinate that is no matrix's.
  const auto planned = [](std::int64_t fold, int count) {
    const Stored stored =
        step_with("[3,1]", {R"({"do":["neg x0"],"k":"map","s":[3,1],"t":"f32","v":#,"x":["2[i0,i1]"]})",
                            fmt::format(R"({{"f":[3,{}],"k":"dot","s":[{}],"t":"f32","v":#,)"
                                        R"("x":["4[k0,(i0+k1)//9007199254740992]?0x0p0","3[0]"]}})",
                                        fold, count),
                            R"({"do":["neg x0"],"k":"map","s":[],"t":"f32","v":#,"x":["5[0]"]})"});
    const auto executor = PartsExecutor::create(stored.program, stored.inputs(), 1, 3);
    if (!executor.ok()) FAIL(executor.error().message);
    return (*executor)->planned_bytes();
  };
  CHECK(planned(1024, 64) > 1024 * 64 * 4);
  CHECK(planned(1 << 20, 257) < 10'000'000);
  CHECK(planned(std::int64_t{1} << 40, 1 << 20) < 100'000'000);
}

TEST_CASE("steps whose gathered values depend on the schedule are made in parts") {
  const Stored stored = step_with(
      "[6,3]", {R"({"k":"input","of":["lr"],"s":[1],"src":"schedule","t":"f32","v":#})",
                R"({"do":["mul x0 x1"],"k":"map","s":[6,3],"t":"f32","v":#,"x":["2[i0,i1]","4[0]"]})",
                R"({"do":["mul x0 x0"],"f":[6],"k":"sum","s":[3],"t":"f32","v":#,"x":["5[k0,i0]"]})",
                R"({"do":["sub x0 x1"],"k":"map","s":[6,3],"t":"f32","v":#,"x":["5[i0,i1]","6[i1]"]})",
                R"({"do":["mul x0 x0"],"f":[6,3],"k":"sum","s":[],"t":"f32","v":#,"x":["7[k0,k1]"]})"});
  const auto whole = ExactExecutor::create(stored.program, stored.inputs(), 1).value();
  require_same(states_of(*in_parts(stored, 2, 4), stored.state, 2), states_of(*whole, stored.state, 2));
}

TEST_CASE("parts that cannot be are refused by name") {
  const Stored stored("placement/regression"), normed("placement/normed"), residual("placement/resnet20");
  const auto refused = [](const Stored& of, std::int64_t parts) {
    const auto executor = PartsExecutor::create(of.program, of.inputs(), 1, parts);
    REQUIRE(!executor.ok());
    CHECK(executor.error().code == ErrorCode::kUsage);
    return executor.error().message;
  };
  for (const std::int64_t parts : {-1, 0, 13})
    CHECK_THAT(refused(stored, parts),
               Catch::Contains("12 samples cannot be cut into " + std::to_string(parts)));
  CHECK_THAT(refused(normed, 2), Catch::Contains("line 29 (4 native_batch_norm)"));
  CHECK_THAT(refused(residual, 2), Catch::Contains("native_batch_norm"));
}

}  // namespace
}  // namespace dgx::exec
