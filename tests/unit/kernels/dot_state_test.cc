#include "dgx/kernels/dot_state.h"

#include <catch2/catch.hpp>
#include <random>

#include "dgx/kernels/scalar.h"
#include "ref_support.h"

namespace dgx::kernels {
namespace {

const json::Value& placement_vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/placement.json");
  return value;
}

/// A state as it is carried: the words that exist, and nothing else.
DotState carried(const DotState& state) {
  const DotWords words = dot_words_at(state.position);
  DotState next;
  next.position = state.position;
  if (words.block) next.block = canonical_nan(state.block);
  if (words.group) next.group = canonical_nan(state.group);
  if (words.total) next.total = canonical_nan(state.total);
  return next;
}

TEST_CASE("a dot that stops has the state of the page, and the words that it says") {
  for (const json::Value& vector : *member(placement_vectors(), "dot_states").as_array()) {
    const std::int64_t n = integer(vector, "n"), position = integer(vector, "position");
    const auto a = pattern(static_cast<std::uint64_t>(2 * n), n);
    const auto b = pattern(static_cast<std::uint64_t>(2 * n) + 1, n);
    CAPTURE(n, position);
    DotState state;
    for (std::size_t p = 0; p < static_cast<std::size_t>(position); ++p) state.take(a[p], b[p]);
    CHECK(state.position == position);
    const DotWords words = dot_words_at(position);
    const auto check = [&](const char* name, bool exists, float value) {
      const json::Object& all = *vector.as_object();
      REQUIRE(all.contains(name) == exists);
      CHECK(bits(value) == (exists ? hex(all.at(name)) : 0));
    };
    check("block", words.block, state.block);
    check("group", words.group, state.group);
    check("total", words.total, state.total);
    for (std::size_t p = static_cast<std::size_t>(position); p < a.size(); ++p) state.take(a[p], b[p]);
    CHECK(bits(state.end()) == hex(member(vector, "value")));
  }
}

TEST_CASE("100,000 random cuts of dots give the bits of the whole") {
  const std::uint64_t seed = 20221;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  std::int64_t cuts = 0, differing = 0;
  for (int round = 0; cuts < 100'000; ++round) {
    // Lengths about the edges of blocks and groups.
    const std::int64_t edge =
        std::array<std::int64_t, 4>{256, 1024, 4096, 2 * 4096}[static_cast<std::size_t>(round % 4)];
    const std::int64_t n = edge - 3 + below(7) + (round % 8 < 4 ? 0 : below(600));
    const auto a = pattern(random(), n), b = pattern(random(), n);
    const auto line = fold(Kind::kDot, DType::kF32, {1}, {n}, {read(0, {at({k(0)})}), read(1, {at({k(0)})})});
    const auto whole = evaluate(line, {floats({n}, a), floats({n}, b)});
    DotState state;
    // Half of the cuts lie anywhere, half beside a block's edge.
    while (state.position < n) {
      const std::int64_t p = state.position;
      const std::int64_t near = (p / 256 + 1 + below(3)) * 256 - 1 + below(3);
      const std::int64_t end = std::min(n, std::max(p + 1, below(2) == 0 ? p + 1 + below(97) : near));
      for (std::int64_t q = p; q < end; ++q)
        state.take(a[static_cast<std::size_t>(q)], b[static_cast<std::size_t>(q)]);
      if (end == n) break;
      state = carried(state);
      ++cuts;
    }
    differing += bits(state.end()) != bits(whole.as<float>()[0]) ? 1 : 0;
  }
  CHECK(differing == 0);
}

TEST_CASE("the dots of a part's line go on where those of the part before stopped") {
  const std::int64_t rows = 3, columns = 5, samples = 40, positions = 13;  // 520 positions: 2 blocks and 8
  const auto x = floats({samples, positions, rows}, pattern(1, samples * positions * rows));
  const auto y = floats({samples, positions, columns}, pattern(2, samples * positions * columns));
  const auto line = [&](std::int64_t of) {
    return fold(
        Kind::kDot, DType::kF32, {rows, columns}, {of, positions},
        {read(0, {at({k(0)}), at({k(1)}), at({i(0)})}), read(1, {at({k(0)}), at({k(1)}), at({i(1)})})});
  };
  const auto whole = evaluate(line(samples), {x, y});
  const auto slice = [](const Tensor& all, std::int64_t begin, std::int64_t end) {
    Shape shape = all.shape();
    const std::int64_t size = all.count() / shape[0];
    shape[0] = end - begin;
    const auto numbers = all.as<float>();
    return floats(shape, {numbers.begin() + begin * size, numbers.begin() + end * size});
  };
  std::vector<DotState> states(static_cast<std::size_t>(rows * columns));
  std::int64_t begin = 0;
  for (const std::int64_t end : {1, 20, 39, 40}) {
    const std::vector<Tensor> values{slice(x, begin, end), slice(y, begin, end)};
    const auto part = compiled(line(end - begin), values);
    const std::span<DotState> all = states;
    REQUIRE(resume_dots(part, views(values), all.first(7), 0, 7).ok());
    REQUIRE(resume_dots(part, views(values), all.subspan(7), 7, rows * columns).ok());
    begin = end;
  }
  for (std::size_t e = 0; e < states.size(); ++e) CHECK(bits(states[e].end()) == bits(whole.as<float>()[e]));
}

TEST_CASE("only a dot goes on, and only within its elements") {
  const std::vector<Tensor> values{floats({4}, pattern(3, 4))};
  const auto x = read(0, {at({k(0)})});
  const auto dot = compiled(fold(Kind::kDot, DType::kF32, {2}, {4}, {x, x}), values);
  const auto sum = compiled(fold(Kind::kSum, DType::kF32, {2}, {4}, {x}), values);
  std::vector<DotState> states(2), few(1);
  CHECK(resume_dots(dot, views(values), states, 0, 2).ok());
  CHECK(resume_dots(sum, views(values), states, 0, 2).error().code == ErrorCode::kInternal);
  CHECK(resume_dots(dot, views(values), few, 0, 2).error().code == ErrorCode::kInternal);
  CHECK(resume_dots(dot, views(values), states, 0, 3).error().code == ErrorCode::kInternal);
  CHECK(resume_dots(dot, views({}), states, 0, 2).error().code == ErrorCode::kMalformed);
}

}  // namespace
}  // namespace dgx::kernels
