// Exact matrix products on a GPU against cuBLAS in binary32 and with TF32, side by side in one run, GF/s.
//
//   gpu_product_bench --device MODULE [--json] [--only PRODUCT[,PRODUCT]...] [--most EXTENT] [--seconds S]
//   gpu_product_bench --device MODULE --forms    each product in each sensible form (forms.h):
//                                                microseconds, and what choose_form() estimates
//
// MODULE is libdgx_cuda.so. Exits 77, "skipped, no GPU", if it finds none. --most leaves out products with a
// greater extent, for the emulated device. --seconds: a product's time for all sides, 1.5 unless set.
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
  double seconds = 1.5;
  bool json = false, forms = false;
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

cuda::TileWanted wanted_of(const bench::GpuProduct& p) { return {p.rows, p.columns, p.depth, p.batch}; }

cuda::Product exact_product(const bench::GpuProduct& p, const cuda::TileForm& form, Arena& arena) {
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
  out.form = form;
  if (form.piece != 0) out.pieces = arena.take(3, cuda::piece_numbers(wanted_of(p), form));
  return out;
}

/// A product's sides and room for its output, in the device's memory.
bench::GpuProduct placed(const Shape& shape, Arena& arena) {
  bench::GpuProduct p = shape.product;
  p.a = arena.filled(0, p.rows * p.depth * p.batch);
  p.b = arena.filled(1, p.columns * p.depth * p.batch);
  p.out = arena.take(2, p.rows * p.columns * p.batch);
  return p;
}

std::string name_of(const Shape& shape) {
  const bench::GpuProduct& p = shape.product;
  std::string name = std::string("gpu-product-") + shape.name;
  for (const std::int64_t extent : {p.rows, p.columns, p.depth}) name += "-" + std::to_string(extent);
  return p.batch > 1 ? name + "-times-" + std::to_string(p.batch) : name;
}

double operations_of(const bench::GpuProduct& p) {
  return 2 * static_cast<double>(p.rows * p.columns) * static_cast<double>(p.depth * p.batch);
}

void bench_product(const Shape& shape, cuda::Device& device, Arena& arena,
                   const std::optional<bench::Cublas>& peer, const Options& options) {
  const bench::GpuProduct p = placed(shape, arena);
  const cuda::Product exact = exact_product(p, cuda::choose_form(wanted_of(p)), arena);
  const double operations = operations_of(p);
  // Queued together, so that the device is timed and not the host. Products of some 10 microseconds still
  // wait for the host, which cannot launch them faster.
  const int together =
      device.info().emulated ? 1 : static_cast<int>(std::clamp(4e11 / operations, 2.0, 200.0));
  std::vector<bench::Side> sides = {{"exact", [&] {
                                       for (int n = 0; n < together; ++n) must(device.launch(exact));
                                       must(device.synchronize());
                                     }}};
  for (const bool tf32 : {false, true}) {
    if (!peer) continue;
    sides.push_back({peer->name() + (tf32 ? " TF32" : ""), [&, tf32] {
                       for (int n = 0; n < together; ++n) peer->queue(p, tf32);
                       peer->synchronize();
                     }});
  }
  measure_in_turns(sides, {options.seconds, 5, 1});
  print_rows(name_of(shape), sides, 1, "GF/s", 1, operations * together * 1e-9, options.json);
}

/// Times a product in each sensible form.
void bench_forms(const Shape& shape, cuda::Device& device, Arena& arena) {
  constexpr double kGigahertz = 1.98;  // of an H100 or H200
  const bench::GpuProduct p = placed(shape, arena);
  const cuda::TileWanted wanted = wanted_of(p);
  const cuda::TileForm chosen = cuda::choose_form(wanted);
  const int times =
      device.info().emulated ? 1 : static_cast<int>(std::clamp(1e11 / operations_of(p), 2.0, 20.0));
  for (const std::int64_t piece :
       {std::int64_t{0}, dgx::kernels::kDotGroupPositions, dgx::kernels::kDotBlock}) {
    for (const cuda::Tile tile : cuda::kTiles) {
      const cuda::TileForm form{tile, piece};
      if (!cuda::is_sensible(wanted, form)) continue;
      const cuda::Product exact = exact_product(p, form, arena);
      must(device.launch(exact));
      must(device.mark());
      for (int n = 0; n < times; ++n) must(device.launch(exact));
      must(device.mark());
      const double seconds = must(device.marked_seconds()).at(0) / times;
      const cuda::TileExtent extent = cuda::extent_of(tile);
      std::printf("%-44s %3d x %3d by %3d threads, pieces of %4d: %9.1f us, estimated %9.1f, %8.1f GF/s%s\n",
                  name_of(shape).c_str(), static_cast<int>(extent.rows), static_cast<int>(extent.columns),
                  static_cast<int>(extent.threads), static_cast<int>(piece), seconds * 1e6,
                  cuda::tile_cycles(wanted, form) / kGigahertz * 1e-3, operations_of(p) / seconds * 1e-9,
                  form.tile == chosen.tile && form.piece == chosen.piece ? ", chosen" : "");
    }
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    const auto value = [&]() -> const char* { return n + 1 < argc ? argv[++n] : ""; };
    if (word == "--json")
      options.json = true;
    else if (word == "--forms")
      options.forms = true;
    else if (word == "--seconds")
      options.seconds = std::atof(value());
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
    if (!options.only.empty() &&
        ("," + options.only + ",").find("," + std::string(shape.name) + ",") == std::string::npos)
      continue;
    if (options.forms)
      bench_forms(shape, **device, arena);
    else
      bench_product(shape, **device, arena, peer, options);
  }
}
