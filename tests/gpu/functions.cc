// The elementary functions on a device, in both ways that generated kernels may compute them
// (DeviceInfo::functions_by_pairs): every argument, against kernels/cpu's vectors, which
// tests/slow/functions.cc compares with the definition.
//
// usage: functions_on_device MODULE [--sample] [pairs|binary64] [exp|log|tanh|erf|expm1|log1p|sin|cos ...]
// --sample: 2^17 arguments of each, of all exponents. Unless named, both ways and all functions.
// Exit 0: no difference; 1: differences, which it prints; 77: the module lacks a GPU or NVRTC.

#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_module.h"
#include "dgx/kernels/cuda/device.h"
#include "function_spans.h"

namespace {

using namespace dgx;
namespace cuda = kernels::cuda;
using dgx::testing::FunctionForms;

constexpr std::int64_t kBlock = std::int64_t{1} << 24, kSample = std::int64_t{1} << 17;
constexpr std::int64_t kPrinted = 10;
constexpr std::uint32_t kThreads = 128;  // of a block

constexpr std::string_view kFunctions[] = {"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf"};

/// The text of a kernel for each function, in their order, that computes one value a thread.
std::string kernels_text(bool by_pairs) {
  std::string text = "#include \"generated.cuh\"\nnamespace dgx::kernels::cuda {\nDGX_FUNCTIONS(formula::" +
                     std::string(by_pairs ? "Pair" : "Defined") + "Functions)\n";
  for (std::size_t n = 0; n < std::size(kFunctions); ++n) {
    std::string op(kFunctions[n]);
    op[0] = static_cast<char>(op[0] - 'a' + 'A');
    text += "DGX_KERNEL(k" + std::to_string(n) + ", " + std::to_string(kThreads) +
            ", 2) {\n  const std::uint32_t e = blockIdx.x * " + std::to_string(kThreads) +
            "U + threadIdx.x;\n  address<float>(at, 1)[e] = as_f32(real<k" + op +
            ">(address<const float>(at, 0)[e]));\n}\n";
  }
  return text + "}  // namespace dgx::kernels::cuda\n";
}

/// The functions on a device's memory: arguments in, values out.
class OnDevice {
 public:
  explicit OnDevice(cuda::Device& device) : device_(device) {}

  Status prepare(std::int64_t count) {
    for (void** memory : {&in_, &out_}) {
      DGX_TRY(*memory, device_.allocate(count * 4));
    }
    DGX_TRY(first_, device_.compile(kernels_text(device_.info().functions_by_pairs),
                                    static_cast<std::int32_t>(std::size(kFunctions))));
    return {};
  }

  /// `function`: its index in kFunctions. The number of arguments must be a multiple of kThreads.
  Status run(std::size_t function, const std::vector<float>& x, std::vector<float>& y) {
    const auto count = static_cast<std::int64_t>(x.size());
    DGX_CHECK(device_.upload(in_, x.data(), count * 4));
    DGX_CHECK(device_.launch(cuda::Generated{
        first_ + static_cast<std::int32_t>(function), kThreads, count / kThreads, {in_, out_}}));
    return device_.download(y.data(), out_, count * 4);
  }

 private:
  cuda::Device& device_;
  void* in_ = nullptr;
  void* out_ = nullptr;
  std::int32_t first_ = 0;
};

/// Argument n of a block: of all arguments, or of a sample.
std::uint32_t argument(bool sample, std::int64_t block, std::int64_t n) {
  // 2^17 * 32771 is just over 2^32.
  return static_cast<std::uint32_t>(sample ? n * 32771 : block * kBlock + n);
}

/// The number of values that differ; -1 if the device failed.
std::int64_t differences(OnDevice& device, std::size_t function, const FunctionForms& form, bool sample,
                         const char* way) {
  const auto count = static_cast<std::size_t>(sample ? kSample : kBlock);
  std::vector<float> x(count), expected(count), got(count);
  std::int64_t wrong = 0;
  for (std::int64_t block = 0; block < (sample ? 1 : (std::int64_t{1} << 32) / kBlock); ++block) {
    for (std::size_t n = 0; n < count; ++n)
      x[n] = std::bit_cast<float>(argument(sample, block, static_cast<std::int64_t>(n)));
    form.span(x.data(), expected.data(), count);
    if (const Status run = device.run(function, x, got); !run.ok()) {
      std::printf("%s\n", run.error().message.c_str());
      return -1;
    }
    for (std::size_t n = 0; n < count; ++n) {
      if (std::bit_cast<std::uint32_t>(got[n]) == std::bit_cast<std::uint32_t>(expected[n])) continue;
      if (wrong++ >= kPrinted) continue;
      std::printf("%s, %s(%a) is %a, expected %a\n", way, form.name.c_str(), static_cast<double>(x[n]),
                  static_cast<double>(got[n]), static_cast<double>(expected[n]));
    }
  }
  return wrong;
}

/// The function's form for the fastest instruction set.
FunctionForms form_of(std::string_view name) {
  FunctionForms out{};
  for (FunctionForms& form : testing::function_forms()) {
    if (form.name == name && (out.span == nullptr || (form.vectorised && !out.vectorised)))
      out = std::move(form);
  }
  return out;
}

/// The command line's options.
struct Wishes {
  std::string module;
  bool sample = false;
  std::vector<std::string_view> ways, functions;
};

bool contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// True if the command line is valid.
bool read_wishes(int argc, char** argv, Wishes& out) {
  if (argc < 2) return false;
  out.module = argv[1];
  for (int n = 2; n < argc; ++n) {
    const std::string_view word = argv[n];
    const bool is_function =
        std::find(std::begin(kFunctions), std::end(kFunctions), word) != std::end(kFunctions);
    if (word == "--sample") {
      out.sample = true;
    } else if (word == "pairs" || word == "binary64") {
      out.ways.push_back(word);
    } else if (is_function) {
      out.functions.push_back(word);
    } else {
      return false;
    }
  }
  if (out.ways.empty()) out.ways = {"pairs", "binary64"};
  if (out.functions.empty()) out.functions.assign(std::begin(kFunctions), std::end(kFunctions));
  return true;
}

/// Checks one way to compute the functions; returns an exit code.
int check_way(const Wishes& wishes, const std::string& way) {
  ::setenv("DGX_DEVICE_FUNCTIONS", way.c_str(), 1);
  ::setenv("DGX_EMULATED_DEVICE", ("functions=" + way).c_str(), 1);
  auto opened = test::open_device(wishes.module);
  if (!opened.ok()) {
    std::printf("%s\n", opened.error().message.c_str());
    return 1;
  }
  cuda::Device& device = **opened;
  if (device.info().functions_by_pairs != (way == "pairs")) {
    std::printf("%s: it does not compute by %s\n", device.info().name.c_str(), way.c_str());
    return 1;
  }
  OnDevice on_device(device);
  if (const Status ready = on_device.prepare(wishes.sample ? kSample : kBlock); !ready.ok()) {
    std::printf("%s\n", ready.error().message.c_str());
    return 1;
  }
  int code = 0;
  for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
    if (!contains(wishes.functions, kFunctions[f])) continue;
    const std::int64_t wrong = differences(on_device, f, form_of(kFunctions[f]), wishes.sample, way.c_str());
    std::printf("%s, %s, %s: %lld arguments, %lld differences\n", device.info().name.c_str(), way.c_str(),
                std::string(kFunctions[f]).c_str(),
                static_cast<long long>(wishes.sample ? kSample : std::int64_t{1} << 32),
                static_cast<long long>(wrong));
    std::fflush(stdout);
    if (wrong != 0) code = 1;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  if (!read_wishes(argc, argv, wishes)) {
    std::fputs("usage: functions_on_device MODULE [--sample] [pairs|binary64] [FUNCTION ...]\n", stderr);
    return 2;
  }
  int code = 0;
  for (const std::string_view way : wishes.ways) {
    if (code == 0) code = check_way(wishes, std::string(way));
  }
  return code;
}
