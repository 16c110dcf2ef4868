// A training step of whole models, exact against libtorch: same model, optimiser, threads and run, in turns, and the peak memory of
// each side in a process of its own.
//
//   step_bench [--json] [--isa NAME] [--case NAME] [--threads N] [--seconds S] [--scripts FOLDER]
//   step_bench --device MODULE [--json] [--case NAME]    on a GPU: MODULE is libdgx_cuda.so; exits 77, "skipped, no GPU", without one
//   step_bench --explain --case NAME        the exact side's plan
//   step_bench --profile --case NAME --threads N [--device MODULE]    what its operations take: milliseconds, GF/s, GB/s, how many, kind and form
//   step_bench --alone exact|eager|channels-last --case NAME --threads N    the bytes one side takes
//
// FOLDER holds TorchScript models (scripted.py).
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string_view>

#include "device_module.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "eager.h"
#include "exact.h"
#include "row.h"

namespace {

using namespace dgx;
using bench::Case;

// The steps of an MLP before subnormal numbers: after some 730 steps the momentum of units that never fire is subnormal, which costs a processor
// a hundred cycles a vector.
constexpr int kStepsBeforeSubnormals = 700;

struct Options {
  bool json = false, explain = false, profile = false;
  std::string isa, only, scripts, alone, module;
  int threads = 0;  // 0: one and two
  double seconds = 6;
  const char* self = "";
};

std::vector<Case> cases(const std::string& scripts) {
  std::vector<Case> all = {
      {"mlp-sgd", "mlp:784-256-128-10", "sgd:lr=0.1,momentum=0.9", 128, {784}},
      {"mlp-adam", "mlp:784-256-128-10", "adam:lr=1e-3", 128, {784}},
      {"resnet20-batch-32", "resnet20:classes=10", "sgd:lr=0.1,momentum=0.9", 32, {28, 28}},
      {"resnet20-batch-128", "resnet20:classes=10", "sgd:lr=0.1,momentum=0.9", 128, {28, 28}},
      {"gpt-6x384", "gpt:layers=6,width=384,heads=6,context=256,vocab=256", "adamw:lr=3e-4", 8, {256}, true}};
  if (scripts.empty()) return all;
  all.push_back({"script-llama", scripts + "/llama.pt", "adamw:lr=3e-4", 8, {128}, true});
  all.push_back({"script-vision-transformer", scripts + "/vision_transformer.pt", "adam:lr=1e-3", 64, {28, 28}});
  all.push_back({"script-recurrence-2000", scripts + "/recurrence.pt", "sgd:lr=1e-2", 32, {256, 16}});
  return all;
}

/// The default task's network, that of the CPU's ResNet rows, and GPTs with 2,048 and 16,384 tokens.
std::vector<Case> device_cases() {
  std::vector<Case> all;
  for (const Case& of : cases("")) {
    if (of.name != "resnet20-batch-32") all.push_back(of);
  }
  all.push_back(all.back());
  all.back().batch = 64;
  all.back().name += "-batch-64";
  return all;
}

bench::EagerCase eager_case(const Case& of, bool channels_last, bool on_gpu = false) {
  return {of.model, of.optimizer, of.batch, of.sample, of.tokens, channels_last, on_gpu};
}

std::unique_ptr<kernels::cuda::Device> open_device(const std::string& module) {
  auto device = test::open_device(module);
  if (device.ok()) return std::move(device).value();
  std::fprintf(stderr, "skipped, no GPU: %s\n", device.error().message.c_str());
  std::exit(77);
}

/// A number of /proc/self/status, in bytes.
long long status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

/// The memory that `side` takes beyond the libraries and the program text: the highest of three steps.
long long peak_of(const Case& of, const std::string& side, int threads) {
  bench::set_libtorch_threads(threads);
  std::unique_ptr<bench::Exact> exact;
  if (side == "exact") exact = std::make_unique<bench::Exact>(of);
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5\n";
  const long long before = status_bytes("VmRSS");
  std::function<void()> step;
  if (exact != nullptr) {
    exact->start(threads);
    step = [&] { exact->step(); };
  } else {
    step = bench::eager_step(eager_case(of, side == "channels-last"));
  }
  for (int n = 0; n < 3; ++n) step();
  return status_bytes("VmHWM") - before;
}

std::optional<long long> peak_alone(const Options& options, const Case& of, const std::string& side, int threads) {
  std::string command = std::string(options.self) + " --alone " + side + " --case " + of.name + " --threads " + std::to_string(threads);
  if (!options.isa.empty()) command += " --isa " + options.isa;
  if (!options.scripts.empty()) command += " --scripts '" + options.scripts + "'";
  FILE* const child = popen(command.c_str(), "r");
  long long bytes = 0;
  const bool told = child != nullptr && std::fscanf(child, "%lld", &bytes) == 1;
  return child != nullptr && pclose(child) == 0 && told ? std::optional(bytes) : std::nullopt;
}

void measure(const Options& options, const Case& of, int threads) {
  bench::set_libtorch_threads(threads);
  bench::Exact exact(of);
  exact.start(threads);
  const bool script = of.model.ends_with(".pt");
  std::vector<bench::Side> sides = {{"exact", [&] { exact.step(); }},
                                    {"eager", bench::eager_step(eager_case(of, false))}};
  if (of.model.starts_with("resnet")) sides.push_back({"channels-last", bench::eager_step(eager_case(of, true))});
  bench::Effort effort{options.seconds, 5, threads};
  if (of.model.starts_with("mlp")) effort.most_runs = kStepsBeforeSubnormals;
  measure_in_turns(sides, effort);
  const auto ours = peak_alone(options, of, "exact", threads);
  for (std::size_t s = 1; s < sides.size(); ++s) {
    const std::string form = s == 2 ? ", channels last" : script ? ", TorchScript" : ", eager";
    bench::Row row{"step-" + of.name + (options.isa.empty() ? "" : "-" + options.isa), threads, "ms"};
    row.dgx = bench::median(sides[0].seconds) * 1e3;
    row.dgx_spread = bench::spread(sides[0].seconds);
    row.peer_name = bench::libtorch_name() + form;
    row.peer = bench::median(sides[s].seconds) * 1e3;
    row.peer_spread = bench::spread(sides[s].seconds);
    row.dgx_bytes = ours;
    row.peer_bytes = peak_alone(options, of, sides[s].name, threads);
    bench::print(row, options.json);
  }
}

void measure_on_device(const Options& options, const Case& of) {
  bench::Exact exact(of);
  exact.start(open_device(options.module));
  std::vector<bench::Side> sides = {{"exact", [&] { exact.step(); }}};
  if (bench::libtorch_has_gpu()) {
    sides.push_back({bench::libtorch_name() + " on the GPU, eager", bench::eager_step(eager_case(of, false, true))});
    if (of.model.starts_with("resnet")) sides.push_back({sides.back().name + ", channels last", bench::eager_step(eager_case(of, true, true))});
  }
  bench::Effort effort{options.seconds, 5, 1};
  if (of.model.starts_with("mlp")) effort.most_runs = kStepsBeforeSubnormals;
  measure_in_turns(sides, effort);
  print_rows("gpu-step-" + of.name, sides, 1, "ms", 1e3, 0, options.json);
}

/// Operations of one kind and form together, those that take longest first.
void print_profile(const Options& options, const Case& of, double budget) {
  bench::Exact exact(of);
  if (options.module.empty()) {
    exact.start(std::max(options.threads, 1));
  } else {
    exact.start(open_device(options.module));
  }
  exact.step();
  exact.start_profile();
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(budget);
  double fastest = 1e9;
  for (auto begin = Clock::now(); begin < end;) {
    exact.step();
    const auto now = Clock::now();
    fastest = std::min(fastest, std::chrono::duration<double>(now - begin).count());
    begin = now;
  }
  const exec::StepProfile profile = exact.executor().profile();
  std::map<std::pair<std::string, std::string>, std::pair<int, exec::OperationProfile>> forms;
  for (const auto& operation : profile.operations) {
    auto& [count, sum] = forms[{operation.kind, operation.form}];
    ++count;
    sum.seconds += operation.seconds;
    sum.arithmetic += operation.arithmetic;
    sum.bytes += operation.bytes;
  }
  using Form = std::pair<std::pair<std::string, std::string>, std::pair<int, exec::OperationProfile>>;
  std::vector<Form> sorted(forms.begin(), forms.end());
  std::sort(sorted.begin(), sorted.end(), [](const Form& a, const Form& b) { return a.second.second.seconds > b.second.second.seconds; });
  const auto steps = static_cast<double>(profile.steps);
  std::printf("%s: %.3f ms a step, the fastest %.3f\n", of.name.c_str(), profile.seconds / steps * 1e3, fastest * 1e3);
  for (const auto& [form, of_form] : sorted) {
    const auto& [count, sum] = of_form;
    const double seconds = sum.seconds / steps;
    std::printf("%9.3f ms %5.1f %% %8.1f GF/s %7.1f GB/s %3d %s: %s\n", seconds * 1e3, sum.seconds / profile.seconds * 100,
                sum.arithmetic / seconds * 1e-9, sum.bytes / seconds * 1e-9, count, form.first.c_str(), form.second.c_str());
  }
}

Options parse(int argc, char** argv) {
  Options options;
  options.self = argv[0];
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    const auto value = [&]() -> const char* { return n + 1 < argc ? argv[++n] : ""; };
    if (word == "--json") options.json = true;
    else if (word == "--explain") options.explain = true;
    else if (word == "--profile") options.profile = true;
    else if (word == "--isa") options.isa = value();
    else if (word == "--case") options.only = value();
    else if (word == "--scripts") options.scripts = value();
    else if (word == "--alone") options.alone = value();
    else if (word == "--device") options.module = value();
    else if (word == "--threads") options.threads = std::atoi(value());
    else if (word == "--seconds") options.seconds = std::atof(value());
    else {
      std::fprintf(stderr, "step_bench: no option %s\n", argv[n]);
      std::exit(2);
    }
  }
  return options;
}

void force(const std::string& isa) {
  for (const auto set : kernels::cpu::available_instruction_sets()) {
    if (name_of(set) == isa && kernels::cpu::force_instruction_set(set).ok()) return;
  }
  std::fprintf(stderr, "step_bench: this processor has no %s\n", isa.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.isa.empty()) force(options.isa);
  bool found = false;
  for (const Case& of : options.module.empty() ? cases(options.scripts) : device_cases()) {
    if (!options.only.empty() && options.only != of.name) continue;
    found = true;
    if (options.explain) {
      bench::Exact exact(of);
      exact.start(std::max(options.threads, 1));
      std::fputs(exact.executor().explain().c_str(), stdout);
    } else if (options.profile) {
      print_profile(options, of, options.seconds);
    } else if (!options.alone.empty()) {
      std::printf("%lld\n", peak_of(of, options.alone, std::max(options.threads, 1)));
    } else if (!options.module.empty()) {
      measure_on_device(options, of);
    } else {
      for (const int threads : {1, 2}) {
        if (options.threads == 0 || options.threads == threads) measure(options, of, threads);
      }
    }
  }
  if (found) return 0;
  std::fprintf(stderr, "step_bench: no case %s\n", options.only.c_str());
  return 2;
}
