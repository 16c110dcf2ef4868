#include "dgx/cli/command.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "parse.h"

namespace dgx::cli {
namespace {

/// One command with an option of every kind.
struct Example {
  std::string task;
  std::optional<std::string> maybe;
  std::vector<std::string> rest;
  std::string output = "-";
  std::optional<std::int64_t> first;
  std::uint64_t seed = 7;
  double scale = 1;
  std::vector<std::int64_t> shape;
  std::vector<double> shifts{0};
  std::string device = "cpu";
  bool plan = false;
  std::vector<std::string> set;
  std::optional<std::string> only;
  bool all = false;
  Common common;
  Questions questions;
  Command command;

  Status read(std::vector<std::string> arguments) {
    command.positional("TASK.json", task, "the task");
    command.output(output, "OUT.json", Need::kOptional);
    command.option("--first", "N", first, "how many");
    command.option("--seed", "N", seed, "the seed");
    command.option("--scale", "S", scale, "a factor");
    command.option("--shape", "SIZES", shape, "sizes");
    command.option("--shifts", "T", shifts, "numbers");
    command.choice("--device", {"cpu", "cuda"}, device, "where");
    command.flag("--plan", plan, "run nothing");
    command.option("--set", "FIELD=VALUE", set, "fields");
    command.option("--only", "FILE", only, "one");
    command.flag("--all", all, "everything");
    command.at_most_one({"--only", "--all"});
    command.only_with({"--seed", "--scale"}, {"--first", "--plan"});
    command.not_with({"--shape"}, {"--all"});
    declare_common(command, common, questions);
    return parse(command, questions, std::move(arguments));
  }
};

std::string message_of(std::vector<std::string> arguments) {
  Example example;
  const Status status = example.read(std::move(arguments));
  return status.ok() ? "" : status.error().message;
}

}  // namespace

TEST_CASE("the last positional takes all that is left, before and after options") {
  std::string task;
  std::vector<std::string> rest;
  std::string key;
  Common common;
  Questions questions;
  Command command;
  command.positional("TASK.json", task, "the task").positional("FILE", rest, "files");
  command.required("--key", "KEY.pem", key, "a key");
  declare_common(command, common, questions);
  REQUIRE(parse(command, questions, {"t.json", "a", "b", "--key", "k.pem", "c"}).ok());
  CHECK(task == "t.json");
  CHECK(rest == std::vector<std::string>{"a", "b", "c"});
  CHECK(key == "k.pem");
}

TEST_CASE("options that would have no effect are refused") {
  CHECK(message_of({"t", "--seed", "1"}) == "--seed has no effect without --first or --plan");
  CHECK(message_of({"t", "--scale", "1", "--plan"}).empty());
  CHECK(message_of({"t", "--scale", "1", "--first", "1"}).empty());
  CHECK(message_of({"t", "--shape", "1", "--all"}) == "--shape has no effect with --all");
  CHECK(message_of({"t", "--shape", "1", "--only", "x"}).empty());
}

TEST_CASE("options keep their defaults when they are not given") {
  Example example;
  REQUIRE(example.read({"t.json"}).ok());
  CHECK(example.task == "t.json");
  CHECK(example.output == "-");
  CHECK(example.first == std::nullopt);
  CHECK(example.seed == 7);
  CHECK(example.device == "cpu");
  CHECK_FALSE(example.plan);
  CHECK(example.set.empty());
  CHECK(example.shifts == std::vector<double>{0});
  CHECK(example.common.threads >= 1);
}

TEST_CASE("every kind of option stores what it is given, in any order") {
  Example example;
  REQUIRE(example
              .read({"--seed",
                     "18446744073709551615",
                     "--scale=-0.25",
                     "t.json",
                     "-o",
                     "x",
                     "--first",
                     "-3",
                     "--plan",
                     "--device",
                     "cuda",
                     "-vv",
                     "--set",
                     "a=1",
                     "b=2",
                     "--set",
                     "c=3",
                     "--threads",
                     "5",
                     "--shape",
                     "1,28,-3",
                     "--shifts=0.5,-1"})
              .ok());
  CHECK(example.task == "t.json");
  CHECK(example.seed == 18446744073709551615u);
  CHECK(example.scale == -0.25);
  CHECK(example.output == "x");
  CHECK(example.first == -3);
  CHECK(example.plan);
  CHECK(example.device == "cuda");
  CHECK(example.set == std::vector<std::string>{"a=1", "b=2", "c=3"});
  CHECK(example.shape == std::vector<std::int64_t>{1, 28, -3});
  CHECK(example.shifts == std::vector<double>{0.5, -1});
  CHECK(example.common.verbosity == 2);
  CHECK(example.common.threads == 5);
}

TEST_CASE("a dash is a value, and what follows two dashes is no option") {
  Example example;
  REQUIRE(example.read({"-o", "-", "--", "--task"}).ok());
  CHECK(example.output == "-");
  CHECK(example.task == "--task");
}

TEST_CASE("wrong command lines are refused by name") {
  CHECK(message_of({}) == "TASK.json is required");
  CHECK(message_of({"a", "b"}) == "unexpected argument 'b'");
  CHECK(message_of({"a", "--nothing"}) == "unknown option '--nothing'");
  CHECK(message_of({"a", "--seed", "-1"}) == "--seed: '-1' is not a whole number of at least 0");
  CHECK(message_of({"a", "--seed", "18446744073709551616"}) ==
        "--seed: '18446744073709551616' is out of range");
  CHECK(message_of({"a", "--first", "1.5"}) == "--first: '1.5' is not a whole number");
  CHECK(message_of({"a", "--first", ""}) == "--first: '' is not a whole number");
  CHECK(message_of({"a", "--scale", "nan"}) == "--scale: 'nan' is not a finite number");
  CHECK(message_of({"a", "--scale", "1e999"}) == "--scale: '1e999' is out of range");
  CHECK(message_of({"a", "--shape", "1,x"}) == "--shape: 'x' is not a whole number");
  CHECK(message_of({"a", "--shape", "1,"}) == "--shape: '' is not a whole number");
  CHECK(message_of({"a", "--shifts", ""}) == "--shifts: '' is not a number");
  CHECK(message_of({"a", "--device", "tpu"}) == "--device: 'tpu' is not one of cpu, cuda");
  CHECK(message_of({"a", "--only", "x", "--all"}) == "--only and --all cannot be used together");
  CHECK(message_of({"a", "--first"}) == "--first needs a value");
  CHECK(message_of({"a", "--first", "--plan"}) == "--first needs a value");
  CHECK(message_of({"a", "--plan=no"}) == "--plan takes no value");
}

TEST_CASE("whoever asks for help is not told what is missing") {
  Example example;
  CHECK(example.read({"--help", "--nothing"}).ok());
  CHECK(example.questions.help);
}

/// A command whose key is needed but for a plan.
struct WithKey {
  std::string key;
  std::optional<std::string> passphrase;
  bool plan = false;
  Common common;
  Questions questions;
  Command command;

  Status read(std::vector<std::string> arguments) {
    command.key(key, passphrase).flag("--plan", plan, "run nothing");
    command.required_when("--key", [this] { return !plan; });
    declare_common(command, common, questions);
    return parse(command, questions, std::move(arguments));
  }
};

TEST_CASE("a variable stands for an option where it is required, and nowhere else") {
  ::setenv("DGX_KEY", "k.pem", 1);
  ::setenv("DGX_TRUST", "friends", 1);
  WithKey needed;
  CHECK(needed.read({}).ok());
  CHECK(needed.key == "k.pem");
  CHECK(needed.common.trust == "friends");
  WithKey given;
  CHECK(given.read({"--key", "other.pem", "--trust", "one.pub.pem"}).ok());
  CHECK(given.key == "other.pem");
  CHECK(given.common.trust == "one.pub.pem");
  WithKey optional;
  CHECK(optional.read({"--plan"}).ok());
  CHECK(optional.key.empty());
  ::setenv("DGX_KEY", "", 1);
  CHECK(WithKey().read({}).error().message == "--key is required");
  ::unsetenv("DGX_KEY");
  ::unsetenv("DGX_TRUST");
  CHECK(WithKey().read({}).error().message == "--key is required");
}

TEST_CASE("shells complete file names exactly where a value is a file") {
  Example example;
  REQUIRE(example.read({"t.json"}).ok());
  CHECK(example.command.find("--only")->takes_file());
  CHECK(example.command.find("-o")->takes_file());
  CHECK_FALSE(example.command.find("--first")->takes_file());
  CHECK_FALSE(example.command.find("--device")->takes_file());
}

TEST_CASE("a time is days, hours, minutes and seconds in this order, and at least a second") {
  const auto seconds_in = [](const std::string& text) -> std::int64_t {
    std::chrono::seconds out{0};
    return parse_value(text, out).ok() ? out.count() : -1;
  };
  CHECK(seconds_in("1h30m") == 5400);
  CHECK(seconds_in("90s") == 90);
  CHECK(seconds_in("2d") == 172800);
  CHECK(seconds_in("1d2h3m4s") == 93784);
  CHECK(seconds_in("366d") == 31622400);
  for (const char* text : {"", "1", "h", "30m1h", "1h 30m", "1.5h", "-1h", "1h-1m", "0s", "367d", "1h1h",
                           "99999999999999999999d", "1w", "1H"}) {
    CAPTURE(text);
    CHECK(seconds_in(text) == -1);
  }
}

}  // namespace dgx::cli
