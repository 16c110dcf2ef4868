// Numbers that the workers of dgc send, coded (dgx-placement(7), "CODINGS"), beside their gradients as they
// lie in memory, in steps after the warm-up of built-in models, and in a whole run that is twelve times as
// long as its warm-up; and what a step takes beside one of SGD.
//
//   dgc_bench [--data FOLDER] [--case NAME] [--warmup STEPS] [--steps N] [--threads N]
//
// The folder holds images and labels, 28×28 and one byte a sample; without it the numbers are generated.
// Prints rows "name unit value".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "dgx/exchange/coding.h"
#include "exact.h"

namespace {

using namespace dgx;
using kernels::ValueIndex;

constexpr std::int64_t kWorkers = 4;
constexpr double kRunOfWarmups = 12;  // a whole run: twelve epochs, of which the first is the warm-up

struct Options {
  std::string data, only;
  int warmup = 40, steps = 5, threads = 2;
};

struct Model {
  const char* name;
  const char* model;
  std::int64_t batch;
  Shape sample;
  bool tokens = false;
};

/// The values that hold what workers send, each with its parameter, by the value's number: the entry becomes
/// v' - s.
std::map<ValueIndex, std::string> sent_values(const program::Program& program) {
  std::map<ValueIndex, std::string> out;
  for (const ValueIndex v : program.values.indices()) {
    const kernels::Primitive& entry = program.values[v];
    constexpr std::string_view kResidual = "optimizer/residual/";
    if (entry.kind != kernels::Kind::kInput || !entry.source.name.starts_with(kResidual)) continue;
    out[program.values[*entry.next].accesses.at(1).value] = entry.source.name.substr(kResidual.size());
  }
  return out;
}

/// Sums over parameters, workers and steps.
struct Counted {
  double raw_bytes = 0, coded_bytes = 0, numbers = 0, sent = 0;
};

void count(const TensorView& rows, Counted& out) {
  const auto values = rows.as<float>();
  const std::size_t each = values.size() / static_cast<std::size_t>(kWorkers);
  for (std::size_t begin = 0; begin < values.size(); begin += each) {
    const auto row = values.subspan(begin, each);
    out.coded_bytes += static_cast<double>(exchange::encode_sparse(row).size());
    out.raw_bytes += static_cast<double>(row.size_bytes());
    for (const float value : row) out.sent += value != 0 ? 1 : 0;
  }
  out.numbers += static_cast<double>(values.size());
}

/// Makes steps, and counts what the workers send in them.
Counted counted_steps(bench::Exact& exact, int steps) {
  const auto sent = sent_values(exact.program());
  Counted out;
  for (int n = 0; n < steps; ++n) {
    exact.trace([&](ValueIndex value, const TensorView& numbers) -> Status {
      if (sent.contains(value)) count(numbers, out);
      return {};
    });
  }
  return out;
}

bench::Case case_of(const Model& model, const std::string& optimizer, const bench::Samples& data) {
  bench::Case out{model.name, model.model, optimizer, model.batch, model.sample, model.tokens};
  if (!model.tokens && !data.y.empty()) out.data = &data;
  out.workers = kWorkers;
  return out;
}

double seconds_of_steps(bench::Exact& exact, int steps) {
  const auto start = std::chrono::steady_clock::now();
  for (int n = 0; n < steps; ++n) exact.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
}

void measure(const Model& model, const Options& options, const bench::Samples& data) {
  for (const char* more : {"", ",bits=8"}) {
    bench::Exact exact(
        case_of(model, "dgc:lr=0.05,density=0.001,warmup=" + std::to_string(options.warmup) + more, data));
    exact.start(options.threads);
    const Counted early = counted_steps(exact, options.warmup);
    const double seconds = seconds_of_steps(exact, options.steps);
    const Counted total = counted_steps(exact, options.steps);
    const double warmups = options.warmup * (kRunOfWarmups - 1) / options.steps;  // of steps like these
    const double whole =
        (early.raw_bytes + warmups * total.raw_bytes) / (early.coded_bytes + warmups * total.coded_bytes);
    const auto print = [&](const char* what, const char* unit, double value) {
      std::printf("%s%s-%s %s %.5g\n", model.name, more[0] == 0 ? "" : "-bits-8", what, unit, value);
      std::fflush(stdout);
    };
    print("raw", "bytes", total.raw_bytes / options.steps / kWorkers);
    print("coded", "bytes", total.coded_bytes / options.steps / kWorkers);
    print("fewer", "times", total.raw_bytes / total.coded_bytes);
    print("fewer-in-whole-run", "times", whole);
    print("sent", "of-density", total.sent / total.numbers / 0.001);
    print("step", "ms", 1000 * seconds);
  }
  bench::Exact dense(case_of(model, "sgd:lr=0.05,momentum=0.9", data));
  dense.start(options.threads);
  dense.step();
  std::printf("%s-sgd-step ms %.5g\n", model.name, 1000 * seconds_of_steps(dense, options.steps));
}

std::vector<std::uint8_t> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int n = 1; n + 1 < argc; n += 2) {
    const std::string_view name = argv[n];
    if (name == "--data") options.data = argv[n + 1];
    if (name == "--case") options.only = argv[n + 1];
    if (name == "--warmup") options.warmup = std::atoi(argv[n + 1]);
    if (name == "--steps") options.steps = std::max(1, std::atoi(argv[n + 1]));
    if (name == "--threads") options.threads = std::atoi(argv[n + 1]);
  }
  bench::Samples data;
  if (!options.data.empty()) data = {read(options.data + "/images"), read(options.data + "/labels")};
  for (const Model& model :
       {Model{"mlp", "mlp:784-256-128-10", 128, {784}},
        Model{"resnet20", "resnet20:classes=10", 32, {28, 28}},
        Model{"gpt", "gpt:layers=6,width=384,heads=6,context=256,vocab=256", 8, {256}, true}}) {
    if (options.only.empty() || options.only == model.name) measure(model, options, data);
  }
}
