// A training step of whole models, exact against libtorch: same model, optimiser, threads and run, in turns,
// and the peak memory of each side in a process of its own.
//
//   step_bench [--json] [--isa NAME] [--case NAME] [--threads N] [--seconds S] [--scripts FOLDER]
//              [--data FOLDER] [--compiled COMMAND]
//   step_bench --device MODULE [--json] [--case NAME] [--seconds S] [--scripts FOLDER] [--compiled COMMAND]
//              on a GPU: MODULE is libdgx_cuda.so; exits 77 without one. libtorch_cuda.so is looked for
//              beside libtorch and in LD_LIBRARY_PATH
//   step_bench --explain --case NAME
//              the exact side's plan
//   step_bench --profile --case NAME --threads N [--device MODULE]
//              operations: ms, GF/s, GB/s, count, kind and form
//   step_bench --alone exact|eager|channels-last --case NAME --threads N
//              the bytes that one side takes
//   step_bench --serve eager|channels-last --case NAME --threads N [--device MODULE]
//              a peer's process (peer.h)
//
// The folders hold TorchScript models (scripted.py), and images and labels, 28×28 and one byte a sample;
// without them the cases that need them are skipped by name. COMMAND starts compiled.py, the torch.compile
// peer. A peer is the fastest of its process with as many threads as we have and with one, with the default
// allocator, with huge pages, and with jemalloc if it is installed.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string_view>

#include "device_module.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "eager.h"
#include "exact.h"
#include "machine.h"
#include "peer.h"
#include "roof.h"
#include "row.h"

namespace {

using namespace dgx;
using bench::Case;

struct Options {
  bool json = false, explain = false, profile = false;
  std::string isa, only, scripts, data, compiled, alone, serve, module;
  int threads = 0;  // 0: both one and two
  double seconds = 6;
  const char* self = "";
};

/// The bytes of a file; empty if it does not exist.
std::vector<std::uint8_t> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The images and labels of --data, shared by all cases.
const bench::Samples* samples_of(const Options& options) {
  static bench::Samples samples;
  if (options.data.empty()) return nullptr;
  if (samples.x.empty()) samples = {read(options.data + "/images"), read(options.data + "/labels")};
  return samples.y.empty() ? nullptr : &samples;
}

std::vector<Case> cases(const std::string& scripts) {
  // On Fashion-MNIST the MLP's rates here leave none, or 24, of its 384 units dead; 0.1 and 1e-3 leave 21 and
  // 53, whose terms are zero.
  std::vector<Case> all = {
      {"mlp-sgd", "mlp:784-256-128-10", "sgd:lr=0.01,momentum=0.9", 128, {784}},
      {"mlp-adam", "mlp:784-256-128-10", "adam:lr=3e-4", 128, {784}},
      {"resnet20-batch-32", "resnet20:classes=10", "sgd:lr=0.1,momentum=0.9", 32, {28, 28}},
      {"resnet20-batch-128", "resnet20:classes=10", "sgd:lr=0.1,momentum=0.9", 128, {28, 28}},
      {"gpt-6x384", "gpt:layers=6,width=384,heads=6,context=256,vocab=256", "adamw:lr=3e-4", 8, {256}, true}};
  if (scripts.empty()) return all;
  all.push_back({"script-llama", scripts + "/llama.pt", "adamw:lr=3e-4", 8, {128}, true});
  all.push_back(
      {"script-vision-transformer", scripts + "/vision_transformer.pt", "adam:lr=1e-3", 64, {28, 28}});
  all.push_back({"script-recurrence-2000", scripts + "/recurrence.pt", "sgd:lr=1e-2", 32, {256, 16}});
  return all;
}

/// The default task's network, the network of the CPU's ResNet rows, GPTs with 2,048 and 16,384 tokens and
/// one of twice the width and depth with 4,096; of the scripted models those that create nothing on the CPU.
std::vector<Case> device_cases(const std::string& scripts) {
  std::vector<Case> all;
  for (const Case& of : cases("")) {
    if (of.name != "resnet20-batch-32") all.push_back(of);
  }
  all.push_back(all.back());
  all.back().batch = 64;
  all.back().name += "-batch-64";
  all.push_back({"gpt-12x768-batch-16",
                 "gpt:layers=12,width=768,heads=12,context=256,vocab=256",
                 "adamw:lr=3e-4",
                 16,
                 {256},
                 true});
  if (scripts.empty()) return all;
  all.push_back(
      {"script-vision-transformer", scripts + "/vision_transformer.pt", "adam:lr=1e-3", 64, {28, 28}});
  all.push_back({"script-depthwise", scripts + "/depthwise.pt", "sgd:lr=0.1,momentum=0.9", 128, {28, 28}});
  return all;
}

bench::EagerCase eager_case(const Case& of, bool channels_last, bool on_gpu = false) {
  bench::EagerCase out{of.model, of.optimizer, of.batch, of.sample, of.tokens, channels_last, on_gpu};
  if (of.data != nullptr) {
    out.x = &of.data->x;
    out.y = &of.data->y;
  }
  return out;
}

bool has_images(const Case& of) { return of.model.starts_with("mlp") || of.model.starts_with("resnet"); }

std::unique_ptr<kernels::cuda::Device> open_device(const std::string& module) {
  auto device = test::open_device(module);
  if (device.ok()) return std::move(device).value();
  std::fprintf(stderr, "skipped, no GPU: %s\n", device.error().message.c_str());
  std::exit(77);
}

/// A field of /proc/self/status, in bytes.
long long status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

/// The memory that `side` takes in addition to the libraries and the program text: the peak of three steps.
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

/// The command line that starts this program for the same case.
std::vector<std::string> own_words(const Options& options, const Case& of, int threads) {
  std::vector<std::string> out{options.self, "--case", of.name, "--threads", std::to_string(threads)};
  for (const auto& [word, value] :
       {std::pair("--isa", &options.isa), std::pair("--scripts", &options.scripts),
        std::pair("--data", &options.data), std::pair("--device", &options.module)}) {
    if (!value->empty()) out.insert(out.end(), {word, *value});
  }
  return out;
}

std::optional<long long> peak_alone(const Options& options, const Case& of, const std::string& side,
                                    int threads) {
  std::string command;
  for (const std::string& word : own_words(options, of, threads)) command += "'" + word + "' ";
  FILE* const child = popen((command + "--alone " + side).c_str(), "r");
  long long bytes = 0;
  const bool told = child != nullptr && std::fscanf(child, "%lld", &bytes) == 1;
  return child != nullptr && pclose(child) == 0 && told ? std::optional(bytes) : std::nullopt;
}

/// The ways to run a peer: its command line with all threads and with one, with each allocator.
std::vector<bench::Peer::Command> ways(const std::string& name, int threads,
                                       const std::function<std::vector<std::string>(int)>& words) {
  using Environment = std::vector<std::pair<std::string, std::string>>;
  std::vector<std::pair<std::string, Environment>> allocators{
      {"", {}}, {", huge pages", {{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}}};
  for (const char* const path :
       {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"}) {
    if (std::ifstream(path).good()) allocators.push_back({", jemalloc", {{"LD_PRELOAD", path}}});
  }
  std::vector<bench::Peer::Command> out;
  for (const auto& [allocator, environment] : allocators) {
    out.push_back({name + allocator, words(threads), environment});
    if (threads > 1) out.push_back({name + ", one thread" + allocator, words(1), environment});
  }
  return out;
}

/// The command line of --compiled with the case's parameters for compiled.py.
std::vector<std::string> compiled_words(const Options& options, const Case& of, int threads) {
  std::vector<std::string> out{"/bin/sh", "-c", options.compiled + " \"$@\"", "compiled"};
  std::string sample;
  for (const std::int64_t size : of.sample) sample += (sample.empty() ? "" : ",") + std::to_string(size);
  out.insert(out.end(),
             {"--model", of.model.ends_with(".pt") ? of.name : of.model, "--optimizer", of.optimizer,
              "--batch", std::to_string(of.batch), "--sample", sample, "--threads", std::to_string(threads)});
  if (of.tokens) out.push_back("--tokens");
  if (of.data != nullptr) out.insert(out.end(), {"--data", options.data});
  return out;
}

struct Contender {
  std::string side;  ///< for peak_of(); empty: its memory is not measured
  std::unique_ptr<bench::Peer> peer;
};

std::vector<Contender> contenders(const Options& options, const Case& of, int threads) {
  constexpr double kTrial = 2;  // seconds
  const std::string script = of.model.ends_with(".pt") ? ", TorchScript" : ", eager";
  std::vector<Contender> out;
  for (const std::string side : {"eager", "channels-last"}) {
    if (side != "eager" && !of.model.starts_with("resnet")) continue;
    const auto words = [&](int count) {
      std::vector<std::string> all = own_words(options, of, count);
      all.insert(all.end(), {"--serve", side});
      return all;
    };
    out.push_back(
        {side, bench::fastest_of(ways(bench::libtorch_name() + (side == "eager" ? script : ", channels last"),
                                      threads, words),
                                 kTrial)});
  }
  if (!options.compiled.empty()) {
    const auto words = [&](int count) { return compiled_words(options, of, count); };
    out.push_back({"", bench::fastest_of(ways("torch.compile", threads, words), kTrial)});
    if (out.back().peer == nullptr)
      std::fprintf(stderr, "step_bench: skipped, torch.compile of %s\n", of.name.c_str());
  }
  std::erase_if(out, [](const Contender& each) { return each.peer == nullptr; });
  return out;
}

/// The share of the roof that a step reaches: the machine's time for the least work of a step, divided by the
/// step's time. `limits` are multiply-adds and, last, bytes.
double share_of_roof(const bench::Least& least, double seconds, std::span<const bench::Side> sides,
                     std::span<const bench::Limit> limits) {
  double peak = 0;
  for (std::size_t n = 0; n + 1 < limits.size(); ++n)
    peak = std::max(peak, limits[n].work / bench::median(sides[n].seconds));
  const double bandwidth = limits.back().work / bench::median(sides.back().seconds);
  return std::max(least.flop / peak, least.bytes / bandwidth) / seconds;
}

void measure(const Options& options, const Case& of, int threads) {
  bench::Exact exact(of);
  exact.start(threads);
  const std::vector<Contender> peers = contenders(options, of, threads);
  std::vector<bench::Side> sides = {{"exact", [&] { exact.step(); }}};
  for (const Contender& each : peers)
    sides.push_back({each.peer->name(), {}, {}, [&each](int count) { return each.peer->steps(count); }});
  std::vector<bench::Limit> limits = bench::multiply_adds(threads, !options.isa.empty());
  limits.push_back(bench::scaling(bench::kMemoryBytes, threads));
  for (const bench::Limit& limit : limits) sides.push_back({limit.name, limit.run});
  measure_in_turns(sides, {options.seconds, 5, threads});

  bench::Row row{"step-" + of.name + (options.isa.empty() ? "" : "-" + options.isa), threads, "ms"};
  const double seconds = bench::median(sides[0].seconds);
  row.dgx = seconds * 1e3;
  row.dgx_spread = bench::spread(sides[0].seconds);
  row.dgx_bytes = peak_alone(options, of, "exact", threads);
  row.roof = share_of_roof(exact.least(), seconds, std::span(sides).last(limits.size()), limits);
  if (of.model.starts_with("mlp")) row.zeros = exact.zero_terms();
  if (peers.empty()) bench::print(row, options.json);
  for (std::size_t n = 0; n < peers.size(); ++n) {
    const bench::Side& side = sides[n + 1];
    row.peer_name = side.name;
    row.peer = bench::median(side.seconds) * 1e3;
    row.peer_spread = bench::spread(side.seconds);
    row.peer_bytes = peers[n].side.empty() ? std::nullopt : peak_alone(options, of, peers[n].side, threads);
    bench::print(row, options.json);
  }
}

/// libtorch on the GPU in a process of its own, and PyTorch by its Python, eager and compiled.
std::vector<std::unique_ptr<bench::Peer>> device_peers(const Options& options, const Case& of) {
  std::vector<bench::Peer::Command> commands;
  for (const std::string side : {"eager", "channels-last"}) {
    if (side != "eager" && !of.model.starts_with("resnet")) continue;
    std::vector<std::string> words = own_words(options, of, 1);
    words.insert(words.end(), {"--serve", side});
    commands.push_back(
        {bench::libtorch_name() + " on the GPU, " + (side == "eager" ? "eager" : "channels last"), words});
  }
  if (!options.compiled.empty()) {
    std::vector<std::string> words = compiled_words(options, of, 1);
    words.push_back("--gpu");
    commands.push_back({"torch.compile on the GPU", words});
    words.push_back("--eager");
    commands.push_back({"PyTorch on the GPU, eager", words});
  }
  std::vector<std::unique_ptr<bench::Peer>> out;
  for (const bench::Peer::Command& command : commands) {
    auto peer = bench::Peer::start(command);
    if (peer != nullptr)
      out.push_back(std::move(peer));
    else
      std::fprintf(stderr, "step_bench: skipped, %s: %s\n", of.name.c_str(), command.name.c_str());
  }
  return out;
}

void measure_on_device(const Options& options, const Case& of) {
  auto device = open_device(options.module);
  bench::Exact exact(of);
  exact.start(std::move(device));
  const auto peers = device_peers(options, of);
  std::vector<bench::Side> sides = {{"exact", [&] { exact.step(); }}};
  for (const auto& peer : peers)
    sides.push_back({peer->name(), {}, {}, [&peer](int count) { return peer->steps(count); }});
  measure_in_turns(sides, {options.seconds, 5, 1});
  print_rows("gpu-step-" + of.name, sides, 1, "ms", 1e3, 0, options.json);
}

/// Answers as a peer of libtorch.
int serve(const Options& options, const Case& of) {
  const bool on_gpu = !options.module.empty();
  bench::set_libtorch_threads(std::max(options.threads, 1));
  if (on_gpu && !bench::libtorch_has_gpu()) {
    std::fprintf(stderr, "step_bench: this libtorch has no CUDA, or finds no GPU\n");
    return 77;
  }
  bench::serve(bench::eager_step(eager_case(of, options.serve == "channels-last", on_gpu)));
  return 0;
}

/// Operations of one kind and form together, the longest first.
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
  std::sort(sorted.begin(), sorted.end(),
            [](const Form& a, const Form& b) { return a.second.second.seconds > b.second.second.seconds; });
  const auto steps = static_cast<double>(profile.steps);
  std::printf("%s: %.3f ms a step, the fastest %.3f\n", of.name.c_str(), profile.seconds / steps * 1e3,
              fastest * 1e3);
  for (const auto& [form, of_form] : sorted) {
    const auto& [count, sum] = of_form;
    const double seconds = sum.seconds / steps;
    std::printf("%9.3f ms %5.1f %% %8.1f GF/s %7.1f GB/s %3d %s: %s\n", seconds * 1e3,
                sum.seconds / profile.seconds * 100, sum.arithmetic / seconds * 1e-9,
                sum.bytes / seconds * 1e-9, count, form.first.c_str(), form.second.c_str());
  }
}

Options parse(int argc, char** argv) {
  Options options;
  options.self = argv[0];
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    const auto value = [&]() -> const char* { return n + 1 < argc ? argv[++n] : ""; };
    if (word == "--json")
      options.json = true;
    else if (word == "--explain")
      options.explain = true;
    else if (word == "--profile")
      options.profile = true;
    else if (word == "--isa")
      options.isa = value();
    else if (word == "--case")
      options.only = value();
    else if (word == "--scripts")
      options.scripts = value();
    else if (word == "--data")
      options.data = value();
    else if (word == "--compiled")
      options.compiled = value();
    else if (word == "--serve")
      options.serve = value();
    else if (word == "--alone")
      options.alone = value();
    else if (word == "--device")
      options.module = value();
    else if (word == "--threads")
      options.threads = std::atoi(value());
    else if (word == "--seconds")
      options.seconds = std::atof(value());
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
  for (Case of : options.module.empty() ? cases(options.scripts) : device_cases(options.scripts)) {
    if (!options.only.empty() && options.only != of.name) continue;
    found = true;
    if (has_images(of)) of.data = samples_of(options);
    if (has_images(of) && of.data == nullptr && options.module.empty() && !options.explain) {
      std::fprintf(stderr, "step_bench: skipped, no --data: %s\n", of.name.c_str());
      continue;
    }
    if (options.explain) {
      bench::Exact exact(of);
      exact.start(std::max(options.threads, 1));
      std::fputs(exact.executor().explain().c_str(), stdout);
    } else if (options.profile) {
      print_profile(options, of, options.seconds);
    } else if (!options.serve.empty()) {
      return serve(options, of);
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
