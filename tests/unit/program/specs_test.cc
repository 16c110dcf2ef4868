#include "dgx/program/specs.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace dgx;
using namespace dgx::program;

TEST_CASE("a model spec prints as it was typed") {
  for (const char* text : {"mlp:784-256-128-10", "mlp:3-2", "mlp:3-2,activation=gelu",
                           "mlp:3-2,activation=gelu-tanh", "mlp:3-2,activation=sigmoid", "resnet20",
                           "resnet20:classes=10", "gpt:layers=1,width=16,heads=2,vocab=64",
                           "gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0.1,tied"}) {
    const auto spec = parse_model_spec(text);
    REQUIRE(spec.ok());
    CHECK(print_model_spec(*spec) == text);
  }
  CHECK(print_model_spec(*parse_model_spec("mlp:3-2,activation=relu")) == "mlp:3-2");
  CHECK(print_model_spec(*parse_model_spec("gpt")) == "gpt:layers=6,width=384,heads=6,vocab=256");
  CHECK(std::get<MlpSpec>(*parse_model_spec("mlp:784-256-128-10")).sizes ==
        std::vector<std::int64_t>{784, 256, 128, 10});
}

TEST_CASE("a model spec that is wrong is refused") {
  CHECK(!is_model_spec("model.pt"));
  for (const char* text :
       {"mlp", "mlp:", "mlp:3", "mlp:3-0", "mlp:3--2", "mlp:3-2-", "mlp:3-x", "mlp:3-2,activation=none",
        "mlp:3-2,depth=4", "cnn:3-2", "resnet20:10", "resnet20:classes=0", "resnet50", "gpt:width=10,heads=3",
        "gpt:dropout=1", "gpt:layers=0", "gpt:tied=yes", "gpt:layers"}) {
    INFO(text);
    REQUIRE(!parse_model_spec(text).ok());
    CHECK(parse_model_spec(text).error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a loss spec survives JSON") {
  for (const char* text :
       {"mse", "cross-entropy", "cross-entropy:label-smoothing=0.1", "cross-entropy:ignore=255",
        "cross-entropy:ignore=-100,weights=1/2/0.5", "cross-entropy:label-smoothing=1,ignore=0,weights=0/1",
        "output", "output=loss", "output=0.1"}) {
    INFO(text);
    const auto spec = parse_loss_spec(text);
    REQUIRE(spec.ok());
    const auto again = loss_from_json(*json::parse_canonical(to_json(*spec).dump()), "loss");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  CHECK(to_json(*parse_loss_spec("mse")).dump() == R"("mse")");
  CHECK(to_json(*parse_loss_spec("output")).dump() == R"("output")");
  CHECK(to_json(*parse_loss_spec("output=loss")).dump() == R"({"kind":"output","name":"loss"})");
  CHECK(to_json(*parse_loss_spec("cross-entropy:label-smoothing=0")).dump() == R"("cross-entropy")");
  CHECK(to_json(*parse_loss_spec("cross-entropy:ignore=2,weights=0.5/1,label-smoothing=0.5")).dump() ==
        R"({"ignore":2,"kind":"cross-entropy","label_smoothing":"0x1p-1","weights":["0x1p-1","0x1p0"]})");
}

TEST_CASE("a loss spec that is wrong is refused") {
  std::string many = "cross-entropy:weights=1";
  for (int n = 0; n < 128; ++n) many += "/1";
  for (const std::string& text :
       {std::string("hinge"), std::string("mse:ignore=1"), std::string("cross-entropy:weights=1/-1"),
        std::string("cross-entropy:weights=0/0"), std::string("cross-entropy:weights="), many,
        std::string("cross-entropy:label-smoothing=1.5"), std::string("cross-entropy:ignore=x"),
        std::string("cross-entropy:ignore=1,ignore=2"), std::string("output="), std::string("output=a b"),
        std::string("output:ignore=1"), "output=" + std::string(129, 'a'),
        std::string("cross-entropy:ignore=9007199254740993")}) {
    INFO(text);
    REQUIRE(!parse_loss_spec(text).ok());
    CHECK(parse_loss_spec(text).error().code == ErrorCode::kUsage);
  }
  // Each meaning has one text: options without effect must be left out.
  for (const char* text :
       {R"("hinge")", R"({"kind":"cross-entropy"})", R"({"ignore":1,"kind":"mse"})",
        R"({"kind":"cross-entropy","label_smoothing":"0x0p0"})", R"({"kind":"cross-entropy","weights":[]})",
        R"({"kind":"output"})", R"({"kind":"output","name":""})",
        R"({"ignore":1,"kind":"output","name":"a"})", R"({"kind":"output","name":"\u0007"})",
        R"({"kind":"cross-entropy","weights":[1]})", R"({"ignore":1,"kind":"cross-entropy","more":1})"}) {
    INFO(text);
    CHECK(!loss_from_json(*json::parse_canonical(text), "loss").ok());
  }
}

TEST_CASE("an optimiser spec survives JSON without losing a bit") {
  for (const char* text : {"sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-04", "sgd:lr=0.1",
                           "adam:lr=0.001", "adamw:lr=3e-04,betas=0.9/0.95,weight-decay=0.1",
                           "adam:lr=0.001,eps=1e-06", "adamw:lr=0.30000000000000004,weight-decay=0"}) {
    INFO(text);
    const auto spec = parse_optimizer_spec(text);
    REQUIRE(spec.ok());
    const auto again = optimizer_from_json(*json::parse_canonical(to_json(*spec).dump()), "optimizer");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  CHECK(parse_optimizer_spec("adamw:lr=1e-3")->weight_decay == 0.01);
  CHECK(parse_optimizer_spec("adam")->beta2 == 0.999);
  CHECK(to_json(*parse_optimizer_spec("sgd:lr=0.5")).dump() ==
        R"({"kind":"sgd","lr":"0x1p-1","momentum":"0x0p0","nesterov":false,"weight_decay":"0x0p0"})");
}

TEST_CASE("where 0 is in a range, so is -0, another number; it is not above zero") {
  // dgx-manifest(5), "Canonical JSON".
  const auto reads = [](auto parse, const std::string& text) {
    const auto spec = parse(*json::parse_canonical(text), "spec");
    if (!spec.ok()) return spec.error().message;
    CHECK(to_json(*spec).dump() == text);  // including its sign
    return std::string();
  };
  const std::string sgd =
      R"({"kind":"sgd","lr":"-0x0p0","momentum":"-0x0p0","nesterov":false,"weight_decay":"-0x0p0"})";
  CHECK(reads(optimizer_from_json, sgd).empty());
  CHECK(std::signbit(optimizer_from_json(*json::parse_canonical(sgd), "spec")->learning_rate));
  std::string nesterov = sgd;
  nesterov.replace(nesterov.find("false"), 5, "true");
  CHECK_THAT(reads(optimizer_from_json, nesterov), Catch::Contains("nesterov: needs momentum"));
  std::string below = sgd;
  below.replace(below.find("-0x0p0"), 6, "-0x1p-1074");
  CHECK_THAT(reads(optimizer_from_json, below), Catch::Contains("lr: is out of range"));
  CHECK(reads(schedule_from_json, R"({"kind":"linear","min":"-0x0p0","warmup":0})").empty());
  CHECK(reads(loss_from_json, R"({"kind":"cross-entropy","weights":["-0x0p0","0x1p0"]})").empty());
  CHECK_THAT(reads(loss_from_json, R"({"kind":"cross-entropy","label_smoothing":"-0x0p0"})"),
             Catch::Contains("label_smoothing"));
  CHECK_THAT(reads(loss_from_json, R"({"kind":"cross-entropy","weights":["-0x0p0"]})"),
             Catch::Contains("no class"));
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

TEST_CASE("a schedule spec survives JSON") {
  for (const char* text : {"constant", "step:every=30,gamma=0.1", "cosine:warmup=100,min=1e-05",
                           "linear:warmup=100", "cosine", "step:every=5,gamma=0.5,warmup=10"}) {
    INFO(text);
    const auto spec = parse_schedule_spec(text);
    REQUIRE(spec.ok());
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
