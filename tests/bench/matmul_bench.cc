// Exact matrix products against OpenBLAS and libtorch, side by side in one run, GF/s. Each peer is measured
// if it is found. OpenBLAS should be told the processor's widest core, e.g. OPENBLAS_CORETYPE=SkylakeX; its
// name is printed with it.
//
//   matmul_bench [--json] [--isa NAME] [--only PRODUCT]
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/cpu/matmul.h"
#include "matmul_peers.h"
#include "row.h"

namespace {

namespace bench = dgx::bench;
using namespace dgx::kernels::cpu;
using Floats = std::vector<float>;

Floats random_floats(std::int64_t count) {
  static std::mt19937 random(1);
  Floats out(static_cast<std::size_t>(count));
  for (float& x : out) x = static_cast<float>(random() % 65536) / 32768.0F - 1.0F;
  return out;
}

// A second thread that spins for a while after each job, so that the measurement contains no wake-up, and
// then sleeps.
class Pair {
 public:
  Pair() : thread_([this] { serve(); }) {}
  ~Pair() {
    body_ = nullptr;
    go();
    thread_.join();
  }
  void run(const std::function<void(int)>& body) {
    body_ = &body;
    const int job = go();
    body(0);
    while (done_.load(std::memory_order_acquire) != job) {
    }
  }

 private:
  int go() {
    const int job = job_.fetch_add(1, std::memory_order_release) + 1;
    job_.notify_one();
    return job;
  }
  void serve() {
    for (int last = 0;; done_.store(++last, std::memory_order_release)) {
      for (int spins = 0; job_.load(std::memory_order_acquire) == last; ++spins) {
        if (spins > 20000) job_.wait(last);
      }
      if (body_ == nullptr) return;
      (*body_)(1);
    }
  }
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<int> job_{0}, done_{0};
  std::thread thread_;
};

struct Product {
  const char* name;
  MatmulShape shape;
  bool a_transposed;
  bool b_transposed;
};

struct Options {
  bool json = false;
  std::string isa, only;
};

void bench_product(const Product& product, int threads, Pair* pair, const Options& options) {
  const MatmulShape s = product.shape;
  const Floats a = random_floats(s.rows * s.depth);
  const Floats b = random_floats(s.depth * s.columns);
  Floats c(static_cast<std::size_t>(s.rows * s.columns));
  const Matrix am = product.a_transposed ? Matrix{a.data(), 1, s.rows} : Matrix{a.data(), s.depth, 1};
  const Matrix bm = product.b_transposed ? Matrix{b.data(), 1, s.depth} : Matrix{b.data(), s.columns, 1};
  Floats packed(static_cast<std::size_t>(PackedMatrix::size(s.depth, s.columns)));
  pack(bm, s.depth, s.columns, 0, panel_count(s.columns), packed.data());
  const PackedMatrix kept = {packed.data(), s.depth, s.columns};
  Scratch scratch[2];
  const auto part_of = [&](int worker) {
    if (threads == 1) return Part::whole(s);
    const std::int64_t row = s.rows / 2, column = panel_count(s.columns) / 2 * kPanelWidth;
    if (s.rows >= s.columns)
      return worker == 0 ? Part{0, row, 0, s.columns} : Part{row, s.rows, 0, s.columns};
    return worker == 0 ? Part{0, s.rows, 0, column} : Part{0, s.rows, column, s.columns};
  };
  const auto run = [&](const std::function<void(int)>& body) { threads == 1 ? body(0) : pair->run(body); };
  const auto exact = [&](int w) {
    matmul(s, am, bm, Output::row_major(c.data(), s.columns), part_of(w), {}, scratch[w]);
  };
  const auto exact_kept = [&](int w) {
    matmul(s, am, kept, Output::row_major(c.data(), s.columns), part_of(w), {}, scratch[w]);
  };
  std::vector<bench::Side> sides = {{"exact", [&] { run(exact); }}};
  for (const bench::Peer& peer : bench::peers()) {
    sides.push_back({peer.name, peer.prepare(s, a.data(), product.a_transposed, b.data(),
                                             product.b_transposed, c.data(), threads)});
  }
  sides.push_back({"exact, B kept packed", [&] { run(exact_kept); }});
  measure_in_turns(sides, {s.rows >= 1024 ? 2.5 : 0.8, 5, threads});
  const double work = 2e-9 * static_cast<double>(s.rows * s.columns * s.depth);
  std::string name = std::string("product-") + product.name;
  for (const std::int64_t extent : {s.rows, s.columns, s.depth}) name += "-" + std::to_string(extent);
  if (!options.isa.empty()) name += "-" + options.isa;
  const bench::Side kept_side = sides.back();
  sides.pop_back();
  print_rows(name, sides, threads, "GF/s", 1, work, options.json);
  sides[0] = kept_side;
  print_rows(name + "-kept-packed", sides, threads, "GF/s", 1, work, options.json);
}

void bench_sums(std::int64_t rows, std::int64_t columns, const Options& options) {
  const Floats x = random_floats(rows * columns);
  Floats out(static_cast<std::size_t>(std::max(rows, columns)));
  const std::vector<bench::Side> all = {
      {"column-sum", [&] { column_dot_one(rows, columns, x.data(), columns, out.data()); }},
      {"row-sum", [&] { row_sum(rows, columns, x.data(), columns, out.data()); }},
      {"row-max", [&] { row_max(rows, columns, x.data(), columns, out.data()); }}};
  for (const bench::Side& side : all) {
    std::vector<bench::Side> alone = {side};
    measure_in_turns(alone, {0.2, 5, 1});
    const std::string name = side.name + "-" + std::to_string(rows) + "-" + std::to_string(columns);
    print_rows(name, alone, 1, "GB/s", 4e-9, static_cast<double>(rows * columns), options.json);
  }
}

constexpr Product kProducts[] = {
    {"square", {512, 512, 512}, false, false},    {"square", {1024, 1024, 1024}, false, false},
    {"square", {2048, 2048, 2048}, false, false}, {"fwd1", {128, 256, 784}, false, true},
    {"fwd2", {128, 128, 256}, false, true},       {"fwd3", {128, 10, 128}, false, true},
    {"dX2", {128, 256, 128}, false, false},       {"dX3", {128, 128, 10}, false, false},
    {"dW1", {256, 784, 128}, true, false},        {"dW1-transposed", {784, 256, 128}, true, false},
    {"dW2", {128, 256, 128}, true, false},        {"dW3", {10, 128, 128}, true, false},
    {"gpt-fwd", {2048, 1536, 384}, false, true},  {"gpt-fwd", {2048, 384, 1536}, false, true},
    {"gpt-dX", {2048, 384, 1536}, false, false},  {"gpt-dW", {1536, 384, 2048}, true, false}};

Options parse(int argc, char** argv) {
  Options options;
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = argv[n];
    const char* const value = n + 1 < argc ? argv[n + 1] : "";
    if (word == "--json") {
      options.json = true;
    } else if (word == "--isa") {
      options.isa = value;
      ++n;
    } else if (word == "--only") {
      options.only = value;
      ++n;
    } else {
      std::fprintf(stderr, "matmul_bench: no option %s\n", argv[n]);
      std::exit(2);
    }
  }
  return options;
}

void force(const std::string& isa) {
  for (const InstructionSet set : available_instruction_sets()) {
    if (name_of(set) == isa && force_instruction_set(set).ok()) return;
  }
  std::fprintf(stderr, "matmul_bench: this processor has no %s\n", isa.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.isa.empty()) force(options.isa);
  Pair pair;
  for (const int threads : {1, 2}) {
    for (const Product& product : kProducts) {
      if (options.only.empty() || options.only == product.name)
        bench_product(product, threads, &pair, options);
    }
  }
  for (const std::int64_t columns : {10, 64, 256, 1536}) {
    if (options.only.empty()) bench_sums(2048, columns, options);
  }
}
