#include "dgx/protocol/fold_levels.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "fold_numbers.h"
#include "scenes.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;
using kernels::Number;
using kernels::Running;

namespace {

constexpr kernels::ValueIndex kFold{1};  // the line that `Fold` is about

/// A fold over `n` positions of cheap terms: of one element, or of its index.
struct Fold {
  program::Program program;
  kernels::CompiledPrimitive line;
  Tensor input;

  Fold(const char* kind, std::int64_t n, const char* type, std::vector<std::string> steps) {
    Sketch s;
    const bool integers = std::string(type) != "f32";
    const int w = s.state("model/w", integers ? "i64" : "f32", {7});
    Sketch::Line sketch{kind, {}, {}, std::move(steps), {n}, type};
    sketch.x = {"0[k0//" + std::to_string(n / 7 + 2) + "]"};
    if (std::string(kind) == "dot") sketch.x.push_back("0[k0//" + std::to_string(n / 5 + 2) + "]");
    if (std::string(kind) == "chain") sketch.init = "0x1p0";
    s.add(sketch);
    program = s.finish();
    static_cast<void>(w);
    const DType dtype = program.values[{}].dtype;
    line = *kernels::compile(program.values[kFold], {{dtype, {7}}});
    input = Tensor(dtype, {7});
    for (std::size_t i = 0; i < 7; ++i) {
      if (integers) input.as<std::int64_t>()[i] = static_cast<std::int64_t>(i * i) - 9;
      if (!integers) input.as<float>()[i] = 0.1F * static_cast<float>(i) - 0.3F;
    }
  }
  [[nodiscard]] kernels::ByValue<TensorView> views() const { return {input.view(), {}}; }
  [[nodiscard]] Number element() const { return *kernels::evaluate_element(line, views(), 0); }
  [[nodiscard]] FoldLevels levels() const { return {program.values[kFold], line.fold_count, element()}; }
  [[nodiscard]] FoldLevels::Show show() const {
    return [this](const FoldList& list) { return fold_numbers(line, views(), 0, list); };
  }
};

struct Form {
  const char* kind;
  const char* type;
  std::vector<std::string> steps;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> kForms{{"dot", "f32", {}},
                                        {"sum", "f32", {"mul x0 0x1.1p0"}},
                                        {"sum", "i64", {"add x0 k0"}},
                                        {"sum", "u8", {"abs x0"}},
                                        {"max", "f32", {"abs x0"}},
                                        {"max", "u8", {}},
                                        {"argmax", "i64", {"mul x0 x0"}},
                                        {"chain", "f32", {"mul acc 0x1.fp-1", "add t0 x0"}}};
  return kForms;
}

/// Descends into entry `which` of every list (−1: the last) and returns how many moves that took.
std::int64_t descend(const Fold& fold, std::int64_t which) {
  FoldLevels levels = fold.levels();
  for (std::int64_t moves = 1;; ++moves) {
    const auto numbers = levels.compose(fold.show());
    REQUIRE(numbers.ok());
    CHECK(numbers->size() <= (2048 + 1) * 8 * 2);
    const auto contradiction = levels.post(*numbers);
    REQUIRE(contradiction.ok());
    INFO((*contradiction ? (*contradiction)->words : ""));
    REQUIRE(!*contradiction);
    const std::int64_t count = std::ssize(levels.shown());
    REQUIRE(count >= 1);
    REQUIRE(count <= 2048);
    const std::int64_t entry = which < 0 ? count - 1 : std::min(which, count - 1);
    if (levels.at_position()) {
      const FoldLevels::Position position = levels.position(entry);
      REQUIRE(position.position < fold.line.fold_count);
      if (which < 0) CHECK(position.position == fold.line.fold_count - 1);
      // The entry follows from the one before it.
      FoldLevels::Position copy = position;
      struct Source final : kernels::ValueSource {
        explicit Source(const Fold& of) : fold(of) {}
        Number element(kernels::ValueIndex, std::int64_t index) override {
          const auto at = static_cast<std::size_t>(index);
          return fold.input.dtype() == DType::kF32 ? Number::of(fold.input.as<float>()[at])
                                                   : Number::of(fold.input.as<std::int64_t>()[at]);
        }
        const Fold& fold;
      } source(fold);
      const Running before = copy.before ? *copy.before : kernels::fold_start(fold.line, source, 0);
      const auto trace = kernels::trace_position(fold.line, source, 0, position.position, before);
      CHECK(trace.after.value == position.after.value);
      return moves;
    }
    levels.name(entry);
  }
}

}  // namespace

TEST_CASE("A fold narrows from its result to any position, at every edge of its blocks") {
  for (const std::int64_t n : {1, 2, 255, 256, 257, 2047, 2048, 2049, 4096, 4097, 8192, 100'000}) {
    for (const Form& form : forms()) {
      INFO(form.kind << " " << form.type << " of " << n);
      const Fold fold(form.kind, n, form.type, form.steps);
      for (const std::int64_t which : {0, 1, 31, 32, 255, 1000, -1}) CHECK(descend(fold, which) <= 3);
    }
  }
}

TEST_CASE("A sum of more than 2,048 times 2,048 items has three levels") {
  const Fold fold("sum", 2048 * 2048 + 1, "i64", {"add x0 k0"});
  CHECK(descend(fold, 0) == 3);
}

TEST_CASE("Lists have the lengths that the page says") {
  const auto first = [](const char* kind, std::int64_t n) {
    const char* type = std::string(kind) == "argmax" ? "i64" : "f32";
    const Fold fold(kind, std::min<std::int64_t>(n, 7), type, {});
    return FoldLevels(fold.program.values[kFold], n, Number::of(0.0F)).list();
  };
  CHECK(first("chain", 2048).stride == 1);
  CHECK(first("chain", 2049).stride == 2);
  CHECK(first("chain", 2049).count() == 1025);
  CHECK(first("argmax", 1024).stride == 1);
  CHECK(first("argmax", 1025).count() == 513);
  CHECK(first("max", std::int64_t{1} << 53).count() == 2048);
  CHECK(first("dot", 4096).count() == 1);
  CHECK(first("dot", 4097).count() == 2);
  CHECK(first("dot", std::int64_t{1} << 53).count() == 2048);
  CHECK(first("sum", std::int64_t{1} << 53).what == FoldList::What::kSum);
}

TEST_CASE("Running results of another length, end, NaN or recombination are told apart") {
  const Fold fold("dot", 600, "f32", {});
  Bytes numbers = *fold.levels().compose(fold.show());  // one total, three running groups
  REQUIRE(numbers.size() == 16);
  const auto post = [&](const Bytes& bytes) {
    FoldLevels levels = fold.levels();
    return levels.post(bytes);
  };
  CHECK(!*post(numbers));
  CHECK(!post(Bytes(numbers.begin(), numbers.end() - 1)).ok());
  Bytes longer = numbers;
  longer.resize(20);
  CHECK(!post(longer).ok());
  Bytes nan = numbers;
  std::memcpy(nan.data(), "\x01\x00\xC0\x7F", 4);
  CHECK(!post(nan).ok());
  Bytes end = numbers;
  end[0] ^= 1;
  REQUIRE(*post(end));
  CHECK(!(**post(end)).scalar);
  Bytes group = numbers;
  group[12] ^= 1;
  REQUIRE(*post(group));
  REQUIRE((**post(group)).scalar);
  CHECK((**post(group)).scalar->place == kernels::Place::kDotGroup);
  CHECK((**post(group)).position == 599);
  Bytes middle = numbers;
  middle[4] ^= 1;
  CHECK(!*post(middle));
}
