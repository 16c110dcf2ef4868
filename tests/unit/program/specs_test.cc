#include "dgx/program/specs.h"

#include "dgx/program/cut_spec.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace dgx;
using namespace dgx::program;

TEST_CASE("a model spec prints as it was typed") {
  for (const char* text :
       {"mlp:784-256-128-10", "mlp:3-2", "mlp:3-2,activation=gelu", "mlp:3-2,activation=gelu-tanh",
        "mlp:3-2,activation=sigmoid", "resnet20", "resnet20:classes=10",
        "gpt:layers=1,width=16,heads=2,vocab=64",
        "gpt:layers=6,width=384,heads=6,context=256,vocab=256,dropout=0.1,tied",
        "switch:layers=4,width=16,heads=2,vocab=64,experts=8,capacity=0.5,balance=0,every=4",
        "switch:layers=2,width=16,heads=2,context=9,vocab=64,dropout=0.1,tied,experts=1,"
        "capacity=1e-09,balance=0.01,every=1"}) {
    const auto spec = parse_model_spec(text);
    REQUIRE(spec.ok());
    CHECK(print_model_spec(*spec) == text);
  }
  CHECK(print_model_spec(*parse_model_spec("mlp:3-2,activation=relu")) == "mlp:3-2");
  CHECK(print_model_spec(*parse_model_spec("gpt")) == "gpt:layers=6,width=384,heads=6,vocab=256");
  CHECK(print_model_spec(*parse_model_spec("switch")) ==
        "switch:layers=6,width=384,heads=6,vocab=256,experts=4,capacity=1.25,balance=0.01,every=2");
  CHECK(std::get<MlpSpec>(*parse_model_spec("mlp:784-256-128-10")).sizes ==
        std::vector<std::int64_t>{784, 256, 128, 10});
}

TEST_CASE("a model spec that is wrong is refused") {
  CHECK(!is_model_spec("model.pt"));
  for (const char* text : {"mlp",
                           "mlp:",
                           "mlp:3",
                           "mlp:3-0",
                           "mlp:3--2",
                           "mlp:3-2-",
                           "mlp:3-x",
                           "mlp:3-2,activation=none",
                           "mlp:3-2,depth=4",
                           "cnn:3-2",
                           "resnet20:10",
                           "resnet20:classes=0",
                           "resnet50",
                           "gpt:width=10,heads=3",
                           "gpt:dropout=1",
                           "gpt:layers=0",
                           "gpt:tied=yes",
                           "gpt:layers",
                           "gpt:experts=4",
                           "switch:experts=0",
                           "switch:experts=1025",
                           "switch:layers=4,experts=1024",
                           "switch:capacity=0",
                           "switch:capacity=nan",
                           "switch:capacity=inf",
                           "switch:capacity=-1",
                           "switch:capacity=1025",
                           "switch:balance=-0.01",
                           "switch:balance=nan",
                           "switch:balance=1001",
                           "switch:every=0",
                           "switch:every=7",
                           "switch:layers=1",
                           "switch:width=10,heads=3",
                           "switch:experts=2.5",
                           "switch:experts=2,experts=2",
                           "switch:drop"}) {
    INFO(text);
    REQUIRE(!parse_model_spec(text).ok());
    CHECK(parse_model_spec(text).error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a loss spec survives JSON") {
  for (const char* text :
       {"mse", "l1", "huber", "huber:delta=0.5", "bce", "bce:pos-weights=2", "bce:pos-weights=0/1e30",
        "cross-entropy", "cross-entropy:label-smoothing=0.1", "cross-entropy:ignore=255",
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
  CHECK(to_json(*parse_loss_spec("huber:delta=1")).dump() == R"("huber")");
  CHECK(to_json(*parse_loss_spec("bce:pos-weights=2")).dump() == R"({"kind":"bce","pos_weights":["0x1p1"]})");
  CHECK(to_json(*parse_loss_spec("cross-entropy:label-smoothing=0")).dump() == R"("cross-entropy")");
  CHECK(to_json(*parse_loss_spec("cross-entropy:ignore=2,weights=0.5/1,label-smoothing=0.5")).dump() ==
        R"({"ignore":2,"kind":"cross-entropy","label_smoothing":"0x1p-1","weights":["0x1p-1","0x1p0"]})");
}

TEST_CASE("a loss spec that is wrong is refused") {
  std::string many = "cross-entropy:weights=1";
  for (int n = 0; n < 128; ++n) many += "/1";
  for (const std::string& text : {std::string("hinge"),
                                  std::string("mse:ignore=1"),
                                  std::string("huber:delta=0"),
                                  std::string("huber:delta=inf"),
                                  std::string("l1:delta=1"),
                                  std::string("bce:weights=1"),
                                  std::string("bce:pos-weights=-1"),
                                  std::string("bce:pos-weights=nan"),
                                  std::string("cross-entropy:weights=1/-1"),
                                  std::string("cross-entropy:weights=0/0"),
                                  std::string("cross-entropy:weights="),
                                  many,
                                  std::string("cross-entropy:label-smoothing=1.5"),
                                  std::string("cross-entropy:ignore=x"),
                                  std::string("cross-entropy:ignore=1,ignore=2"),
                                  std::string("output="),
                                  std::string("output=a b"),
                                  std::string("output:ignore=1"),
                                  "output=" + std::string(129, 'a'),
                                  std::string("cross-entropy:ignore=9007199254740993")}) {
    INFO(text);
    REQUIRE(!parse_loss_spec(text).ok());
    CHECK(parse_loss_spec(text).error().code == ErrorCode::kUsage);
  }
  // Each meaning has one text: options without effect must be left out.
  for (const char* text :
       {R"("hinge")", R"({"delta":"0x1p0","kind":"huber"})", R"({"delta":"0x0p0","kind":"huber"})",
        R"({"delta":"0x1p1","kind":"mse"})", R"({"kind":"bce","weights":["0x1p1"]})",
        R"({"kind":"bce","pos_weights":[]})", R"({"kind":"bce","pos_weights":["inf"]})",
        R"({"kind":"cross-entropy"})", R"({"ignore":1,"kind":"mse"})",
        R"({"kind":"cross-entropy","label_smoothing":"0x0p0"})", R"({"kind":"cross-entropy","weights":[]})",
        R"({"kind":"output"})", R"({"kind":"output","name":""})",
        R"({"ignore":1,"kind":"output","name":"a"})", R"({"kind":"output","name":"\u0007"})",
        R"({"kind":"cross-entropy","weights":[1]})", R"({"ignore":1,"kind":"cross-entropy","more":1})"}) {
    INFO(text);
    CHECK(!loss_from_json(*json::parse_canonical(text), "loss").ok());
  }
}

TEST_CASE("an optimiser spec survives JSON without losing a bit") {
  for (const char* text :
       {"sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-04", "sgd:lr=0.1", "adam:lr=0.001",
        "adamw:lr=3e-04,betas=0.9/0.95,weight-decay=0.1", "lion", "lion:lr=0.1,betas=0/0.5,weight-decay=0.1",
        "rmsprop", "rmsprop:alpha=0.5,centered,momentum=0.9,eps=0,weight-decay=1", "adagrad",
        "adagrad:lr=1,lr-decay=0.5,initial=0.1,eps=1e-7,weight-decay=0.1", "dgc",
        "dgc:lr=0.1,momentum=0,density=1,warmup=0,clip=1e30,bits=8,weight-decay=0.1",
        "dgc:momentum=0.9999999403953552,density=5e-324,warmup=1099511627776", "adam:lr=0.001,eps=1e-06",
        "adamw:lr=0.30000000000000004,weight-decay=0"}) {
    INFO(text);
    const auto spec = parse_optimizer_spec(text);
    REQUIRE(spec.ok());
    const auto again = optimizer_from_json(*json::parse_canonical(to_json(*spec).dump()), "optimizer");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  CHECK(parse_optimizer_spec("adamw:lr=1e-3")->weight_decay == 0.01);
  CHECK(parse_optimizer_spec("adam")->beta2 == 0.999);
  CHECK(to_json(*parse_optimizer_spec("dgc:clip=1,bits=8,lr=0.5")).dump() ==
        R"({"bits":8,"clip":"0x1p0","density":"0x1.0624dd2f1a9fcp-10","kind":"dgc","lr":"0x1p-1",)"
        R"("momentum":"0x1.ccccccccccccdp-1","warmup":0,"weight_decay":"0x0p0"})");
  CHECK(to_json(*parse_optimizer_spec("adagrad")).dump() ==
        R"({"eps":"0x1.b7cdfd9d7bdbbp-34","initial":"0x0p0","kind":"adagrad","lr":"0x1.47ae147ae147bp-7",)"
        R"("lr_decay":"0x0p0","weight_decay":"0x0p0"})");
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
      {"adadelta:lr=1", "adadelta"},
      {"lion:eps=1", "eps"},
      {"lion:betas=1/0.9", "betas"},
      {"rmsprop:alpha=1", "alpha"},
      {"rmsprop:centered=1", "centered"},
      {"rmsprop:nesterov", "nesterov"},
      {"adagrad:lr-decay=-1", "lr-decay"},
      {"adagrad:initial=inf", "initial"},
      {"adagrad:momentum=0.9", "momentum"},
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
      {"dgc:density=0", "density"},
      {"dgc:density=1.1", "density"},
      {"dgc:density=nan", "density"},
      {"dgc:momentum=1", "momentum"},
      {"dgc:momentum=0.99999999", "momentum"},
      {"dgc:clip=1e-31", "clip"},
      {"dgc:momentum=-0.1", "momentum"},
      {"dgc:warmup=-1", "warmup"},
      {"dgc:warmup=1099511627777", "warmup"},
      {"dgc:warmup=5%", "warmup"},
      {"dgc:clip=0", "clip"},
      {"dgc:clip=inf", "clip"},
      {"dgc:bits=4", "bits"},
      {"dgc:bits=0", "bits"},
      {"dgc:nesterov", "nesterov"},
      {"dgc:eps=1", "eps"},
  };
  for (const auto& [text, word] : cases) {
    INFO(text);
    const auto spec = parse_optimizer_spec(text);
    REQUIRE(!spec.ok());
    CHECK(spec.error().code == ErrorCode::kUsage);
    CHECK_THAT(spec.error().message, Catch::Contains(word));
  }
}

namespace {

/// The schedule of a task of 1,000 steps with a learning rate of 0.5.
Result<ScheduleSpec> schedule_of(const std::string& text) {
  DGX_TRY(const ScheduleText parsed, parse_schedule_text(text));
  return fix_schedule(parsed, 0.5, 1000);
}

}  // namespace

TEST_CASE("a schedule spec survives JSON") {
  for (const char* text :
       {"constant", "step:every=30,gamma=0.1", "cosine:warmup=100,min=1e-05", "linear:warmup=100", "cosine",
        "step:every=5,gamma=0.5,warmup=10", "cosine:cycles=3", "polynomial", "polynomial:power=2.5,min=0.1",
        "inverse-sqrt:warmup=7", "wsd:warmup=1%,decay=20", "one-cycle", "one-cycle:up=1,start=0,end=0.5",
        "plateau:every=3",
        "plateau:every=2,factor=0.5,patience=0,threshold=0,cooldown=7,min=0.01,warmup=5%"}) {
    INFO(text);
    const auto spec = schedule_of(text);
    REQUIRE(spec.ok());
    const auto again = schedule_from_json(*json::parse_canonical(to_json(*spec).dump()), "schedule");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
  }
  CHECK(to_json(*schedule_of("cosine:cycles=1")).dump() == R"({"kind":"cosine","min":"0x0p0","warmup":0})");
  CHECK(to_json(*schedule_of("cosine:cycles=3")).dump() ==
        R"({"cycles":3,"kind":"cosine","min":"0x0p0","warmup":0})");
  CHECK(to_json(*schedule_of("wsd")).dump() == R"({"decay":100,"kind":"wsd","min":"0x0p0","warmup":0})");
  CHECK(to_json(*schedule_of("one-cycle:up=0.5,end=0")).dump() ==
        R"({"end":"0x0p0","kind":"one-cycle","start":"0x1.47ae147ae147bp-6","up":"0x1p-1"})");
}

TEST_CASE("steps as a share are fixed to the nearest number of the task's steps") {
  CHECK(schedule_of("linear:warmup=5%")->warmup == 50);
  CHECK(schedule_of("linear:warmup=0.16%")->warmup == 2);
  CHECK(schedule_of("linear:warmup=0%")->warmup == 0);
  CHECK(schedule_of("wsd:decay=33.33%")->decay == 333);
  CHECK(schedule_of("wsd:decay=7")->decay == 7);
  CHECK_THAT(schedule_of("linear:warmup=0.04%").error().message, Catch::Contains("is no step"));
}

TEST_CASE("a schedule spec that is wrong is refused") {
  for (const char* text : {"",
                           "exponential",
                           "step:every=0",
                           "constant:every=3",
                           "cosine:min=-1",
                           "linear:warmup=1.5",
                           "linear:warmup=101%",
                           "linear:warmup=-1%",
                           "linear:warmup=%",
                           "linear:warmup=nan%",
                           "linear:warmup=1099511627777",
                           "linear:cycles=2",
                           "cosine:cycles=0",
                           "cosine:cycles=1048577",
                           "cosine:cycles=1.5",
                           "polynomial:power=0",
                           "polynomial:power=1.25",
                           "polynomial:power=64.5",
                           "polynomial:power=nan",
                           "inverse-sqrt",
                           "inverse-sqrt:warmup=0",
                           "inverse-sqrt:warmup=0%",
                           "inverse-sqrt:warmup=1,min=0",
                           "wsd:decay=0",
                           "wsd:decay=0%",
                           "wsd:decay=1,decay=2",
                           "one-cycle:up=0",
                           "one-cycle:up=1.5",
                           "one-cycle:start=inf",
                           "one-cycle:end=-1",
                           "one-cycle:warmup=3",
                           "one-cycle:peak=1",
                           "plateau",
                           "plateau:every=0",
                           "plateau:every=1048577",
                           "plateau:every=1,factor=0",
                           "plateau:every=1,factor=1",
                           "plateau:every=1,threshold=1",
                           "plateau:every=1,patience=-1",
                           "plateau:every=1,gamma=0.1"}) {
    INFO(text);
    CHECK(!schedule_of(text).ok());
  }
  // Each meaning has one text, and a number is one that a schedule can have.
  for (
      const char* text :
      {R"({"cycles":1,"kind":"cosine","min":"0x0p0","warmup":0})",
       R"({"cycles":1048577,"kind":"cosine","min":"0x0p0","warmup":0})",
       R"({"cycles":2,"kind":"linear","min":"0x0p0","warmup":0})",
       R"({"kind":"polynomial","min":"0x0p0","power":"0x1.4p0","warmup":0})",
       R"({"kind":"polynomial","min":"0x0p0","power":"inf","warmup":0})",
       R"({"decay":0,"kind":"wsd","min":"0x0p0","warmup":0})",
       R"({"end":"0x0p0","kind":"one-cycle","start":"0x0p0","up":"0x1p1"})",
       R"({"end":"0x0p0","kind":"one-cycle","start":"inf","up":"0x1p-1"})",
       R"({"end":"0x0p0","kind":"one-cycle","start":"0x0p0","up":"0x1p-1","warmup":0})",
       R"({"cooldown":0,"every":1,"factor":"0x1p0","kind":"plateau","min":"0x0p0","patience":1,"threshold":"0x0p0","warmup":0})",
       R"({"every":1,"factor":"0x1p-1","kind":"plateau","min":"0x0p0","patience":1,"threshold":"0x0p0","warmup":0})",
       R"({"kind":"inverse-sqrt"})"}) {
    INFO(text);
    CHECK(!schedule_from_json(*json::parse_canonical(text), "schedule").ok());
  }
}

TEST_CASE("a schedule that does not fit its task is refused") {
  const auto optimizer = *parse_optimizer_spec("sgd:lr=0.1");
  const auto fits = [&](const char* text, std::int64_t steps) {
    const auto spec = fix_schedule(*parse_schedule_text(text), 0.1, steps);
    return spec.ok() && schedule_parameters(optimizer, *spec, steps).ok();
  };
  CHECK(fits("cosine:warmup=10", 11));
  CHECK(!fits("cosine:warmup=10", 10));
  CHECK(fits("cosine:warmup=10,cycles=4", 14));
  CHECK(!fits("cosine:warmup=10,cycles=5", 14));
  CHECK(fits("wsd:warmup=10,decay=4", 14));
  CHECK(!fits("wsd:warmup=10,decay=5", 14));
  CHECK(fits("inverse-sqrt:warmup=10", 5));
  CHECK(fits("one-cycle:up=0.5", 3));
  CHECK(!fits("one-cycle:up=0.5", 2));
  CHECK(fits("one-cycle:start=0.1,end=0.1", 10));
  CHECK(!fits("one-cycle:start=0.2", 10));
  CHECK(!fits("one-cycle:end=0.2", 10));
  CHECK(!fits("polynomial:min=0.2", 10));
  CHECK(fits("plateau:every=2,patience=1,warmup=3", 10));
  CHECK(!fits("plateau:every=2,patience=1,warmup=4", 10));
  CHECK(!fits("plateau:every=2,patience=1,min=0.1", 10));
  CHECK(fits("plateau:every=1048576", std::int64_t{1} << 40));
  CHECK(!fits("plateau:every=1048576,patience=1048576", std::int64_t{1} << 40));
}

TEST_CASE("a cut is read as it is typed, and what is none is refused") {
  const auto cut = parse_cut_spec("3:first=469,backward=4,forward=3");
  REQUIRE(cut.ok());
  CHECK(cut->spec == CutSpec{3, 3, 4, 469});
  CHECK(cut->has_first);
  CHECK(parse_cut_spec("1")->spec == CutSpec{1, 2, 8, 0});
  CHECK_FALSE(parse_cut_spec("1")->has_first);
  for (const char* text : {"",
                           ":",
                           "0",
                           "1025",
                           "-1",
                           "1.5",
                           " 1",
                           "1 ",
                           "1:",
                           "x",
                           "1:forward",
                           "1:forward=",
                           "1:forward=1",
                           "1:forward=9",
                           "1:forward=2.5",
                           "1:backward=0",
                           "1:first=-1",
                           "1:first=1099511627777",
                           "1:forward=2,forward=2",
                           "1:forward=2, backward=3",
                           "1:forward=2,",
                           "1:bits=2",
                           "99999999999999999999"}) {
    CAPTURE(text);
    const auto refused = parse_cut_spec(text);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a cut has blocks of its model on both sides") {
  const auto fits = [](std::int64_t block, const char* model) {
    return check_cut({block, 2, 8, 0}, *parse_model_spec(model)).ok();
  };
  CHECK(fits(1, "mlp:4-5-3"));
  CHECK_FALSE(fits(2, "mlp:4-5-3"));
  CHECK_FALSE(fits(1, "mlp:4-3"));
  CHECK(fits(5, "gpt:layers=6"));
  CHECK_FALSE(fits(6, "gpt:layers=6"));
  CHECK(fits(1, "switch:layers=2"));
  CHECK_FALSE(fits(2, "switch:layers=2"));
  CHECK_FALSE(fits(1, "resnet20"));
}
