// SHA-256 of a mebibyte: "sha256 N GB/s" as one message, "sha256-leaves N GB/s" as 1,024 leaves of a tree.
// Each is the best of many.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "dgx/crypto/sha256.h"

namespace {

template <class Work>
void measure(const char* name, const std::vector<std::uint8_t>& data, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int round = 0; round < 300; ++round) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("%s %.2f GB/s\n", name, static_cast<double>(data.size()) / best * 1e-9);
}

}  // namespace

int main() {
  std::vector<std::uint8_t> data(std::size_t{1} << 20, 7);
  std::vector<dgx::Digest> leaves(1024);
  measure("sha256", data, [&] { data[0] = dgx::crypto::sha256(data).bytes[0]; });
  measure("sha256-leaves", data, [&] {
    dgx::crypto::sha256_each(0, data, leaves);
    data[0] = leaves[0].bytes[0];
  });
}
