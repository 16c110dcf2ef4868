// Proves that the elementary functions are correctly rounded, for all 2^32 arguments of each: the scalar
// reference against MPFR, and every instruction set of this processor and pairs of floats (function_pairs.h)
// against the scalar reference.
//
//   functions_proof [exp|log|tanh|erf|expm1|log1p|sin|cos ...]
//
// MPFR would take days, so most arguments are decided by the C library's double function. That shares no code
// and no table with ours; the only assumption is that its relative error is below 2^-42, a thousand units in
// its last place. If both ends of that interval round to our float, so does the real value. Otherwise MPFR
// decides, with 300 bits: a few thousand arguments of each function, among them all that are hard for any
// evaluation in double.
//
// For pairs it also counts how often they leave the decision to the definition, which costs time on a device:
// among all arguments, and among those with magnitudes in [2^-64, 2^6), which occur in practice.

#include <mpfr.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "dgx/kernels/function_pairs.h"
#include "function_spans.h"

namespace {

namespace pairs = dgx::kernels::formula::pairs;
using dgx::testing::FunctionForms;

constexpr std::uint32_t kChunk = 1U << 16;
constexpr std::uint32_t kChunks = 1U << 16;
constexpr std::uint32_t kCanonicalNan = 0x7FC00000U;
constexpr double kLibraryError = 0x1p-42;
constexpr std::uint64_t kPrintedMismatches = 20;

/// A function's oracles, the library's in binary64, and MPFR's where that may round wrongly; and its form by
/// pairs, which is tested.
struct Oracle {
  std::string_view name;
  double (*library)(double);
  int (*mpfr)(mpfr_t, const mpfr_t, mpfr_rnd_t);
  pairs::Rounded (*by_pairs)(float);
};

const Oracle kOracles[] = {
    {"exp", &std::exp, &mpfr_exp, &pairs::exp},         {"log", &std::log, &mpfr_log, &pairs::log},
    {"tanh", &std::tanh, &mpfr_tanh, &pairs::tanh},     {"erf", &std::erf, &mpfr_erf, &pairs::erf},
    {"expm1", &std::expm1, &mpfr_expm1, &pairs::expm1}, {"log1p", &std::log1p, &mpfr_log1p, &pairs::log1p},
    {"sin", &std::sin, &mpfr_sin, &pairs::sin},         {"cos", &std::cos, &mpfr_cos, &pairs::cos},
};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// One thread's MPFR numbers.
class Exact {
 public:
  Exact() {
    mpfr_init2(x_, 24);
    mpfr_init2(y_, 300);
  }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { mpfr_clears(x_, y_, static_cast<mpfr_ptr>(nullptr)); }

  float value(const Oracle& oracle, float x) {
    mpfr_set_flt(x_, x, MPFR_RNDN);
    oracle.mpfr(y_, x_, MPFR_RNDN);
    return mpfr_get_flt(y_, MPFR_RNDN);
  }

 private:
  mpfr_t x_;
  mpfr_t y_;
};

struct Tally {
  std::atomic<std::uint64_t> mismatches = 0;
  std::atomic<std::uint64_t> asked_mpfr = 0;
  std::atomic<std::uint64_t> uncertain = 0;
  std::atomic<std::uint64_t> uncertain_moderate = 0;

  void report(const char* who, const Oracle& oracle, float x, float got, float expected) {
    if (mismatches++ < kPrintedMismatches) {
      std::printf("%s %.*s(%a) is %a, expected %a\n", who, static_cast<int>(oracle.name.size()),
                  oracle.name.data(), static_cast<double>(x), static_cast<double>(got),
                  static_cast<double>(expected));
    }
  }
};

void check_scalar(const Oracle& oracle, float x, float got, Exact& exact, Tally& tally) {
  const double near = oracle.library(static_cast<double>(x));
  if (std::isnan(near)) {
    if (bits_of(got) != kCanonicalNan)
      tally.report("scalar", oracle, x, got, std::bit_cast<float>(kCanonicalNan));
    return;
  }
  const auto below = static_cast<float>(near * (1 - kLibraryError));
  const auto above = static_cast<float>(near * (1 + kLibraryError));
  if (bits_of(below) == bits_of(got) && bits_of(above) == bits_of(got)) return;
  ++tally.asked_mpfr;
  const float value = exact.value(oracle, x);
  if (bits_of(value) != bits_of(got)) tally.report("scalar", oracle, x, got, value);
}

void check_pairs(const Oracle& oracle, float x, float expected, Tally& tally) {
  const pairs::Rounded got = oracle.by_pairs(x);
  if (got.certain) {
    if (bits_of(got.value) != bits_of(expected)) tally.report("pairs", oracle, x, got.value, expected);
    return;
  }
  ++tally.uncertain;
  if (std::fabs(x) >= 0x1p-64F && std::fabs(x) < 0x1p6F) ++tally.uncertain_moderate;
}

void check_chunk(const Oracle& oracle, const std::vector<FunctionForms>& forms, std::uint32_t chunk,
                 Exact& exact, Tally& tally) {
  std::vector<float> x(kChunk);
  std::vector<float> y(kChunk);
  std::vector<float> z(kChunk);
  for (std::uint32_t i = 0; i < kChunk; ++i) {
    x[i] = std::bit_cast<float>(chunk * kChunk + i);
    y[i] = forms.front().scalar(x[i]);
    check_scalar(oracle, x[i], y[i], exact, tally);
    check_pairs(oracle, x[i], y[i], tally);
  }
  for (const FunctionForms& form : forms) {
    if (!form.vectorised) continue;
    form.span(x.data(), z.data(), kChunk);
    for (std::uint32_t i = 0; i < kChunk; ++i) {
      if (bits_of(z[i]) != bits_of(y[i])) tally.report(form.target.c_str(), oracle, x[i], z[i], y[i]);
    }
  }
}

/// True if every argument agreed.
bool prove(const Oracle& oracle, const std::vector<FunctionForms>& forms) {
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  std::atomic<std::uint32_t> next = 0;
  const auto work = [&] {
    Exact exact;
    for (std::uint32_t chunk = next++; chunk < kChunks; chunk = next++)
      check_chunk(oracle, forms, chunk, exact, tally);
  };
  std::thread other(work);
  work();
  other.join();
  const std::chrono::duration<double, std::ratio<60>> minutes = std::chrono::steady_clock::now() - start;
  std::printf("%-5.*s scalar", static_cast<int>(oracle.name.size()), oracle.name.data());
  for (const FunctionForms& form : forms) {
    if (form.vectorised) std::printf(" %s", form.target.c_str());
  }
  std::printf(" pairs: 4294967296 arguments, %llu mismatches, %llu decided by MPFR, %.1f minutes\n",
              static_cast<unsigned long long>(tally.mismatches.load()),
              static_cast<unsigned long long>(tally.asked_mpfr.load()), minutes.count());
  std::printf("      pairs leave %llu to the definition, of magnitudes from 2^-64 to 2^6 %llu of %llu\n",
              static_cast<unsigned long long>(tally.uncertain.load()),
              static_cast<unsigned long long>(tally.uncertain_moderate.load()), 2ULL * 70 << 23);
  std::fflush(stdout);
  return tally.mismatches == 0;
}

bool wanted(std::string_view name, int argc, char** argv) {
  if (argc == 1) return true;
  for (int i = 1; i < argc; ++i) {
    if (name == argv[i]) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool all_agree = true;
  for (const Oracle& oracle : kOracles) {
    if (!wanted(oracle.name, argc, argv)) continue;
    std::vector<FunctionForms> forms;
    for (FunctionForms& form : dgx::testing::function_forms()) {
      if (form.name == oracle.name) forms.push_back(std::move(form));
    }
    all_agree = prove(oracle, forms) && all_agree;
  }
  return all_agree ? 0 : 1;
}
