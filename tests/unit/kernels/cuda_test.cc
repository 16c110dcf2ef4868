#include "dgx/kernels/cuda/device.h"

#include <stdlib.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "dgx/kernels/philox.h"
#include "emulated_device.h"

// Single launches on the emulated device, for cases that programs do not reach.
namespace dgx::kernels::cuda {
namespace {

/// A device with copies of host data.
class Bench {
 public:
  explicit Bench(const char* behaves = "") : device_(test::emulated_device(behaves)) {}

  void* bytes(std::int64_t size) {
    auto memory = device_->allocate(size);
    if (!memory.ok()) FAIL(memory.error().message);
    return *memory;
  }
  template <class T>
  T* there(const std::vector<T>& items) {
    const auto size = static_cast<std::int64_t>(items.size() * sizeof(T));
    T* const memory = static_cast<T*>(bytes(size));
    REQUIRE(device_->upload(memory, items.data(), size).ok());
    return memory;
  }
  template <class T>
  std::vector<T> here(const void* memory, std::size_t count) {
    std::vector<T> out(count);
    REQUIRE(device_->download(out.data(), memory, static_cast<std::int64_t>(count * sizeof(T))).ok());
    return out;
  }
  Device& operator*() { return *device_; }
  Device* operator->() { return device_.get(); }

 private:
  std::unique_ptr<Device> device_;
};

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> out(count);
  for (float& x : out)
    x = std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                   static_cast<int>(random() % 40) - 50);
  return out;
}

float dot_one(const std::vector<float>& x, std::int64_t rows, std::int64_t stride, std::int64_t column) {
  float total = 0, group = 0, block = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    block = std::fma(1.0F, x[static_cast<std::size_t>(r * stride + column)], block);
    const bool last = r + 1 == rows;
    if ((r + 1) % 256 == 0 || last) group = group + std::exchange(block, 0.0F);
    if ((r + 1) % 4096 == 0 || last) total = total + std::exchange(group, 0.0F);
  }
  return total;
}

TEST_CASE("columns are summed in blocks and groups", "[device]") {
  for (const char* order : {"", "order=shuffled"}) {
    Bench bench(order);
    for (const std::int64_t rows : {0, 1, 255, 256, 257, 4095, 4096, 4097, 9000}) {
      for (const std::int64_t columns : {1, 31, 32, 33, 70}) {
        const std::int64_t stride = columns + 3;
        std::vector<float> x = numbers(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1) * stride),
                                       static_cast<unsigned>(rows));
        // A column of nothing but -0, one with a NaN that has a payload, and one with infinities of both
        // signs.
        for (std::int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * stride)] = -0.0F;
        if (rows > 0 && columns > 2) {
          x[static_cast<std::size_t>(rows / 2 * stride + 1)] = std::bit_cast<float>(0xFFC12345U);
          x[2] = std::numeric_limits<float>::infinity();
          x[static_cast<std::size_t>((rows - 1) * stride + 2)] = -std::numeric_limits<float>::infinity();
        }
        ColumnSum sum;
        sum.x = bench.there(x);
        sum.out = static_cast<float*>(bench.bytes(columns * 4));
        sum.groups = static_cast<float*>(bench.bytes(columns * dot_groups(rows) * 4));
        sum.rows = rows;
        sum.columns = columns;
        sum.row_stride = stride;
        REQUIRE(bench->launch(sum).ok());
        const auto got = bench.here<float>(sum.out, static_cast<std::size_t>(columns));
        for (std::int64_t c = 0; c < columns; ++c) {
          const float sum_of_column = dot_one(x, rows, stride, c);
          const float expected =
              std::isnan(sum_of_column) ? std::bit_cast<float>(0x7FC00000U) : sum_of_column;
          INFO(rows << " rows, column " << c << " of " << columns);
          CHECK(std::memcmp(&got[static_cast<std::size_t>(c)], &expected, 4) == 0);
        }
      }
    }
  }
}

TEST_CASE("random inputs are those of the step that the device's memory names", "[device]") {
  Bench bench;
  const std::int64_t* const step = bench.there(std::vector<std::int64_t>{(std::int64_t{1} << 31) + 5});
  auto* const out = static_cast<float*>(bench.bytes(1000 * 4));
  const Stream stream{StreamKind::kDropout, 12};
  REQUIRE(bench->launch(UniformNumbers{out, 1000, step, 0xdeadbeefcafeU, stream.word()}).ok());
  const auto got = bench.here<float>(out, 1000);
  for (std::int64_t e = 0; e < 1000; ++e)
    CHECK(got[static_cast<std::size_t>(e)] ==
          uniform(0xdeadbeefcafeU, stream, (std::int64_t{1} << 31) + 5, e));
}

TEST_CASE("one number that is not finite raises the flag, wherever it is", "[device]") {
  Bench bench;
  std::vector<float> x(3000, std::numeric_limits<float>::max());
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{255}, std::size_t{256}, std::size_t{2999}, x.size()}) {
    for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
      std::vector<float> with = x;
      if (at < x.size()) with[at] = bad;
      auto* const flag = bench.there(std::vector<std::int32_t>{0});
      REQUIRE(bench->launch(FiniteCheck{bench.there(with), 3000, flag}).ok());
      CHECK(bench.here<std::int32_t>(flag, 1)[0] == (at < x.size() ? 1 : 0));
    }
  }
}

TEST_CASE("what is recorded runs when it is replayed, and not before", "[device]") {
  Bench bench;
  auto* const a = bench.there(std::vector<std::int32_t>{7, 8});
  auto* const b = bench.there(std::vector<std::int32_t>{1, 2});
  REQUIRE(bench->begin_recording().ok());
  REQUIRE(bench->copy(b, a, 8).ok());
  REQUIRE(bench->clear(a, 4).ok());
  const auto recording = bench->end_recording();
  REQUIRE(recording.ok());
  CHECK(bench.here<std::int32_t>(b, 2) == std::vector<std::int32_t>{1, 2});
  REQUIRE(bench->replay(*recording).ok());
  CHECK(bench.here<std::int32_t>(b, 2) == std::vector<std::int32_t>{7, 8});
  CHECK(bench.here<std::int32_t>(a, 2) == std::vector<std::int32_t>{0, 8});
  REQUIRE(bench->replay(*recording).ok());
  CHECK(bench.here<std::int32_t>(b, 2) == std::vector<std::int32_t>{0, 8});
}

TEST_CASE("the emulated device refuses behaviour that it does not know, and memory that it has not",
          "[device][emulated]") {
  ::setenv("DGX_EMULATED_DEVICE", "memory=100,colour=blue", 1);
  CHECK(test::open_device(DGX_EMULATED_MODULE).error().code == ErrorCode::kUsage);
  Bench bench("memory=100");
  CHECK(bench->allocate(60).ok());
  CHECK(bench->allocate(60).error().code == ErrorCode::kUsage);
  CHECK(bench->allocate(40).ok());
}

TEST_CASE("a module that was built with another interface opens nothing", "[emulated]") {
  void* const handle = ::dlopen(DGX_EMULATED_MODULE, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  const auto open = reinterpret_cast<OpenDeviceFunction>(::dlsym(handle, kOpenDeviceSymbol));
  REQUIRE(open != nullptr);
  Result<std::unique_ptr<Device>> device = std::unique_ptr<Device>();
  CHECK_FALSE(open("another", &device));
  CHECK((device.ok() && *device == nullptr));
}

}  // namespace
}  // namespace dgx::kernels::cuda
