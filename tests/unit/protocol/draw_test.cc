#include "dgx/protocol/draw.h"

#include <catch2/catch.hpp>

#include "dgx/core/checked.h"
#include "dgx/protocol/bisect.h"
#include "dgx/protocol/segments.h"
#include "json_vectors.h"
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

TEST_CASE("the state before the last step is witnessed, by the digest that Python computes") {
  CHECK(witness_step({3, 30, 40}) == 39);
  CHECK(witness_step({5, 50, 52}) == 51);
  CHECK(witness_of(digest("verifier"), digest("interior")).hex() ==
        "94813516856dd7eb3adb5f1cc0f8e2a0d501180db65acf06cd223083a845217d");
}

TEST_CASE("the sample is rounded up and never empty") {
  const auto sampled = [](std::int64_t n, std::int64_t sample_ppm) {
    manifest::Policy policy = manifest::standard_policy();
    policy.sample_ppm = sample_ppm;
    return sample_count(policy, n, n);
  };
  CHECK(sampled(100, 50'000) == 5);
  CHECK(sampled(101, 50'000) == 6);
  CHECK(sampled(7, 1) == 1);
  CHECK(sampled(7, 1'000'000) == 7);
  CHECK(sampled(16'777'216, 1'000'000) == 16'777'216);
}

TEST_CASE("as many segments are drawn for a chance as Python counts with whole numbers") {
  const json::Value vectors = test::read_vectors(DGX_VECTORS "/draw.json");
  const json::Array& cases = *test::member(vectors, "cases").as_array();
  REQUIRE(cases.size() > 1000);
  for (const json::Value& one : cases) {
    const json::Array& row = *one.as_array();
    const auto at = [&](std::size_t i) { return *row.at(i).as_int(); };
    CAPTURE(at(0), at(1), at(2));
    REQUIRE(confident_count(at(0), at(1), at(2)) == at(3));
  }
  CHECK(confident_count(65'537, 1'000'000, 1'000'000) == 65'537);  // more than any admitted task has
}

TEST_CASE("what a policy promises, its verdict states") {
  for (std::int64_t n = 1; n < 300; ++n) {
    const std::int64_t count = confident_count(n, 50'000, 100'000);
    REQUIRE(std::stod(miss_probabilities(n, count).ten_percent) <= 0.05);
    if (count > 1) REQUIRE(std::stod(miss_probabilities(n, count - 1).ten_percent) > 0.05);
  }
}

TEST_CASE("the larger of share and chance decides, for a shorter proof with the task's chance") {
  manifest::Policy policy = manifest::standard_policy();
  policy.miss_ppm = 50'000;
  CHECK(sample_count(policy, 100, 100) == 25);
  CHECK(sample_count(policy, 1000, 1000) == 50);  // 29 would do for the chance
  CHECK(sample_count(policy, 1000, 100) == 29);
  CHECK(sample_count(policy, 1000, 20) == 20);
  CHECK(sample_count(policy, 1000, 0) == 0);
  // A proof that ends early never draws more than its task, or its opening would not fit into the store; and
  // a cheat on as large a part of it is missed no more often.
  for (const std::int64_t whole : {10, 19, 20, 29, 30, 57, 100}) {
    const std::int64_t most = sample_count(policy, whole, whole);
    for (std::int64_t n = 1; n <= whole; ++n) {
      const std::int64_t drawn = sample_count(policy, whole, n);
      REQUIRE(drawn <= most);
      const std::int64_t bad = std::max<std::int64_t>(1, whole / 10);
      REQUIRE(std::stod(miss_probability(n, ceil_div(bad * n, whole), drawn)) <= 0.05);
    }
  }
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
