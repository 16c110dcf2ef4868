// The configuration matrix (dgx-numerics(7), "Checks"): see usage().

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <string_view>

#include "dgx/core/files.h"
#include "dgx/core/json.h"
#include "dgx/program/check.h"
#include "families.h"
#include "run.h"

namespace dgx::matrix {
namespace {

constexpr std::uint64_t kStoredSeed = 1;
constexpr std::int64_t kWalkWork = 3'000'000;

struct Options {
  std::string vectors;
  bool accept = false;
  std::optional<std::uint64_t> seed;
  std::int64_t count = 120;
  std::int64_t every = 1;
  double minutes = 0;
  std::string only;
  std::string print;
  std::string device;
  std::int64_t work = std::numeric_limits<std::int64_t>::max();
};

int usage() {
  fmt::print(
      stderr,
      "usage: matrix_test [--vectors FILE [--accept]] [--seed S] [--count N | --minutes M] [--only "
      "TEXT] [--print CASE] [--device MODULE] [--work N] [--every N]\n"
      "  --vectors FILE  runs every enumerated case with the stored seed: its digest by kernels/ref "
      "is the one in FILE, and every\n"
      "                  instruction set, 1, 2 and 3 threads, fused and not, gives the same bits\n"
      "  --accept        writes FILE anew, by kernels/ref alone\n"
      "  --seed S        of the drawn cases (default: a fresh one, printed)\n"
      "  --count N       how many are drawn; --minutes M: as many as time allows\n"
      "  --only TEXT     only cases whose name contains TEXT\n"
      "  --print CASE    prints the program of an enumerated case\n"
      "  --device MODULE steps run on that module's device (libdgx_cuda.so) and nowhere else; exits 77 "
      "(skipped) where it lacks what it needs\n"
      "  --work N        only cases of at most so many scalar operations or so\n"
      "  --every N       of the enumerated cases one in N, another one every day\n");
  return 2;
}

std::vector<Case> enumerated() {
  std::vector<Case> cases;
  for (auto* family :
       {scalar_cases, access_cases, fold_cases, chain_cases, product_cases, window_cases, group_cases}) {
    for (Case& c : family()) cases.push_back(std::move(c));
  }
  return cases;
}

Result<std::map<std::string, std::string>> read_vectors(const std::string& path) {
  DGX_TRY(const auto content, read_file(path, 1 << 22));
  DGX_TRY(const auto parsed, json::parse(content));
  std::map<std::string, std::string> digests;
  if (parsed.as_object() == nullptr) return malformed(path + ": is not an object");
  for (const auto& [name, value] : *parsed.as_object()) {
    if (value.as_string() == nullptr) return malformed(path + ": " + name + " is no string");
    digests[name] = *value.as_string();
  }
  return digests;
}

class Matrix {
 public:
  explicit Matrix(const Options& options) : options_(options), configurations_(configurations_of(options)) {}

  int run() {
    std::string sets;
    for (const Configuration& configuration : configurations_) {
      if (configuration.threads == 1) sets += " " + std::string(name_of(configuration.set));
    }
    fmt::print("instruction sets:{}; threads: 1 2 3\n", sets);
    if (!options_.vectors.empty() && !enumerate()) return 1;
    if (!options_.accept) walk();
    fmt::print("{} cases, {} configurations, {} steps in parts, {} on ranks, {} wrong\n", cases_,
               configurations_.size(), counts_.in_turn, counts_.on_ranks, wrong_);
    fmt::print("cases: {} run, 0 skipped\n", cases_);
    const bool some_cut =
        (counts_.in_turn > 0 && counts_.on_ranks > 0) || !options_.device.empty() || !options_.only.empty();
    if (!some_cut) fmt::print("WRONG no step was made in parts, or none on ranks\n");
    return wrong_ == 0 && some_cut ? 0 : 1;
  }

 private:
  static std::vector<Configuration> configurations_of(const Options& options) {
    std::vector<Configuration> all = all_configurations();
    if (options.device.empty()) return all;
    all.erase(all.begin() + 1, all.end());
    all[0].device = options.device;
    return all;
  }

  [[nodiscard]] bool small_enough(const Case& c) const {
    const auto program = program_of(c, {false, true, false});
    return program.ok() && work_of(**program) <= options_.work;
  }

  [[nodiscard]] bool comes_up(std::size_t number) const {
    const std::int64_t days =
        std::chrono::duration_cast<std::chrono::hours>(std::chrono::system_clock::now().time_since_epoch())
            .count() /
        24;
    return (static_cast<std::int64_t>(number) + days) % options_.every == 0;
  }

  [[nodiscard]] bool chosen(const Case& c) const {
    return options_.only.empty() || c.name.find(options_.only) != std::string::npos;
  }

  void complain(const std::string& text) {
    ++wrong_;
    fmt::print("WRONG {}\n", text);
    std::fflush(stdout);
  }

  void check(const Case& c, std::uint64_t seed, const Reference& reference) {
    ++cases_;
    for (const Configuration& configuration : configurations_) {
      const std::string text = differences(c, seed, reference, configuration, counts_);
      if (!text.empty()) return complain(text);
    }
  }

  bool enumerate() {
    std::map<std::string, std::string> stored, made;
    if (!options_.accept) {
      auto read = read_vectors(options_.vectors);
      if (!read.ok()) {
        fmt::print(stderr, "matrix_test: {}\n", read.error().message);
        return false;
      }
      stored = std::move(read).value();
    }
    for (const Case& c : enumerated()) {
      if (!chosen(c)) continue;
      const auto reference = reference_of(c, kStoredSeed);
      if (!reference.ok()) {
        complain(c.name + ": " + reference.error().message);
        continue;
      }
      if (!made.emplace(c.name, reference->digest).second) complain(c.name + ": a second case of this name");
      if (options_.accept || !small_enough(c) || !comes_up(made.size())) continue;
      const auto found = stored.find(c.name);
      if (found == stored.end() || found->second != reference->digest) {
        complain(fmt::format("{}: seed {}: kernels/ref gives {}, stored is {}", c.name, kStoredSeed,
                             reference->digest, found == stored.end() ? "nothing" : found->second));
      }
      check(c, kStoredSeed, *reference);
    }
    if (options_.accept) return write(made);
    if (options_.only.empty() && made.size() != stored.size())
      complain("the stored digests name cases that are no more");
    return true;
  }

  bool write(const std::map<std::string, std::string>& digests) const {
    std::string text;
    for (const auto& [name, digest] : digests)
      text += fmt::format("{}\"{}\": \"{}\"", text.empty() ? "{\n" : ",\n", name, digest);
    text += "\n}\n";
    const Status status = write_file(options_.vectors, text, Clobber::kReplace);
    if (!status.ok()) fmt::print(stderr, "matrix_test: {}\n", status.error().message);
    fmt::print("{} digests\n", digests.size());
    return status.ok();
  }

  /// Runs random cases, each with its own seed derived from the run's.
  void walk() {
    const std::uint64_t seed =
        options_.seed ? *options_.seed
                      : std::random_device{}() * std::uint64_t{0x100000001} ^ std::random_device{}();
    fmt::print("drawn cases: --seed {}\n", seed);
    std::fflush(stdout);
    const auto start = std::chrono::steady_clock::now();
    const auto goes_on = [&](std::int64_t n) {
      if (options_.minutes == 0) return n < options_.count;
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
             options_.minutes * 60;
    };
    Random seeds(seed);
    for (std::int64_t n = 0; goes_on(n); ++n) {
      Random random(seeds.next());
      Case c = random_case(random, kWalkWork);
      const std::uint64_t numbers = random.next();
      c.name = fmt::format("draw {} of {}: {}", n, seed, c.name);
      const auto program = program_of(c, {false, true, false});
      if (!program.ok()) {
        complain(c.name + ": " + program.error().message);
        continue;
      }
      if (!chosen(c) || work_of(**program) > std::min(kWalkWork, options_.work) ||
          !program::check_program(**program).ok())
        continue;
      const auto reference = reference_of(c, numbers);
      if (reference.ok()) {
        check(c, numbers, *reference);
      } else {
        complain(c.name + ": " + reference.error().message);
      }
    }
  }

  const Options& options_;
  const std::vector<Configuration> configurations_;
  std::int64_t cases_ = 0, wrong_ = 0;
  Counts counts_;
};

int print_case(const std::string& name) {
  for (const Case& c : enumerated()) {
    if (c.name != name) continue;
    const auto program = program_of(c, {false, true, false});
    if (program.ok()) fmt::print("{}", program::print_program(**program));
    return program.ok() ? 0 : 1;
  }
  fmt::print(stderr, "matrix_test: no case {}\n", name);
  return 2;
}

template <class T>
bool number(std::string_view text, T& to) {
  return std::from_chars(text.data(), text.data() + text.size(), to).ec == std::errc{};
}

int run(int argc, char** argv) {
  Options options;
  for (int n = 1; n < argc; ++n) {
    const std::string_view name = argv[n];
    if (name == "--accept") {
      options.accept = true;
      continue;
    }
    if (n + 1 == argc) return usage();
    const std::string_view value = argv[++n];
    std::uint64_t seed = 0;
    bool fits = true;
    if (name == "--vectors") {
      options.vectors = value;
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--device") {
      options.device = value;
    } else if (name == "--work") {
      fits = number(value, options.work);
    } else if (name == "--every") {
      fits = number(value, options.every) && options.every > 0;
    } else if (name == "--print") {
      options.print = value;
    } else if (name == "--seed") {
      fits = number(value, seed);
      options.seed = seed;
    } else if (name == "--count") {
      fits = number(value, options.count);
    } else if (name == "--minutes") {
      fits = number(value, options.minutes);
    } else {
      return usage();
    }
    if (!fits) return usage();
  }
  if (!options.print.empty()) return print_case(options.print);
  return Matrix(options).run();
}

}  // namespace
}  // namespace dgx::matrix

int main(int argc, char** argv) { return dgx::matrix::run(argc, argv); }
