// A dataset that is damaged, as those who replay see it: never a verdict, and no error unless a step reads
// it.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "dgx/jobs/prove.h"
#include "dgx/jobs/train.h"
#include "dgx/jobs/verify.h"
#include "small_task.h"

namespace {

using namespace dgx;
using test::must;
using test::run_job;
using test::SmallTask;

void flip(const std::string& path, std::uint64_t bit) {
  const int file = ::open(path.c_str(), O_RDWR);
  std::uint8_t byte = 0;
  REQUIRE(::pread(file, &byte, 1, static_cast<off_t>(bit / 8)) == 1);
  byte = static_cast<std::uint8_t>(byte ^ 1U << bit % 8);
  REQUIRE(::pwrite(file, &byte, 1, static_cast<off_t>(bit / 8)) == 1);
  ::close(file);
}

TEST_CASE("a flipped bit of the data is refused by name, or the verdict is that of the intact data") {
  const SmallTask task({}, "constant", 100'000);
  jobs::TrainOptions training;
  training.task = task.at("task.json");
  training.data = task.at("data.h5");
  training.run = task.at("run");
  training.drill = "segment=5,lazy";
  must(run_job([&](const JobContext& context) { return jobs::train(training, context); }));
  must(run_job([&](const JobContext& context) {
    return jobs::prove({task.at("task.json"), task.at("run"), task.key("solver"), task.at("proof.json")},
                       context);
  }));
  jobs::VerifyOptions options;
  options.task = task.at("task.json");
  options.proof = task.at("proof.json");
  options.from = task.at("run");
  options.data = task.at("data.h5");
  options.key = task.key("verifier");
  options.output = task.at("verdict.json");
  const auto verdict = [&] {
    auto out = run_job([&](const JobContext& context) { return jobs::verify(options, context); });
    must(remove_file(task.at("verdict.json")));
    must(remove_file(task.at("verdict.rows.jsonl")));
    must(remove_file(task.at("verdict.json.part")));
    return out;
  };
  // The numbers of x and y begin where their first KiB is; 16 KiB of each are one group.
  const std::string file = must(read_file(options.data, std::size_t{1} << 24));
  std::string x(1024, '\0');
  for (std::size_t i = 0; i < 256; ++i) {
    const float number = static_cast<float>((i * 37) % 97) / 97;
    std::memcpy(x.data() + 4 * i, &number, 4);
  }
  const std::uint64_t begin = file.find(x);
  REQUIRE(begin != std::string::npos);
  std::uint64_t random = 5;
  for (const char* segment : {"3", "5"}) {  // an honest one, and one that is refuted
    options.choice.segments = segment;
    const auto intact = must(verdict());
    CHECK(intact.rows[0].agrees == (*segment == '3'));
    int refused = 0;
    for (int n = 0; n < 60; ++n) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      const std::uint64_t bit = 8 * begin + (random >> 20U) % (8 * 1'600'000);
      flip(options.data, bit);
      const auto found = verdict();
      flip(options.data, bit);
      if (found.ok()) {
        CHECK(found->rows == intact.rows);
        CHECK(found->verdict.outcome == intact.verdict.outcome);
        continue;
      }
      ++refused;
      CHECK(found.error().code == ErrorCode::kBadData);
      CHECK_THAT(found.error().message, Catch::Contains("data.h5: x: row "));
    }
    CHECK(refused > 5);
    CHECK(refused < 55);
  }
  // Whoever reads all of it refuses all.
  flip(options.data, 8 * begin + 8 * 777'777);
  training.run = task.at("again");
  const auto again = run_job([&](const JobContext& context) { return jobs::train(training, context); });
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().code == ErrorCode::kMalformed);
  CHECK_FALSE(exists(task.at("again")));
}

}  // namespace
