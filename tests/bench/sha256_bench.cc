// SHA-256 of a mebibyte, in GB/s of the best of many. Text, or JSON with --json.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "dgx/crypto/sha256.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  std::vector<std::uint8_t> data(std::size_t{1} << 20, 7);
  double best = 1e9;
  for (int round = 0; round < 300; ++round) {
    const auto begin = Clock::now();
    data[0] = dgx::crypto::sha256({data.data(), data.size()}).view()[0];
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf(json ? "{\"bench\":\"sha256\",\"value\":\"%.2f\",\"unit\":\"GB/s\"}\n" : "sha256: %.2f GB/s\n",
              static_cast<double>(data.size()) / best * 1e-9);
}
