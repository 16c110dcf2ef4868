#include "dgx/kernels/schedule.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>

#include "ref_support.h"

namespace dgx::kernels {
namespace {

const std::vector<std::string> kNames = {"lr", "-lr", "lr/(1-b1^t)", "1/sqrt(1-b2^t)", "1-lr*wd"};

double real(const json::Value& vector, std::string_view key) {
  return std::strtod(text(vector, key).c_str(), nullptr);
}

ScheduleParameters parameters_of(const json::Value& vector) {
  ScheduleParameters parameters;
  parameters.learning_rate = real(vector, "lr");
  parameters.beta1 = real(vector, "beta1");
  parameters.beta2 = real(vector, "beta2");
  parameters.weight_decay = real(vector, "wd");
  parameters.kind = *schedule_kind_from_name(text(vector, "kind"));
  parameters.every = integer(vector, "every");
  parameters.gamma = real(vector, "gamma");
  parameters.warmup = integer(vector, "warmup");
  parameters.minimum = real(vector, "minimum");
  parameters.total_steps = integer(vector, "total");
  return parameters;
}

TEST_CASE("scalars are those of the stated sequences") {
  for (const json::Value& vector : *member(vectors(), "schedule").as_array()) {
    const auto scalars = schedule_scalars(kNames, parameters_of(vector), integer(vector, "step"));
    REQUIRE(scalars.ok());
    const json::Array& expected = *member(vector, "values").as_array();
    CAPTURE(vector.dump());
    for (std::size_t n = 0; n < kNames.size(); ++n) CHECK(bits((*scalars)[n]) == hex(expected[n]));
  }
}

TEST_CASE("rates of every kind are those of the page") {
  for (const json::Value& vector : *member(vectors(), "rates").as_array()) {
    const json::Value& fields = member(vector, "schedule");
    const auto has = [&](const char* key) { return fields.as_object()->contains(key); };
    ScheduleParameters parameters;
    parameters.learning_rate = real(vector, "lr");
    parameters.rate_decay = real(vector, "lr_decay");
    parameters.total_steps = integer(vector, "total");
    parameters.kind = *schedule_kind_from_name(text(fields, "kind"));
    if (has("warmup")) parameters.warmup = integer(fields, "warmup");
    if (has("cycles")) parameters.cycles = integer(fields, "cycles");
    if (has("decay")) parameters.decay = integer(fields, "decay");
    if (has("min")) parameters.minimum = real(fields, "min");
    if (has("power")) parameters.exponent = real(fields, "power");
    if (has("start")) parameters.start = real(fields, "start");
    if (has("end")) parameters.end = real(fields, "end");
    if (has("up")) parameters.up = real(fields, "up");
    CAPTURE(fields.dump());
    const json::Array& steps = *member(vector, "steps").as_array();
    const std::vector<std::string> names = {"lr", "-lr/(1+s*ld)"};
    for (std::size_t n = 0; n < steps.size(); ++n) {
      const auto scalars = schedule_scalars(names, parameters, *steps[n].as_int());
      REQUIRE(scalars.ok());
      CHECK(bits((*scalars)[0]) == hex((*member(vector, "rates").as_array())[n]));
      CHECK(bits((*scalars)[1]) == hex((*member(vector, "decayed").as_array())[n]));
    }
  }
}

TEST_CASE("a group's scalars are those of its factor and decay") {
  for (const json::Value& vector : *member(vectors(), "schedule_group").as_array()) {
    ScheduleParameters parameters = parameters_of(vector);
    parameters.groups = {{1, 0}, {real(vector, "factor"), parameters.weight_decay}};
    parameters.weight_decay = 8;
    const std::vector<std::string> names = {"lr:2", "-lr:2", "lr/(1-b1^t):2", "1-lr*wd:2"};
    const auto scalars = schedule_scalars(names, parameters, integer(vector, "step"));
    REQUIRE(scalars.ok());
    const json::Array& expected = *member(vector, "values").as_array();
    CAPTURE(vector.dump());
    for (std::size_t n = 0; n < names.size(); ++n) CHECK(bits((*scalars)[n]) == hex(expected[n]));
    CHECK_FALSE(schedule_scalars(std::vector<std::string>{"lr:3"}, parameters, 0).ok());
  }
}

TEST_CASE("a schedule's name has one form") {
  for (const char* name : {"lr", "-lr:1", "-lr:32", "lr/(1-b1^t):7", "1-lr*wd:2", "1/sqrt(1-b2^t)"})
    CHECK(parse_schedule_name(name));
  for (const char* name : {"", ":1", "lr:", "lr:0", "lr:01", "lr:33", "lr:-1", "lr:+1", "lr: 1", "lr:1 ",
                           "lr:1:1", "lr:99999999999999999999", "1/sqrt(1-b2^t):1", "rate:1"}) {
    INFO(name);
    CHECK_FALSE(parse_schedule_name(name));
  }
}

TEST_CASE("a schedule starts, turns and ends where it says") {
  ScheduleParameters parameters;
  parameters.learning_rate = 0.5;
  parameters.kind = ScheduleKind::kCosine;
  parameters.warmup = 4;
  parameters.total_steps = 8;
  parameters.minimum = 0.25;
  CHECK(learning_rate_at(parameters, 0) == 0.125);
  CHECK(learning_rate_at(parameters, 3) == 0.5);
  CHECK(learning_rate_at(parameters, 4) == 0.5);
  CHECK(learning_rate_at(parameters, 8) == 0.25);
  parameters.kind = ScheduleKind::kLinear;
  CHECK(learning_rate_at(parameters, 6) == 0.375);
  parameters.kind = ScheduleKind::kStep;
  parameters.every = 3;
  parameters.gamma = 0.5;
  CHECK(learning_rate_at(parameters, 6) == 0.5);
  CHECK(learning_rate_at(parameters, 7) == 0.25);
}

TEST_CASE("steps of one update have its numbers") {
  ScheduleParameters parameters;
  parameters.learning_rate = 0.5;
  parameters.beta1 = 0.9;
  parameters.beta2 = 0.999;
  parameters.rate_decay = 0.1;
  parameters.kind = ScheduleKind::kLinear;
  parameters.warmup = 2;
  parameters.total_steps = 10;
  ScheduleParameters accumulating = parameters;
  accumulating.accumulate = 3;
  const std::vector<std::string> names{"lr", "-lr", "lr/(1-b1^t)", "1/sqrt(1-b2^t)", "-lr/(1+s*ld)"};
  for (std::int64_t step = 0; step < 30; ++step) {
    CHECK(learning_rate_at(accumulating, step) == learning_rate_at(parameters, step / 3));
    CHECK(*schedule_scalars(names, accumulating, step) == *schedule_scalars(names, parameters, step / 3));
  }
  accumulating.accumulate = 0;
  CHECK_FALSE(check_schedule(accumulating).ok());
}

TEST_CASE("powers square and multiply") {
  CHECK(power(0.9, 0) == 1);
  CHECK(power(0.9, 1) == 0.9);
  CHECK(power(3, 13) == 1594323);
  CHECK(power(0.5, 1000000000) == 0);
}

TEST_CASE("what a schedule cannot mean is refused") {
  ScheduleParameters good;
  good.learning_rate = 0.1;
  CHECK(schedule_scalars(kNames, good, 0).ok());
  CHECK_FALSE(schedule_scalars(kNames, good, -1).ok());
  CHECK_FALSE(schedule_scalars(std::vector<std::string>{"rate"}, good, 0).ok());
  const auto refused = [good](auto change) {
    ScheduleParameters parameters = good;
    change(parameters);
    return !check_schedule(parameters).ok();
  };
  CHECK(refused([](auto& p) { p.learning_rate = -1; }));
  CHECK(refused([](auto& p) { p.learning_rate = std::numeric_limits<double>::infinity(); }));
  CHECK(refused([](auto& p) { p.beta1 = 1; }));
  CHECK(refused([](auto& p) { p.beta2 = std::numeric_limits<double>::quiet_NaN(); }));
  CHECK(refused([](auto& p) { p.warmup = -1; }));
  CHECK(refused([](auto& p) { p.kind = ScheduleKind::kStep, p.every = 0; }));
  CHECK(refused([](auto& p) { p.kind = ScheduleKind::kCosine; }));
  CHECK(refused([](auto& p) { p.kind = ScheduleKind::kLinear, p.total_steps = 9, p.warmup = 9; }));
  CHECK(refused([](auto& p) { p.kind = ScheduleKind::kLinear, p.total_steps = 9, p.minimum = 1; }));
  CHECK_FALSE(refused([](auto& p) { p.kind = ScheduleKind::kLinear, p.total_steps = 9; }));
  CHECK_FALSE(schedule_kind_from_name("cyclic").ok());
}

}  // namespace
}  // namespace dgx::kernels
