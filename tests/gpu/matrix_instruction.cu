// Determines which hypothesis about matrix instructions (matrix_instruction.h; dgx-proposal(7)) a
// GPU agrees with, bit for bit: mma.sync m16n8k16 with bf16 and m16n8k8 with tf32 factors and binary32 sums,
// on random tiles and on tiles made to tell hypotheses apart.
//
// usage: matrix_instruction [TILES] [SEED]     TILES of each kind (default 2000)
// Prints the hypotheses that fit, and for each other one the element that refutes it. Exit 0: for each format
// one fits; 1: for some format none does; 77: no GPU.

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "matrix_instruction.h"

namespace {

using dgx::test::FactorFormat;
using dgx::test::MatrixInstruction;
using dgx::test::ResultRounding;
using dgx::test::ZeroExponent;

constexpr int kRows = 16, kColumns = 8;

constexpr int depth_of(FactorFormat format) { return format == FactorFormat::kBf16 ? 16 : 8; }

/// d = a b + c: a [16, depth], b [depth, 8], c and d [16, 8], row-major binary32 throughout.
struct Tile {
  std::array<float, kRows * 16> a{};
  std::array<float, 16 * kColumns> b{};
  std::array<float, kRows * kColumns> c{}, d{};
};

__device__ std::uint32_t bf16_pair(float low, float high) {
  return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xFFFF0000U);
}

/// One warp per tile. Lanes hold numbers as in PTX, "Matrix fragments for mma.m16n8k16" and "... m16n8k8".
__global__ void multiply(FactorFormat format, Tile* tiles) {
  Tile& tile = tiles[blockIdx.x];
  const int group = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int depth = format == FactorFormat::kBf16 ? 16 : 8;
  const auto a = [&](int row, int k) { return tile.a[static_cast<std::size_t>(row * depth + k)]; };
  const auto b = [&](int k) { return tile.b[static_cast<std::size_t>(k * kColumns + group)]; };
  float d[4];
  for (int n = 0; n < 4; ++n)
    d[n] = tile.c[static_cast<std::size_t>((group + n / 2 * 8) * kColumns + 2 * t + n % 2)];
  std::uint32_t left[4], right[2];
  if (format == FactorFormat::kBf16) {
    for (int n = 0; n < 4; ++n) {
      const int row = group + n % 2 * 8, k = 2 * t + n / 2 * 8;
      left[n] = bf16_pair(a(row, k), a(row, k + 1));
    }
    for (int n = 0; n < 2; ++n) right[n] = bf16_pair(b(2 * t + n * 8), b(2 * t + n * 8 + 1));
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  } else {
    for (int n = 0; n < 4; ++n) left[n] = __float_as_uint(a(group + n % 2 * 8, t + n / 2 * 4));
    for (int n = 0; n < 2; ++n) right[n] = __float_as_uint(b(t + n * 4));
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  }
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

enum class Tiles { kOrdinary, kWide, kEdges, kCancelling, kZeros, kTiny, kHuge, kSpecial };
constexpr std::array<const char*, 8> kTileNames = {"ordinary", "wide", "edges", "cancelling",
                                                   "zeros",    "tiny", "huge",  "special"};

float factor_of(Tiles kind, Random& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (kind) {
    case Tiles::kWide: return random.number(-40, 80);
    // Products about 2^-22 to 2^-28 below the greatest.
    case Tiles::kEdges:
      return random.below(3) == 0 ? random.number(0, 2) : std::ldexp(1.0F, -random.below(15));
    case Tiles::kCancelling: return random.number(-2, 4);
    case Tiles::kZeros:
      return random.below(2) == 0 ? (random.below(2) == 0 ? 0.0F : -0.0F) : random.number(-30, 60);
    case Tiles::kTiny: return random.below(4) == 0 ? random.number(-133, 10) : random.number(-75, 20);
    case Tiles::kHuge: return random.number(56, 9);
    case Tiles::kSpecial:
      if (random.below(12) == 0)
        return random.below(3) == 0   ? std::numeric_limits<float>::quiet_NaN()
               : random.below(2) == 0 ? kInfinity
                                      : -kInfinity;
      return random.below(6) == 0 ? 0.0F : random.number(-3, 6);
    default: return random.number(-4, 8);
  }
}

float summand_of(Tiles kind, Random& random) {
  switch (kind) {
    case Tiles::kWide: return random.number(-80, 160);
    case Tiles::kZeros: return random.below(2) == 0 ? 0.0F : random.number(-60, 60);
    case Tiles::kTiny: return random.below(2) == 0 ? random.number(-149, 20) : 0.0F;
    case Tiles::kHuge: return random.number(110, 18);
    default: return random.below(4) == 0 ? 0.0F : random.number(-4, 8);
  }
}

Tile tile_of(Tiles kind, int depth, Random& random) {
  Tile tile;
  for (float& x : tile.a) x = factor_of(kind, random);
  for (float& x : tile.b) x = factor_of(kind, random);
  for (float& x : tile.c) x = summand_of(kind, random);
  if (kind != Tiles::kCancelling) return tile;
  // Neighbouring positions cancel except for a last place or so, which shows what was truncated.
  for (int k = 0; k + 1 < depth; k += 2) {
    for (int row = 0; row < kRows; ++row)
      tile.a[static_cast<std::size_t>(row * depth + k + 1)] =
          -tile.a[static_cast<std::size_t>(row * depth + k)];
    for (int column = 0; column < kColumns; ++column) {
      float& second = tile.b[static_cast<std::size_t>((k + 1) * kColumns + column)];
      second = tile.b[static_cast<std::size_t>(k * kColumns + column)];
      if (random.below(2) == 0)
        second = std::bit_cast<float>(std::bit_cast<std::uint32_t>(second) ^ 0x10000U << random.below(7));
    }
  }
  return tile;
}

/// A hypothesis and the number of elements it agrees with so far.
struct Candidate {
  MatrixInstruction instruction;
  std::int64_t agreed = 0;
  bool refuted = false;
};

std::vector<Candidate> candidates_of(FactorFormat format) {
  std::vector<Candidate> all;
  for (int bits = 22; bits <= 28; ++bits) {
    for (const int chunk : {depth_of(format), depth_of(format) / 2, 4, 1}) {
      for (const auto zeros : {ZeroExponent::kSmallest, ZeroExponent::kNone}) {
        for (const auto rounding : {ResultRounding::kTruncated, ResultRounding::kNearestEven}) {
          const MatrixInstruction instruction{format, bits, chunk, zeros, rounding};
          bool known = false;
          for (const Candidate& other : all) known = known || other.instruction == instruction;
          if (!known) all.push_back({instruction});
        }
      }
    }
  }
  return all;
}

void print(const MatrixInstruction& m) {
  std::printf("%s, %d fraction bits, %d terms at once, zeros %s, %s",
              m.factors == FactorFormat::kBf16 ? "bf16" : "tf32", m.fraction_bits, m.chunk,
              m.zeros == ZeroExponent::kSmallest ? "with the smallest exponent" : "left out",
              m.rounding == ResultRounding::kTruncated ? "truncated" : "rounded");
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
    std::printf("  no: ");
    print(candidate.instruction);
    std::printf(": after %lld elements, a tile of kind %s gives %a, not %a\n",
                static_cast<long long>(candidate.agreed), kind, static_cast<double>(d),
                static_cast<double>(expected));
    // A candidate that agreed this long gets its counterexample printed.
    if (candidate.agreed < 20000) continue;
    std::printf("    c = %a\n", static_cast<double>(c));
    for (std::size_t k = 0; k < a.size(); ++k)
      std::printf("    %a * %a\n", static_cast<double>(a[k]), static_cast<double>(b[k]));
  }
}

void check_tile(FactorFormat format, const Tile& tile, const char* kind, std::vector<Candidate>& candidates) {
  const int depth = depth_of(format);
  std::array<float, 16> column{};
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
    multiply<<<static_cast<unsigned>(tiles.size()), 32>>>(format, device);
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
    for (int n = 0; n < count; ++n)
      tiles.push_back(tile_of(static_cast<Tiles>(kind), depth_of(format), random));
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
  if (fits == 0) std::printf("NOTHING FITS: %s\n", format == FactorFormat::kBf16 ? "bf16" : "tf32");
  return fits;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }
  cudaDeviceProp properties{};
  if (!good(cudaGetDeviceProperties(&properties, 0), "asking what the device is")) return 1;
  std::printf("%s, compute capability %d.%d; %d tiles of each kind, seed %llu\n", properties.name,
              properties.major, properties.minor, count, static_cast<unsigned long long>(seed));
  const int bf16 = examine(FactorFormat::kBf16, count, seed);
  const int tf32 = examine(FactorFormat::kTf32, count, seed);
  return bf16 > 0 && tf32 > 0 ? 0 : 1;
}
