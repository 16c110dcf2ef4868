#include "dgx/protocol/admission.h"

#include <catch2/catch.hpp>

#include "dgx/manifest/fields.h"
#include "dgx/program/cost.h"
#include "dgx/program/specs.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/segments.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;
using manifest::Task;

namespace {

std::string refusal(const Task& task, ErrorCode code = ErrorCode::kMalformed) {
  const Status status = check_admission(task);
  if (status.ok()) return {};
  CHECK(status.error().code == code);
  return status.error().message;
}

Task scheduled(const std::string& optimizer, const std::string& schedule) {
  Task out = task();
  out.optimizer = *program::parse_optimizer_spec(optimizer);
  out.schedule =
      *program::fix_schedule(*program::parse_schedule_text(schedule), out.optimizer.learning_rate, out.steps);
  return out;
}

}  // namespace

TEST_CASE("A task has at most 65,536 segments") {
  Task body = task();
  body.steps = 2 * kMaxSegments + 1;  // the last step joins the segment before
  body.checkpoint_every = 2;
  CHECK(refusal(body).empty());
  body.steps = 2 * kMaxSegments + 2;
  CHECK_THAT(refusal(body), Catch::Contains("65537 segments"));
  body.steps = std::int64_t{1} << 25;
  CHECK_THAT(refusal(body), Catch::Contains("at most 65536"));
  body.steps = program::kMostTaskSteps;
  body.checkpoint_every = program::kMostTaskSteps / kMaxSegments;
  CHECK(refusal(body).empty());
}

TEST_CASE("The numbers of a task's data can be counted") {
  Task body = task();
  body.dataset.samples = (std::int64_t{1} << 53) / 784;
  CHECK(refusal(body).empty());
  ++body.dataset.samples;
  CHECK_THAT(refusal(body), Catch::Contains("dataset: x"));
  body = task();
  body.dataset.samples = body.batch = (std::int64_t{1} << 53) / 784;
  body.steps = 785;
  CHECK_THAT(refusal(body), Catch::Contains("batch"));
}

TEST_CASE("A schedule that nobody can compute to its end is refused") {
  CHECK(refusal(scheduled("sgd:lr=0.1", "cosine:min=0.1,warmup=99")).empty());
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "cosine:min=0.2")), Catch::Contains("minimum"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "linear:warmup=100")), Catch::Contains("warmup"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "cosine:cycles=101")), Catch::Contains("cycles"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "wsd:decay=101")), Catch::Contains("decay"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "one-cycle:up=0.01")), Catch::Contains("up is"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "one-cycle:start=0.2")), Catch::Contains("start"));
  CHECK_THAT(refusal(scheduled("sgd:lr=0.1", "plateau:every=9,patience=10")), Catch::Contains("could fall"));
  CHECK(refusal(scheduled("sgd:lr=0.1", "plateau:every=8,patience=10")).empty());
  CHECK(refusal(scheduled("sgd:lr=0.1", "constant:warmup=1000")).empty());
  // 99 steps contain at most 99 factors.
  CHECK(refusal(scheduled("sgd:lr=1", "step:every=1,gamma=2")).empty());
  CHECK_THAT(refusal(scheduled("sgd:lr=1", "step:every=1,gamma=1e30")), Catch::Contains("2^126"));
  CHECK_THAT(refusal(scheduled("sgd:lr=1e30", "step:every=1,gamma=2")), Catch::Contains("2^126"));
  CHECK(refusal(scheduled("sgd:lr=1e30", "step:every=1,gamma=0")).empty());
  CHECK_THAT(refusal(scheduled("sgd:lr=1e30,weight-decay=1e30", "constant")), Catch::Contains("2^126"));
  CHECK_THAT(refusal(scheduled("adam:lr=1e30,betas=0.9999999999999999/0.9", "constant")),
             Catch::Contains("2^126"));
  CHECK(refusal(scheduled("adam:lr=1,betas=0.9999999999999999/0.9999999999999999", "constant")).empty());
}

TEST_CASE("A schedule that is admitted is finite at every step") {
  const std::vector<std::string> names{"lr",      "-lr",         "lr/(1-b1^t)", "1/sqrt(1-b2^t)",
                                       "1-lr*wd", "-lr/(1+s*ld)"};
  int admitted = 0;
  for (const char* optimizer :
       {"sgd:lr=1e30", "sgd:lr=1e20,weight-decay=1e18", "adamw:lr=1e22,betas=0.9999999999999999/0.999",
        "adamw:lr=1e23,betas=0.9999999999999999/0.999", "adam:lr=0.001", "adagrad:lr=1e30,lr-decay=1e30",
        "lion:lr=1e7,weight-decay=1e30"}) {
    for (const char* schedule :
         {"constant", "constant:warmup=7", "step:every=1,gamma=1.9", "step:every=1,gamma=1.2,warmup=50",
          "step:every=1,gamma=2.4", "linear:min=0.00001,warmup=3", "cosine", "cosine:cycles=99",
          "polynomial:power=64", "polynomial:power=0.5,warmup=99", "inverse-sqrt:warmup=1", "wsd:decay=1",
          "wsd:decay=100", "one-cycle:up=0.011", "one-cycle:up=1", "one-cycle:up=0.3333,start=0,end=0",
          "plateau:every=7,warmup=3"}) {
      const Task body = scheduled(optimizer, schedule);
      if (!refusal(body).empty()) continue;
      ++admitted;
      const auto parameters = *program::schedule_parameters(body.optimizer, body.schedule, body.steps);
      INFO(optimizer << ", " << schedule);
      for (std::int64_t step = 0; step < body.steps; ++step)
        CHECK(kernels::schedule_scalars(names, parameters, step).ok());
    }
  }
  CHECK(admitted > 10);
}

TEST_CASE("A group's numbers stay finite, too") {
  Task body = scheduled("sgd:lr=1e30,weight-decay=1", "constant");
  CHECK(refusal(body).empty());
  body.update.groups = {{"*", 1e9, std::nullopt}};
  CHECK_THAT(refusal(body), Catch::Contains("2^126"));
  body.update.groups = {{"*", 0.5, 1e9}};
  CHECK_THAT(refusal(body), Catch::Contains("2^126"));
  body.update.groups = {{"*", 0.5, 0.0}};
  CHECK(refusal(body).empty());
}

TEST_CASE("A program names no group that its task does not have") {
  const auto program =
      *program::parse_program(R"({"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0})"
                              "\n"
                              R"({"k":"input","next":3,"s":[],"src":"state step","t":"i64","v":1})"
                              "\n"
                              R"({"k":"input","of":["-lr","-lr:2"],"s":[2],"src":"schedule","t":"f32","v":2})"
                              "\n"
                              R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":3,"x":["1[]"]})"
                              "\n");
  Task body = task();
  const program::Cost cost = program::cost_of(program);
  body.caps.bytes = cost.state_bytes;
  body.caps.constant_bytes = cost.constant_bytes;
  body.estimate.step_operations = cost.total_operations;
  body.estimate = *estimate(estimate_input(body, body.steps), body.policy);
  body.update.groups = {{"a", 0.5, std::nullopt}};
  CHECK_THAT(check_admission(body, program).error().message, Catch::Contains("-lr:2"));
  body.update.groups.push_back({"b", 0.5, std::nullopt});
  CHECK(check_admission(body, program).ok());
}

TEST_CASE("A task is about its program's batch, work and state") {
  const auto program =
      *program::parse_program(R"({"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0})"
                              "\n"
                              R"({"k":"input","next":2,"s":[],"src":"state step","t":"i64","v":1})"
                              "\n"
                              R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":2,"x":["1[]"]})"
                              "\n"
                              R"({"k":"input","s":[128,28,28],"src":"batch x","t":"u8","v":3})"
                              "\n");
  Task body = task();
  const program::Cost cost = program::cost_of(program);
  const auto priced = [&] {
    body.caps.bytes = cost.state_bytes;
    body.caps.constant_bytes = cost.constant_bytes;
    body.estimate.step_operations = cost.total_operations;
    body.estimate = *estimate(estimate_input(body, body.steps), body.policy);
  };
  priced();
  CHECK(check_admission(body, program).ok());
  const auto refused = [&] {
    const Status status = check_admission(body, program);
    return status.ok() ? std::string() : status.error().message;
  };
  body.batch = 64;
  CHECK_THAT(refused(), Catch::Contains("batch x"));
  body.batch = 128;
  body.dataset.fields["x"].dtype = DType::kF32;
  CHECK_THAT(refused(), Catch::Contains("batch x"));
  body.dataset.fields["x"].dtype = DType::kU8;
  auto x = body.dataset.fields.extract("x");
  x.key() = "mask";
  body.dataset.fields.insert(std::move(x));
  CHECK_THAT(refused(), Catch::Contains("has no field x, which the program reads"));
  x = body.dataset.fields.extract("mask");
  x.key() = "x";
  body.dataset.fields.insert(std::move(x));
  body.caps.bytes += 1;
  CHECK_THAT(refused(), Catch::Contains("caps"));
  priced();
  // The loss is an entry that no step of this program changes. Whoever calls more constant pays less.
  CHECK(body.caps.constant_bytes == 4);
  body.caps.constant_bytes = 12;
  body.estimate = *estimate(estimate_input(body, body.steps), body.policy);
  CHECK_THAT(refused(), Catch::Contains("entries that no step changes have 4 bytes, not 12"));
  priced();
  body.estimate.step_operations += 1;
  CHECK_THAT(refused(), Catch::Contains("a step has"));
  priced();
  body.estimate.reward += 1;
  CHECK_THAT(refused(), Catch::Contains("estimate"));
}

TEST_CASE("A program reads the numbers of a batch's samples as i64, if the dataset has no such field") {
  Task body = task();
  const auto refusal_of = [&](const std::string& numbers) {
    const auto program =
        *program::parse_program(R"({"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0})"
                                "\n"
                                R"({"k":"input","next":2,"s":[],"src":"state step","t":"i64","v":1})"
                                "\n"
                                R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":2,"x":["1[]"]})"
                                "\n" +
                                numbers + "\n");
    const program::Cost cost = program::cost_of(program);
    body.caps.bytes = cost.state_bytes;
    body.caps.constant_bytes = cost.constant_bytes;
    body.estimate.step_operations = cost.total_operations;
    body.estimate = *estimate(estimate_input(body, body.steps), body.policy);
    const Status status = check_admission(body, program);
    return status.ok() ? std::string() : status.error().message;
  };
  const std::string numbers = R"({"k":"input","s":[128],"src":"batch i","t":"i64","v":3})";
  CHECK(refusal_of(numbers).empty());
  CHECK_THAT(refusal_of(R"({"k":"input","s":[128],"src":"batch i","t":"u8","v":3})"),
             Catch::Contains("batch i"));
  CHECK_THAT(refusal_of(R"({"k":"input","s":[64],"src":"batch i","t":"i64","v":3})"),
             Catch::Contains("batch i"));
  CHECK_THAT(refusal_of(R"({"k":"input","s":[128,1],"src":"batch i","t":"i64","v":3})"),
             Catch::Contains("batch i"));
  CHECK_THAT(refusal_of(R"({"k":"input","s":[128],"src":"batch j","t":"i64","v":3})"),
             Catch::Contains("has no field j"));
  body.dataset.fields["i"] = {DType::kF32, {2}};
  CHECK_THAT(refusal_of(numbers), Catch::Contains("batch i"));
  CHECK(refusal_of(R"({"k":"input","s":[128,2],"src":"batch i","t":"f32","v":3})").empty());
}

TEST_CASE("In a market the longest segment has at most segment_operations of work") {
  Task body = task();  // segments of 10 steps of 1,000 operations
  body.policy.segment_operations = 10'000;
  CHECK(refusal(body).empty());
  body.policy.segment_operations = 9'999;
  CHECK(refusal(body, ErrorCode::kUsage) ==
        "checkpoint_every: the longest segment has 10 steps of 1000 operations, the policy's "
        "segment_operations are 9999");
  body.ledger.reset();
  CHECK(refusal(body).empty());
  body = task();
  body.policy.segment_operations = 10'999;
  body.steps = 101;  // the last step joins the segment before
  CHECK_THAT(refusal(body, ErrorCode::kUsage), Catch::Contains("11 steps of 1000"));
  body.policy.segment_operations = 11'000;
  CHECK(refusal(body).empty());
  body.steps = body.checkpoint_every = std::int64_t{1} << 40;
  body.estimate.step_operations = manifest::kMaxInteger;  // 2^93 operations must not wrap
  body.policy.segment_operations = manifest::kMaxInteger;
  CHECK_THAT(refusal(body, ErrorCode::kUsage), Catch::Contains("1099511627776 steps of 9007199254740992"));
}

TEST_CASE("Nobody takes part to whom the longest segment takes more than an eighth of a move's window") {
  Task body = task();
  const auto refused = [&](std::optional<std::int64_t> milliseconds) {
    const Status status = check_segment_time(body, milliseconds);
    return status.ok() ? "" : status.error().message;
  };
  for (const std::int64_t window : {8'000, 8'007}) {
    body.policy.window_move_ms = window;
    CHECK(most_segment_milliseconds(body.policy) == 1'000);
    CHECK(refused(1'000).empty());
    CHECK_FALSE(refused(1'001).empty());
  }
  CHECK(refused(1'001) ==
        "segment_milliseconds: the longest segment takes 1001 ms: four times that exceeds half of "
        "window_move_ms, 8007");
  CHECK_FALSE(refused(manifest::kMaxInteger).empty());
  CHECK(refused(std::nullopt) == "segment_milliseconds: is missing");
  body.policy.window_move_ms = 7;  // no time at all
  CHECK_FALSE(refused(1).empty());
  body.ledger.reset();
  CHECK(refused(1'001).empty());
  CHECK(refused(std::nullopt).empty());
}

TEST_CASE("The time of the longest segment is rounded up, and stays within what a statement can say") {
  const auto segments = *Segments::of(101, 10);  // the longest has 11 steps
  CHECK(segment_milliseconds(segments, 2.0, 20) == 1'100);
  CHECK(segment_milliseconds(segments, 2.0001, 20) == 1'101);
  CHECK(segment_milliseconds(segments, 1e-9, 20) == 1);
  CHECK(segment_milliseconds(segments, 0, 20) == 1);
  CHECK(segment_milliseconds(segments, 1e300, 1) == manifest::kMaxInteger);
}
