// Plans of many ranks, as they are foretold: nothing is measured but how long planning takes.
//
//   plans_bench PROGRAM.jsonl SLICES SHARE NAME [--json]
//
// NAME stands in the rows. PROGRAM is a step of SHARE ranks, whose batch has SLICES slices (samples or
// workers). It is widened: each rank keeps its work, and a batch has as much more as there are more ranks.
// Prints the efficiency of 2 to 4,096 ranks, a rank's step alone by the step of all, on two networks; and a
// step of 64 machines in eight cities, beside random orders, the order of cities, and one data centre. Delays
// and bandwidths between cities are those that Yuan et al., "Decentralized Training of Foundation Models in
// Heterogeneous Environments" (2022), measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/placement/plan.h"
#include "dgx/program/check.h"
#include "row.h"

namespace {

using namespace dgx;
using placement::StepWork;

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  fmt::print(stderr, "plans_bench: {}\n", result.error().message);
  std::exit(1);
}

/// The work of a batch that is `factor` times as large.
StepWork widened(StepWork work, std::int64_t factor) {
  const auto times = static_cast<double>(factor);
  work.slices *= factor;
  for (StepWork::Phase& phase : work.phases) {
    for (placement::Stretch& stretch : phase.stretches) {
      stretch.of_slices *= times;
      if (stretch.carry && stretch.carry->positions) *stretch.carry->positions *= factor;
    }
    for (std::int64_t& bytes : phase.gathered) bytes *= factor;
  }
  for (std::int64_t& bytes : work.tail_gathered) bytes *= factor;
  return work;
}

double seconds_of(const StepWork& work, std::size_t ranks, std::int64_t rate, const exchange::Link& link) {
  std::vector<std::int64_t> bounds, rates(ranks, rate);
  for (std::size_t r = 0; r <= ranks; ++r)
    bounds.push_back(work.slices / static_cast<std::int64_t>(ranks) * static_cast<std::int64_t>(r));
  const exchange::Network network{static_cast<int>(ranks), std::vector<exchange::Link>(ranks * ranks, link)};
  return placement::forecast(work, bounds, rates, network).seconds;
}

void tell(const std::string& name, const std::string& unit, double dgx, double peer,
          const std::string& peer_name, bool json) {
  bench::Row row;
  row.name = name;
  row.unit = unit;
  row.dgx = dgx;
  row.peer = peer;
  row.peer_name = peer_name;
  bench::print(row, json);
}

constexpr std::int64_t kRate = 80'000'000'000;  // weighted operations a second: two cores of a server

void scaling(const StepWork& step, std::int64_t share, const std::string& of, bool json) {
  for (const auto& [name, link] : {std::pair("10g-50us", exchange::Link{50, 10'000'000'000}),
                                   {"1g-10ms", exchange::Link{10'000, 1'000'000'000}}}) {
    const double alone = seconds_of(widened(step, 1), static_cast<std::size_t>(share), kRate, {0, 0});
    for (std::size_t ranks = 2; ranks <= 4096; ranks *= 2) {
      const StepWork work = widened(step, static_cast<std::int64_t>(ranks) / share);
      tell(fmt::format("foretold-{}-{}-ranks-{}", of, name, ranks), "s/step",
           seconds_of(work, ranks, kRate, link), alone, "a rank alone", json);
    }
  }
}

struct Between {
  std::size_t a, b;
  std::int64_t milliseconds, megabits;
};
constexpr std::array kCities = {"Oregon", "Virginia", "Ohio",      "Tokyo",
                                "Seoul",  "London",   "Frankfurt", "Ireland"};
constexpr std::array<Between, 28> kBetween = {
    {{0, 1, 67, 790},  {0, 2, 49, 1100}, {0, 3, 96, 523},  {0, 4, 124, 460}, {0, 5, 136, 420},
     {0, 6, 143, 404}, {0, 7, 124, 482}, {1, 2, 11, 1120}, {1, 3, 143, 524}, {1, 4, 172, 500},
     {1, 5, 76, 1160}, {1, 6, 90, 1020}, {1, 7, 67, 1050}, {2, 3, 130, 694}, {2, 4, 159, 529},
     {2, 5, 86, 1050}, {2, 6, 99, 799},  {2, 7, 77, 1140}, {3, 4, 34, 1100}, {3, 5, 210, 366},
     {3, 6, 223, 360}, {3, 7, 199, 465}, {4, 5, 238, 342}, {4, 6, 235, 358}, {4, 7, 228, 335},
     {5, 6, 14, 1140}, {5, 7, 12, 1090}, {6, 7, 24, 1080}}};

placement::Machines in_cities(std::size_t each) {
  placement::Machines out;
  for (std::size_t n = 0; n < kCities.size() * each; ++n)
    out.machines.push_back({fmt::format("m{}", n), kCities[n / each], kRate, std::int64_t{1} << 40});
  for (const char* const city : kCities) out.connections.push_back({city, city, {10'000, 2'000'000'000}});
  for (const Between& two : kBetween)
    out.connections.push_back(
        {kCities[two.a], kCities[two.b], {two.milliseconds * 1000, two.megabits * 1'000'000}});
  return out;
}

void worldwide(const StepWork& step, std::int64_t share, const std::string& of, bool json) {
  constexpr std::size_t kRanks = 64;
  const StepWork work = widened(step, static_cast<std::int64_t>(kRanks) / share);
  const auto begin = std::chrono::steady_clock::now();
  const placement::WorkOn on_any = [&work](std::size_t) -> Result<StepWork> { return work; };
  const placement::Choice choice =
      must(placement::choose_plan(in_cities(kRanks / kCities.size()), on_any, {kRanks, 1}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const placement::Plan::Predicted& told = choice.plan.predicted;
  const auto seconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  const double near = seconds_of(work, kRanks, kRate, {100, 3'125'000'000});
  for (const auto& [peer_name, peer] : {std::pair("random orders, the mean", seconds(told.random)),
                                        {"the order of cities", seconds(told.by_region)},
                                        {"one data centre", near}})
    tell(fmt::format("foretold-{}-64-in-eight-cities", of), "s/step", seconds(told.plan), peer, peer_name,
         json);
  tell(fmt::format("planning-{}-64", of), "s", took.count(), 0, "", json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = std::erase(words, "--json") > 0;
  if (words.size() != 4) {
    fmt::print(stderr, "usage: plans_bench PROGRAM.jsonl SLICES SHARE NAME [--json]\n");
    return 2;
  }
  const std::int64_t slices = std::stoll(words[1]), share = std::stoll(words[2]);
  const std::string text = must(read_file(words[0], program::kMaxProgramBytes));
  const program::Program program = must(program::parse_program(text));
  const StepWork step = must(placement::work_of(program, must(program::classify(program, slices))));
  scaling(step, share, words[3], json);
  worldwide(step, share, words[3], json);
  return 0;
}
