#include "dgx/program/specs.h"

#include <catch2/catch.hpp>

using namespace dgx;
using namespace dgx::program;

TEST_CASE("a model spec prints as it was typed") {
  for (const char* text : {"mlp:784-256-128-10", "mlp:3-2", "mlp:3-2,activation=gelu",
                           "mlp:3-2,activation=gelu-tanh", "mlp:3-2,activation=sigmoid"}) {
    const auto spec = parse_model_spec(text);
    REQUIRE(spec.ok());
    CHECK(print_model_spec(*spec) == text);
  }
  CHECK(print_model_spec(*parse_model_spec("mlp:3-2,activation=relu")) == "mlp:3-2");
  CHECK(parse_model_spec("mlp:784-256-128-10")->sizes == std::vector<std::int64_t>{784, 256, 128, 10});
}

TEST_CASE("models that are not built are refused as such") {
  for (const char* text : {"resnet20", "gpt:layers=6"}) {
    const auto spec = parse_model_spec(text);
    REQUIRE(!spec.ok());
    CHECK(spec.error().code == ErrorCode::kUsage);
    CHECK_THAT(spec.error().message, Catch::Contains("comes later"));
    CHECK(is_model_spec(text));
  }
  CHECK(!is_model_spec("model.pt"));
  for (const char* text : {"mlp", "mlp:", "mlp:3", "mlp:3-0", "mlp:3--2", "mlp:3-2-", "mlp:3-x",
                           "mlp:3-2,activation=none", "mlp:3-2,depth=4", "cnn:3-2"}) {
    INFO(text);
    REQUIRE(!parse_model_spec(text).ok());
    CHECK(parse_model_spec(text).error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("an optimiser spec survives text and JSON without losing a bit") {
  for (const char* text : {"sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-04", "sgd:lr=0.1",
                           "adam:lr=0.001", "adamw:lr=3e-04,betas=0.9/0.95,weight-decay=0.1",
                           "adam:lr=0.001,eps=1e-06", "adamw:lr=0.30000000000000004,weight-decay=0"}) {
    INFO(text);
    const auto spec = parse_optimizer_spec(text);
    REQUIRE(spec.ok());
    CHECK(print_optimizer_spec(*spec) == text);
    CHECK(*parse_optimizer_spec(print_optimizer_spec(*spec)) == *spec);
    const auto again = optimizer_from_json(*json::parse_canonical(to_json(*spec).dump()), "optimizer");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  CHECK(parse_optimizer_spec("adamw:lr=1e-3")->weight_decay == 0.01);
  CHECK(parse_optimizer_spec("adam")->beta2 == 0.999);
  CHECK(to_json(*parse_optimizer_spec("sgd:lr=0.5")).dump() ==
        R"({"kind":"sgd","lr":"0x1p-1","momentum":"0x0p0","nesterov":false,"weight_decay":"0x0p0"})");
}

TEST_CASE("an optimiser spec names the word that is wrong") {
  const std::pair<const char*, const char*> cases[] = {
      {"rmsprop:lr=1", "rmsprop"},
      {"sgd:lr=x", "lr"},
      {"sgd:lr=-1", "lr"},
      {"sgd:lr=nan", "lr"},
      {"sgd:lr=1,lr=2", "a second 'lr'"},
      {"sgd:nesterov", "momentum"},
      {"sgd:nesterov=1", "nesterov"},
      {"sgd:betas=0.9/0.9", "betas"},
      {"adam:betas=0.9", "betas"},
      {"adam:betas=0.9/1", "betas"},
      {"adam:momentum=0.9", "momentum"},
      {"sgd:", "unknown field"},
  };
  for (const auto& [text, word] : cases) {
    INFO(text);
    const auto spec = parse_optimizer_spec(text);
    REQUIRE(!spec.ok());
    CHECK(spec.error().code == ErrorCode::kUsage);
    CHECK_THAT(spec.error().message, Catch::Contains(word));
  }
}

TEST_CASE("a schedule spec survives text and JSON") {
  for (const char* text : {"constant", "step:every=30,gamma=0.1", "cosine:warmup=100,min=1e-05",
                           "linear:warmup=100", "cosine", "step:every=5,gamma=0.5,warmup=10"}) {
    INFO(text);
    const auto spec = parse_schedule_spec(text);
    REQUIRE(spec.ok());
    CHECK(print_schedule_spec(*spec) == text);
    const auto again = schedule_from_json(to_json(*spec), "schedule");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  for (const char* text :
       {"", "exponential", "step:every=0", "constant:every=3", "cosine:min=-1", "linear:warmup=1.5"}) {
    INFO(text);
    CHECK(!parse_schedule_spec(text).ok());
  }
}

TEST_CASE("a warm-up as long as the task is refused") {
  const auto optimizer = *parse_optimizer_spec("sgd:lr=0.1");
  const auto schedule = *parse_schedule_spec("cosine:warmup=10");
  CHECK(schedule_parameters(optimizer, schedule, 11).ok());
  CHECK(!schedule_parameters(optimizer, schedule, 10).ok());
}
