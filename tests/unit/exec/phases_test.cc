#include "rewrite/phases.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/program/ranks.h"
#include "stored_steps.h"

using namespace dgx;
using namespace dgx::exec;
using namespace dgx::test;
using kernels::ValueIndex;

namespace {

struct Divided {
  program::Program program;
  program::Classes classes;
  program::Piece local;
  std::vector<Phase> phases;
};

/// The phases of the first of two ranks.
Divided divided(const std::string& name) {
  const Stored stored(name);
  auto classes = program::classify(*stored.program, *program::batch_samples(*stored.program)).value();
  auto local = program::local_program(*stored.program, classes, {0, classes.slices / 2}, 0).value();
  const auto waits = program::waits_of(*stored.program, classes);
  auto phases = phases_of(local, waits, program::folds_behind_gathers(*stored.program, classes, waits));
  return {*stored.program, std::move(classes), std::move(local), std::move(phases)};
}

/// The lines that a phase makes, by their numbers in the local program.
std::vector<ValueIndex> made_in(const Phase& phase) {
  std::vector<ValueIndex> out;
  for (const ValueIndex line : phase.origin.indices()) {
    if (phase.piece.program.values[line].kind != kernels::Kind::kInput) out.push_back(phase.origin[line]);
  }
  return out;
}

std::int64_t terms_of(const program::Piece& local, ValueIndex line) {
  const kernels::Primitive& made = local.program.values[line];
  return element_count(made.shape).value() * element_count(made.fold).value();
}

}  // namespace

TEST_CASE("what a phase gives stands before its last folds, which have the terms of its largest") {
  for (const char* name : {"placement/resnet20", "placement/normed", "placement/clipped"}) {
    CAPTURE(name);
    const Divided step = divided(name);
    std::size_t all = 0, with_folds = 0;
    for (std::size_t n = 0; n < step.phases.size(); ++n) {
      CAPTURE(n);
      const auto lines = made_in(step.phases[n]);
      all += lines.size();
      const auto is_fold = [&](ValueIndex line) {
        const ValueIndex v = step.local.origins[line].value;
        return v != kernels::kNoValue && step.classes.of[v] == program::SampleClass::kCarried;
      };
      if (n + 1 == step.phases.size()) {
        CHECK(std::ranges::is_sorted(lines));
        continue;
      }
      std::int64_t largest = 0, behind = 0;
      for (const ValueIndex line : lines)
        if (is_fold(line)) largest = std::max(largest, terms_of(step.local, line));
      auto first = lines.end();
      while (behind < largest) {
        REQUIRE(first != lines.begin());
        REQUIRE(is_fold(*--first));
        behind += terms_of(step.local, *first);
      }
      with_folds += largest > 0 ? 1 : 0;
      CHECK(std::ranges::is_sorted(lines.begin(), first));
      CHECK(std::ranges::is_sorted(first, lines.end()));
    }
    const auto made = [&](const kernels::Primitive& line) { return line.kind != kernels::Kind::kInput; };
    CHECK(all == static_cast<std::size_t>(std::ranges::count_if(step.local.program.values, made)));
    if (name == std::string("placement/resnet20")) CHECK(with_folds == 19);
  }
}
