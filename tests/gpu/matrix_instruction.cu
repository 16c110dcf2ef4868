// Determines which hypothesis about matrix instructions (matrix_instruction.h; dgx-proposal(7)) a
// GPU agrees with, bit for bit: mma.sync m16n8k16 with bf16 and fp16, m16n8k8 with tf32 and m16n8k32 with FP8
// (e4m3, e5m2) factors and binary32 sums, on random tiles and on tiles made to tell hypotheses apart. For
// sm_90 ptxas makes FP8 from instructions for fp16 (MatrixInstruction::widened), so that an H100 or H200
// shows nothing here about FP8 matrix instructions, which are only wgmma there.
//
// usage: matrix_instruction [TILES [SEED [FORMAT...]]]     TILES of each kind (default 2000)
// FORMATs: bf16 tf32 fp16 e4m3 e5m2 (default: all).
// Prints the hypotheses that fit, and for each other one the element that refutes it; where none fits, all
// about the one that held out longest. Exit 0: for each format one fits; 1: for some format none does, or the
// device failed; 2: usage; 77: no GPU, or none of the formats on it.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "matrix_instruction.h"

namespace {

using dgx::test::FactorFormat;
using dgx::test::FormatLimits;
using dgx::test::kNoLeast;
using dgx::test::MatrixInstruction;
using dgx::test::ResultRounding;
using dgx::test::ZeroExponent;

constexpr int kRows = 16, kColumns = 8;

constexpr int kMostDepth = 32;
constexpr std::array<const char*, 5> kFormatNames = {"bf16", "tf32", "fp16", "e4m3", "e5m2"};

const char* name_of(FactorFormat format) { return kFormatNames[static_cast<std::size_t>(format)]; }

bool is_fp8(FactorFormat format) { return format == FactorFormat::kE4m3 || format == FactorFormat::kE5m2; }

int depth_of(FactorFormat format) { return 256 / dgx::test::limits_of(format).width; }

/// d = a b + c: a [16, depth], b [depth, 8], c and d [16, 8], row-major binary32 throughout; the device reads
/// the factors as codes of the format.
struct Tile {
  std::array<float, kRows * kMostDepth> a{};
  std::array<float, kMostDepth * kColumns> b{};
  std::array<std::uint32_t, kRows * kMostDepth> a_codes{};
  std::array<std::uint32_t, kMostDepth * kColumns> b_codes{};
  std::array<float, kRows * kColumns> c{}, d{};
};

/// The instruction for a shape and types, on the kernel's d, left and right.
#define DGX_MULTIPLY(shape_and_types)                                                                       \
  asm volatile("mma.sync.aligned." shape_and_types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]))

/// One warp per tile. Lanes hold numbers as in PTX, "Matrix fragments for mma.m16n8k16" and so on: a register
/// holds factors of 32, 16 or 8 bits at that many positions in a row, the first in the lowest bits.
__global__ void multiply(FactorFormat format, int width, Tile* tiles) {
  Tile& tile = tiles[blockIdx.x];
  const int group = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int depth = 256 / width, together = 32 / width;
  float d[4];
  for (int n = 0; n < 4; ++n)
    d[n] = tile.c[static_cast<std::size_t>((group + n / 2 * 8) * kColumns + 2 * t + n % 2)];
  std::uint32_t left[4] = {}, right[2] = {};
  for (int n = 0; n < 4; ++n) {
    const int row = group + n % 2 * 8, first = (t + n / 2 * 4) * together;
    for (int i = 0; i < together; ++i)
      left[n] |= tile.a_codes[static_cast<std::size_t>(row * depth + first + i)] << (i * width);
  }
  for (int n = 0; n < 2; ++n) {
    const int first = (t + n * 4) * together;
    for (int i = 0; i < together; ++i)
      right[n] |= tile.b_codes[static_cast<std::size_t>((first + i) * kColumns + group)] << (i * width);
  }
  if (format == FactorFormat::kBf16) {
    DGX_MULTIPLY("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else if (format == FactorFormat::kTf32) {
    DGX_MULTIPLY("m16n8k8.row.col.f32.tf32.tf32.f32");
  } else if (format == FactorFormat::kFp16) {
    DGX_MULTIPLY("m16n8k16.row.col.f32.f16.f16.f32");
  }
#if __CUDA_ARCH__ >= 890
  if (format == FactorFormat::kE4m3) {
    DGX_MULTIPLY("m16n8k32.row.col.f32.e4m3.e4m3.f32");
  } else if (format == FactorFormat::kE5m2) {
    DGX_MULTIPLY("m16n8k32.row.col.f32.e5m2.e5m2.f32");
  }
#endif
  for (int n = 0; n < 4; ++n)
    tile.d[static_cast<std::size_t>((group + n / 2 * 8) * kColumns + 2 * t + n % 2)] = d[n];
}

/// Splitmix64, so that a seed names the same tiles everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  int below(int count) { return static_cast<int>(next() % static_cast<std::uint64_t>(count)); }
  /// A number of any sign and significand, with the exponent in [least, least + count).
  float number(int least, int count) {
    const float magnitude =
        std::ldexp(1 + static_cast<float>(below(1 << 23)) * 0x1p-23F, least + below(count));
    return below(2) == 0 ? magnitude : -magnitude;
  }

 private:
  std::uint64_t state_;
};

/// Those first that refute most hypotheses.
enum class Tiles { kVanishing, kTiny, kEdges, kCancelling, kZeros, kOrdinary, kWide, kHuge, kSpecial };
constexpr std::array<const char*, 9> kTileNames = {"vanishing", "tiny", "edges", "cancelling", "zeros",
                                                   "ordinary",  "wide", "huge",  "special"};

/// The exponents that the tiles of a format use.
struct Exponents {
  int smallest, least, most;  ///< of the format's subnormals, its normal numbers and its greatest number
  bool binary32;              ///< they are binary32's, so that sums can overflow and become subnormal
  int wide, wide_count;       ///< 80 around 0, as far as the format has them
  int edge;                   ///< 2^edge and the next 14 powers below are in the format

  explicit Exponents(const FormatLimits& limits)
      : smallest(limits.least_exponent - limits.fraction_bits),
        least(limits.least_exponent),
        most(limits.most_exponent),
        binary32(limits.least_exponent == -126),
        wide(std::max(-40, smallest)),
        wide_count(std::min(39, most) - wide + 1),
        edge(std::max(0, smallest + 15)) {}
};

float special_number(Random& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return random.below(3) == 0   ? std::numeric_limits<float>::quiet_NaN()
         : random.below(2) == 0 ? kInfinity
                                : -kInfinity;
}

float factor_of(Tiles kind, FactorFormat format, const Exponents& exponents, Random& random) {
  switch (kind) {
    case Tiles::kWide: return random.number(exponents.wide, exponents.wide_count);
    // Products down to 2^-28 of the greatest.
    case Tiles::kEdges:
      return random.below(3) == 0 ? random.number(exponents.edge, 2)
                                  : std::ldexp(1.0F, exponents.edge - random.below(15));
    case Tiles::kCancelling: return is_fp8(format) ? random.number(-4, 8) : random.number(-2, 4);
    case Tiles::kZeros:
      return random.below(2) == 0 ? (random.below(2) == 0 ? 0.0F : -0.0F)
                                  : random.number(exponents.wide, exponents.wide_count);
    // Products, and sums, below 2^-133: what a least aligned exponent would cut shows in the last place.
    case Tiles::kVanishing:
      if (exponents.binary32) return random.number(-80, 13);
      [[fallthrough]];
    // Subnormals and the next normal numbers; others, whose products are about binary32's subnormals or else
    // about the square of the format's smallest normal number.
    case Tiles::kTiny:
      if (random.below(4) == 0)
        return random.number(exponents.smallest, exponents.least - exponents.smallest + 3);
      return exponents.binary32 ? random.number(-73, 14) : random.number(exponents.least - 1, 4);
    case Tiles::kHuge:
      return exponents.binary32 ? random.number(56, 9) : random.number(exponents.most - 3, 4);
    case Tiles::kSpecial:
      if (random.below(12) == 0) return special_number(random);
      return random.below(6) == 0 ? 0.0F : random.number(-3, 6);
    default: return random.number(-4, 8);
  }
}

float summand_of(Tiles kind, const Exponents& exponents, Random& random) {
  switch (kind) {
    case Tiles::kWide: return random.number(2 * exponents.wide, 2 * exponents.wide_count);
    case Tiles::kEdges: return random.below(4) == 0 ? 0.0F : random.number(2 * exponents.edge - 4, 8);
    case Tiles::kZeros:
      return random.below(2) == 0 ? 0.0F : random.number(2 * exponents.wide, 2 * exponents.wide_count);
    case Tiles::kVanishing:
    case Tiles::kTiny:
      if (random.below(2) == 0) return 0;
      if (kind == Tiles::kVanishing && exponents.binary32) return random.number(-149, 14);
      if (exponents.binary32 || random.below(4) == 0) return random.number(-149, 20);
      return random.number(2 * exponents.smallest - 4, 2 * (exponents.least - exponents.smallest) + 12);
    case Tiles::kHuge:
      if (exponents.binary32 || random.below(4) == 0) return random.number(110, 18);
      return random.number(2 * exponents.most - 12, 16);
    default: return random.below(4) == 0 ? 0.0F : random.number(-4, 8);
  }
}

/// Makes neighbouring positions cancel except for a last place or so, which shows what was truncated.
void cancel(FactorFormat format, Random& random, Tile& tile) {
  const int depth = depth_of(format), fraction_bits = dgx::test::limits_of(format).fraction_bits;
  for (int k = 0; k + 1 < depth; k += 2) {
    for (int row = 0; row < kRows; ++row)
      tile.a[static_cast<std::size_t>(row * depth + k + 1)] =
          -tile.a[static_cast<std::size_t>(row * depth + k)];
    for (int column = 0; column < kColumns; ++column) {
      float& second = tile.b[static_cast<std::size_t>((k + 1) * kColumns + column)];
      second = tile.b[static_cast<std::size_t>(k * kColumns + column)];
      if (random.below(2) == 0)
        second = std::bit_cast<float>(std::bit_cast<std::uint32_t>(second) ^
                                      1U << (23 - fraction_bits + random.below(fraction_bits)));
    }
  }
}

Tile tile_of(Tiles kind, FactorFormat format, Random& random) {
  const Exponents exponents(dgx::test::limits_of(format));
  Tile tile;
  for (float& x : tile.a) x = factor_of(kind, format, exponents, random);
  for (float& x : tile.b) x = factor_of(kind, format, exponents, random);
  for (float& x : tile.c) x = summand_of(kind, exponents, random);
  if (kind == Tiles::kCancelling) cancel(format, random, tile);
  // Next to other products, binary32's subnormals would only be cut.
  if (kind == Tiles::kTiny && !exponents.binary32 && random.below(4) == 0) tile.b.fill(0);
  for (std::size_t n = 0; n < tile.a.size(); ++n) tile.a_codes[n] = dgx::test::code_of(format, tile.a[n]);
  for (std::size_t n = 0; n < tile.b.size(); ++n) tile.b_codes[n] = dgx::test::code_of(format, tile.b[n]);
  return tile;
}

/// An element, and what a hypothesis says it is.
struct Counterexample {
  const char* kind = "";  ///< of the tile
  std::vector<float> a, b;
  float c = 0, d = 0, expected = 0;
};

/// A hypothesis and the number of elements it agrees with so far.
struct Candidate {
  MatrixInstruction instruction;
  std::int64_t agreed = 0;
  bool refuted = false;
  Counterexample counterexample{};  ///< if refuted
};

/// Adds the hypothesis with both rules for zeros and both roundings, if it is not there.
void add_candidates(MatrixInstruction instruction, std::vector<Candidate>& all) {
  for (const auto zeros : {ZeroExponent::kSmallest, ZeroExponent::kNone}) {
    for (const auto rounding : {ResultRounding::kTruncated, ResultRounding::kNearestEven}) {
      instruction.zeros = zeros;
      instruction.rounding = rounding;
      const bool known = std::any_of(
          all.begin(), all.end(), [&](const Candidate& other) { return other.instruction == instruction; });
      if (!known) all.push_back({instruction});
    }
  }
}

std::vector<Candidate> candidates_of(FactorFormat format) {
  std::vector<Candidate> all;
  const int depth = depth_of(format);
  for (int bits = 10; bits <= 28; ++bits) {
    if (bits < 22 && !(is_fp8(format) && bits <= 16)) continue;
    for (const int chunk : {depth, depth / 2, 8, 4, 1}) {
      const MatrixInstruction instruction{.factors = format, .fraction_bits = bits, .chunk = chunk};
      add_candidates(instruction, all);
      if (bits > 16) continue;
      // A result with about as few bits, even where the sum is above the aligned exponent.
      for (const int result_bits : {bits - 1, bits, bits + 1}) {
        MatrixInstruction narrow = instruction;
        narrow.result_bits = result_bits;
        add_candidates(narrow, all);
      }
    }
    if (!is_fp8(format) || bits < 22) continue;
    for (const int chunk : {16, 8})
      add_candidates({.factors = format, .fraction_bits = bits, .chunk = chunk, .widened = true}, all);
  }
  // A least aligned exponent shows only in the smallest sums. On an H200, four of some fifteen million sums
  // of subnormal bf16 factors refuted the hypothesis without one; exactly those four, with the GPU's values,
  // follow from a least of -133, and not from -134 or -132.
  if (format == FactorFormat::kBf16 || format == FactorFormat::kTf32) {
    for (const int least : {-136, -135, -134, -133, -132, -131, -130, -126}) {
      all.push_back({{.factors = format,
                      .fraction_bits = 25,
                      .chunk = depth,
                      .zeros = ZeroExponent::kNone,
                      .rounding = ResultRounding::kTruncated,
                      .least_aligned = least}});
    }
  }
  return all;
}

void print(const MatrixInstruction& m) {
  std::printf("%s%s, %d fraction bits, %d terms at once, zeros %s, %s", name_of(m.factors),
              m.widened ? " as fp16 in two parts" : "", m.fraction_bits, m.chunk,
              m.zeros == ZeroExponent::kSmallest ? "with the smallest exponent" : "left out",
              m.rounding == ResultRounding::kTruncated ? "truncated" : "rounded");
  if (m.result_bits != 23) std::printf(" to %d bits", m.result_bits);
  if (m.least_aligned != kNoLeast) std::printf(", aligned to 2^%d at least", m.least_aligned);
}

/// Prints the terms of a refuted hypothesis's element.
void print_terms(const Candidate& candidate) {
  const Counterexample& found = candidate.counterexample;
  std::printf("    c = %a\n", static_cast<double>(found.c));
  const auto factor = [&](float x) {
    return static_cast<double>(dgx::test::as_factor(candidate.instruction.factors, x));
  };
  for (std::size_t k = 0; k < found.a.size(); ++k)
    std::printf("    %a * %a\n", factor(found.a[k]), factor(found.b[k]));
}

void print_refutation(const Candidate& candidate) {
  const Counterexample& found = candidate.counterexample;
  std::printf("  no: ");
  print(candidate.instruction);
  std::printf(": after %lld elements, a tile of kind %s gives %a, not %a\n",
              static_cast<long long>(candidate.agreed), found.kind, static_cast<double>(found.d),
              static_cast<double>(found.expected));
}

void check_element(std::span<const float> a, std::span<const float> b, float c, float d, const char* kind,
                   std::vector<Candidate>& candidates) {
  for (Candidate& candidate : candidates) {
    if (candidate.refuted) continue;
    const float expected = dgx::test::fused_dot(candidate.instruction, a, b, c);
    const bool same = std::isnan(d)
                          ? std::isnan(expected)
                          : std::bit_cast<std::uint32_t>(d) == std::bit_cast<std::uint32_t>(expected);
    if (same) {
      ++candidate.agreed;
      continue;
    }
    candidate.refuted = true;
    candidate.counterexample = {kind, {a.begin(), a.end()}, {b.begin(), b.end()}, c, d, expected};
    print_refutation(candidate);
    // A candidate that agreed this long gets its counterexample printed.
    if (candidate.agreed >= 20000) print_terms(candidate);
  }
}

void check_tile(FactorFormat format, const Tile& tile, const char* kind, std::vector<Candidate>& candidates) {
  const int depth = depth_of(format);
  std::array<float, kMostDepth> column{};
  for (int c = 0; c < kColumns; ++c) {
    for (int k = 0; k < depth; ++k)
      column[static_cast<std::size_t>(k)] = tile.b[static_cast<std::size_t>(k * kColumns + c)];
    for (int r = 0; r < kRows; ++r) {
      const auto at = static_cast<std::size_t>(r * kColumns + c);
      check_element(
          std::span(tile.a).subspan(static_cast<std::size_t>(r * depth), static_cast<std::size_t>(depth)),
          std::span(column).first(static_cast<std::size_t>(depth)), tile.c[at], tile.d[at], kind, candidates);
    }
  }
}

bool good(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    std::fprintf(stderr, "matrix_instruction: %s: %s\n", what, cudaGetErrorString(error));
  return error == cudaSuccess;
}

bool run_on_device(FactorFormat format, std::vector<Tile>& tiles) {
  Tile* device = nullptr;
  const std::size_t size = tiles.size() * sizeof(Tile);
  if (!good(cudaMalloc(&device, size), "taking memory")) return false;
  bool done = good(cudaMemcpy(device, tiles.data(), size, cudaMemcpyHostToDevice), "copying to the device");
  if (done) {
    multiply<<<static_cast<unsigned>(tiles.size()), 32>>>(format, dgx::test::limits_of(format).width, device);
    done = good(cudaGetLastError(), "starting the kernel") &&
           good(cudaMemcpy(tiles.data(), device, size, cudaMemcpyDeviceToHost), "running the kernel");
  }
  static_cast<void>(cudaFree(device));
  return done;
}

/// The number of hypotheses that fit; -1 if the device failed.
int examine(FactorFormat format, int count, std::uint64_t seed) {
  std::vector<Candidate> candidates = candidates_of(format);
  Random random(seed);
  for (std::size_t kind = 0; kind < kTileNames.size(); ++kind) {
    std::vector<Tile> tiles;
    for (int n = 0; n < count; ++n) tiles.push_back(tile_of(static_cast<Tiles>(kind), format, random));
    if (!run_on_device(format, tiles)) return -1;
    for (const Tile& tile : tiles) check_tile(format, tile, kTileNames[kind], candidates);
  }
  int fits = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.refuted) continue;
    ++fits;
    std::printf("FITS: ");
    print(candidate.instruction);
    std::printf(": all of %lld elements\n", static_cast<long long>(candidate.agreed));
  }
  if (fits > 0) return fits;
  std::printf("NOTHING FITS: %s. The longest held out:\n", name_of(format));
  const auto longest =
      std::max_element(candidates.begin(), candidates.end(),
                       [](const Candidate& x, const Candidate& y) { return x.agreed < y.agreed; });
  print_refutation(*longest);
  print_terms(*longest);
  return 0;
}

/// The formats that the command names; empty if it names an unknown one.
std::vector<FactorFormat> formats_of(std::span<char*> names) {
  std::vector<FactorFormat> formats;
  for (std::size_t n = 0; n < kFormatNames.size(); ++n) {
    const auto named = std::count(names.begin(), names.end(), std::string_view(kFormatNames[n]));
    if (names.empty() || named > 0) formats.push_back(static_cast<FactorFormat>(n));
  }
  for (const std::string_view name : names)
    if (std::find(kFormatNames.begin(), kFormatNames.end(), name) == kFormatNames.end()) return {};
  return formats;
}

/// True if the code that this device runs has FP8 instructions: compute_80's, which newer devices than sm_90
/// run as well, has not.
bool has_fp8() {
  cudaFuncAttributes attributes{};
  return good(cudaFuncGetAttributes(&attributes, multiply), "asking what the kernel is") &&
         attributes.ptxVersion >= 89;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::vector<FactorFormat> formats = formats_of(
      std::span(argv, static_cast<std::size_t>(argc)).subspan(static_cast<std::size_t>(std::min(argc, 3))));
  if (count <= 0 || formats.empty()) {
    std::fputs("usage: matrix_instruction [TILES [SEED [bf16|tf32|fp16|e4m3|e5m2]...]]\n", stderr);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }
  cudaDeviceProp properties{};
  if (!good(cudaGetDeviceProperties(&properties, 0), "asking what the device is")) return 1;
  std::printf("%s, compute capability %d.%d; %d tiles of each kind, seed %llu\n", properties.name,
              properties.major, properties.minor, count, static_cast<unsigned long long>(seed));
  bool examined = false, all_fit = true;
  for (const FactorFormat format : formats) {
    if (is_fp8(format) && (properties.major * 10 + properties.minor < 89 || !has_fp8())) {
      std::printf("skipped: %s, which this program has not on this device\n", name_of(format));
      continue;
    }
    examined = true;
    all_fit = examine(format, count, seed) > 0 && all_fit;
  }
  return !examined ? 77 : all_fit ? 0 : 1;
}
