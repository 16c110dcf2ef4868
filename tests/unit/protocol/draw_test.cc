#include "dgx/protocol/draw.h"

#include <catch2/catch.hpp>

#include "dgx/protocol/bisect.h"
#include "dgx/protocol/segments.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::protocol;
using test::digest;

TEST_CASE("segments cover every step once and have at least two") {
  for (std::int64_t steps = 2; steps < 60; ++steps) {
    for (std::int64_t every = 2; every < 65; ++every) {
      const auto segments = Segments::of(steps, every);
      REQUIRE(segments.ok());
      std::int64_t next = 0;
      std::int64_t longest = 0;
      for (std::int64_t i = 0; i < segments->count(); ++i) {
        const Segment segment = (*segments)[i];
        REQUIRE(segment.first == next);
        REQUIRE(segment.length() >= 2);
        REQUIRE(segments->state_at(segment.first) == i);
        next = segment.end;
        longest = std::max(longest, segment.length());
      }
      REQUIRE(next == steps);
      REQUIRE(segments->longest() == longest);
      REQUIRE(segments->state_at(steps) == segments->count());
    }
  }
  CHECK_FALSE(Segments::of(1, 10).ok());
  CHECK_FALSE(Segments::of(10, 1).ok());
}

TEST_CASE("a one-step remainder joins the segment before it") {
  CHECK((*Segments::of(101, 10))[9] == Segment{9, 90, 101});
  CHECK((*Segments::of(102, 10))[10] == Segment{10, 100, 102});
  CHECK(Segments::of(101, 10)->state_at(100) == -1);
}

TEST_CASE("draws are those that Python computes from the formula") {
  const auto draw = [](std::int64_t n, std::int64_t q) {
    return *draw_segments(digest("beacon"), digest("proof"), digest("verifier"), n, q);
  };
  using List = std::vector<std::int64_t>;
  CHECK(draw(100, 5) == List{9, 28, 30, 49, 75});
  CHECK(draw(10, 9) == List{0, 1, 2, 3, 5, 6, 7, 8, 9});
  CHECK(draw(1000, 20) ==
        List{6, 28, 75, 152, 198, 241, 407, 409, 423, 530, 540, 614, 626, 630, 652, 915, 942, 949, 986, 989});
  CHECK(draw(3, 3) == List{0, 1, 2});
  CHECK_FALSE(draw_segments(digest("beacon"), digest("proof"), digest("verifier"), 3, 4).ok());
  CHECK_FALSE(draw_segments(digest("beacon"), digest("proof"), digest("verifier"), 3, 0).ok());
}

TEST_CASE("witnessed steps and witnesses are those that Python computes") {
  const auto step = [](const Segment& segment) {
    return witness_step(digest("beacon"), digest("proof"), digest("verifier"), segment);
  };
  CHECK(step({0, 0, 10}) == 5);
  CHECK(step({3, 30, 40}) == 35);
  CHECK(step({9, 90, 101}) == 97);
  CHECK(step({5, 50, 52}) == 51);
  CHECK(witness_of(digest("verifier"), digest("interior")).hex() ==
        "94813516856dd7eb3adb5f1cc0f8e2a0d501180db65acf06cd223083a845217d");
}

TEST_CASE("the sample is rounded up and never empty") {
  CHECK(sample_count(100, 50'000) == 5);
  CHECK(sample_count(101, 50'000) == 6);
  CHECK(sample_count(7, 1) == 1);
  CHECK(sample_count(7, 1'000'000) == 7);
  CHECK(sample_count(16'777'216, 1'000'000) == 16'777'216);
}

TEST_CASE("chances of missing are those that Python computes with fractions") {
  CHECK(miss_probability(100, 1, 5) == "0.95");
  CHECK(miss_probability(200, 10, 50) == "0.0520936");
  CHECK(miss_probability(100, 1, 100) == "0");
  CHECK(miss_probability(100, 0, 5) == "1");
  CHECK(miss_probability(1000, 10, 50) == "0.597311");
  CHECK(miss_probability(3, 1, 1) == "0.666667");
  CHECK(miss_probability(100'000, 1000, 5000) == "4.06111e-23");
  CHECK(miss_probability(500, 50, 400) == "4.35924e-41");
  CHECK(miss_probability(10, 1, 9) == "0.1");
  CHECK(miss_probability(100'000, 1, 1) == "0.99999");
  CHECK(miss_probability(16'777'216, 1, 1) == "1");  // 1 - 2^-24, which six digits round up
  CHECK(miss_probabilities(100, 5).one_percent == "0.95");
}

TEST_CASE("the first divergence is found though states agree again later") {
  const std::vector<Digest> ours{digest("0"), digest("1"), digest("2"), digest("3")};
  std::vector<Digest> theirs = ours;
  CHECK_FALSE(first_divergence(ours, theirs)->has_value());
  theirs[2] = digest("x");
  CHECK(**first_divergence(ours, theirs) == 2);
  CHECK(**first_divergent_segment(ours, theirs) == 1);
  theirs[0] = digest("y");
  CHECK_FALSE(first_divergent_segment(ours, theirs).ok());
  theirs.pop_back();
  CHECK_FALSE(first_divergence(ours, theirs).ok());
}

TEST_CASE("the first divergent element is compared by its bits") {
  Tensor ours(DType::kF32, {2, 2});
  Tensor theirs = ours;
  CHECK_FALSE(first_divergent_element(ours.view(), theirs.view())->has_value());
  theirs.as<float>()[3] = -0.0f;
  CHECK(**first_divergent_element(ours.view(), theirs.view()) == 3);
  CHECK_FALSE(first_divergent_element(ours.view(), Tensor(DType::kF32, {4}).view()).ok());
}
