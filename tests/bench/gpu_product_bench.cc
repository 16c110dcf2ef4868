// Exact matrix products on a GPU against cuBLAS in binary32, side by side in one run, GF/s.
//
//   gpu_product_bench --device MODULE [--json] [--only PRODUCT] [--most EXTENT]
//
// MODULE is libdgx_cuda.so. Exits 77, "skipped, no GPU", if it finds none. --most leaves out products with a
// greater extent, for the emulated device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "device_module.h"
#include "gpu_peers.h"
#include "row.h"

namespace {

namespace bench = dgx::bench;
namespace cuda = dgx::kernels::cuda;

struct Options {
  std::string module, only;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool json = false;
};

struct Shape {
  const char* name;
  bench::GpuProduct product;
};

// Squares; products of a GPT of width 384 with 16,384 tokens in sequences of 256, and heads 64 wide; an
// MLP's.
constexpr Shape kShapes[] = {
    {"square", {512, 512, 512}},
    {"square", {1024, 1024, 1024}},
    {"square", {2048, 2048, 2048}},
    {"square", {4096, 4096, 4096}},
    {"square-bt", {4096, 4096, 4096, 1, false, true}},
    {"square-at", {4096, 4096, 4096, 1, true, false}},
    {"gpt-attention", {16384, 1152, 384, 1, false, true}},
    {"gpt-projection", {16384, 384, 384, 1, false, true}},
    {"gpt-up", {16384, 1536, 384, 1, false, true}},
    {"gpt-down", {16384, 384, 1536, 1, false, true}},
    {"gpt-up-dX", {16384, 384, 1536, 1, false, false}},
    {"gpt-up-dW", {1536, 384, 16384, 1, true, false}},
    {"gpt-projection-dW", {384, 384, 16384, 1, true, false}},
    {"gpt-scores", {256, 256, 64, 384, false, true}},
    {"gpt-values", {256, 64, 256, 384, false, false}},
    {"gpt-values-dV", {256, 64, 256, 384, true, false}},
    {"mlp-1", {128, 256, 784, 1, false, true}},
    {"mlp-1-dW", {256, 784, 128, 1, true, false}},
    {"mlp-3", {128, 10, 128, 1, false, true}},
};

template <class T>
T must(dgx::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(70);
}
void must(const dgx::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(70);
}

/// A device's memory. Each shape reuses the previous one's.
class Arena {
 public:
  explicit Arena(cuda::Device& device) : device_(device) {}

  float* take(std::size_t number, std::int64_t count) {
    Part& part = parts_.at(number);
    if (part.count < count) part = {static_cast<float*>(must(device_.allocate(count * 4))), count};
    return part.memory;
  }
  float* filled(std::size_t number, std::int64_t count) {
    float* const to = take(number, count);
    std::mt19937 random(static_cast<unsigned>(number));
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) x = static_cast<float>(random() % 65536) / 32768.0F - 1.0F;
    must(device_.upload(to, numbers.data(), count * 4));
    return to;
  }

 private:
  struct Part {
    float* memory = nullptr;
    std::int64_t count = 0;
  };
  cuda::Device& device_;
  std::vector<Part> parts_ = std::vector<Part>(4);
};

cuda::Product exact_product(const bench::GpuProduct& p, Arena& arena) {
  cuda::Product out;
  out.a = p.a;
  out.b = p.b;
  out.out = p.out;
  out.rows = p.rows;
  out.columns = p.columns;
  out.depth = p.depth;
  out.a_row = p.a_transposed ? 1 : p.depth;
  out.a_depth = p.a_transposed ? p.rows : 1;
  out.b_depth = p.b_transposed ? 1 : p.columns;
  out.b_column = p.b_transposed ? p.depth : 1;
  out.out_row = p.columns;
  out.batch.count = p.batch;
  out.batch.dimensions = 1;
  out.batch.extents[0] = p.batch;
  out.batch.strides[0][0] = p.rows * p.depth;
  out.batch.strides[1][0] = p.columns * p.depth;
  out.batch.strides[2][0] = p.rows * p.columns;
  const cuda::TileWanted wanted{p.rows, p.columns, p.depth, p.batch};
  out.form = cuda::choose_form(wanted);
  if (out.form.piece != 0) out.pieces = arena.take(3, cuda::piece_numbers(wanted, out.form));
  return out;
}

void bench_product(const Shape& shape, cuda::Device& device, Arena& arena,
                   const std::optional<bench::Cublas>& peer, const Options& options) {
  bench::GpuProduct p = shape.product;
  p.a = arena.filled(0, p.rows * p.depth * p.batch);
  p.b = arena.filled(1, p.columns * p.depth * p.batch);
  p.out = arena.take(2, p.rows * p.columns * p.batch);
  const cuda::Product exact = exact_product(p, arena);
  const double operations =
      2 * static_cast<double>(p.rows * p.columns) * static_cast<double>(p.depth * p.batch);
  // Queued together, so that the device is timed and not the host that launches.
  const int together =
      device.info().emulated ? 1 : static_cast<int>(std::clamp(4e11 / operations, 2.0, 200.0));
  std::vector<bench::Side> sides = {{"exact", [&] {
                                       for (int n = 0; n < together; ++n) must(device.launch(exact));
                                       must(device.synchronize());
                                     }}};
  if (peer) {
    sides.push_back({peer->name(), [&] {
                       for (int n = 0; n < together; ++n) peer->queue(p);
                       peer->synchronize();
                     }});
  }
  measure_in_turns(sides, {1.5, 5, 1});
  std::string name = std::string("gpu-product-") + shape.name;
  for (const std::int64_t extent : {p.rows, p.columns, p.depth}) name += "-" + std::to_string(extent);
  if (p.batch > 1) name += "-times-" + std::to_string(p.batch);
  print_rows(name, sides, 1, "GF/s", 1, operations * together * 1e-9, options.json);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    const auto value = [&]() -> const char* { return n + 1 < argc ? argv[++n] : ""; };
    if (word == "--json")
      options.json = true;
    else if (word == "--device")
      options.module = value();
    else if (word == "--only")
      options.only = value();
    else if (word == "--most")
      options.most = std::atoll(value());
    else {
      std::fprintf(stderr, "gpu_product_bench: no option %s\n", argv[n]);
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  auto device = dgx::test::open_device(options.module);
  if (!device.ok()) {
    std::fprintf(stderr, "skipped, no GPU: %s\n", device.error().message.c_str());
    return 77;
  }
  const auto peer = (*device)->info().emulated ? std::nullopt : bench::Cublas::open();
  Arena arena(**device);
  for (const Shape& shape : kShapes) {
    const bench::GpuProduct& p = shape.product;
    if (std::max({p.rows, p.columns, p.depth}) > options.most) continue;
    if (options.only.empty() || options.only == shape.name)
      bench_product(shape, **device, arena, peer, options);
  }
}
