// Exact matrix products against OpenBLAS and libtorch, side by side in one run: GF/s of the best call. Each
// peer is built in when CMake finds it. OpenBLAS should be told the processor's widest core, e.g.
// OPENBLAS_CORETYPE=SkylakeX.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/cpu/matmul.h"
#include "matmul_peers.h"

namespace {

using namespace dgx::kernels::cpu;
using Floats = std::vector<float>;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// With one thread the thread's own processor time, which the machine's other work disturbs less than the wall
// clock.
double clock_of(int threads) {
  if (threads > 1) return seconds();
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Floats random_floats(std::int64_t count) {
  static std::mt19937 random(1);
  Floats out(static_cast<std::size_t>(count));
  for (float& x : out) x = static_cast<float>(random() % 65536) / 32768.0F - 1.0F;
  return out;
}

// A second thread that spins a while after each job, so that the measurement contains no wake-up, and then
// sleeps.
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

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> times = {};
};

// Rounds of two calls each, the second timed, in turns so that noise meets all alike. With more than one
// thread a pause comes first, in which the contender before lets its workers fall asleep.
void measure(std::vector<Contender>& contenders, double budget, int threads) {
  const double end = seconds() + budget * static_cast<double>(contenders.size());
  for (int round = 0; round < 5 || seconds() < end; ++round) {
    for (Contender& c : contenders) {
      if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(8));
      c.run();
      const double start = clock_of(threads);
      c.run();
      c.times.push_back(clock_of(threads) - start);
    }
  }
  for (Contender& c : contenders) std::sort(c.times.begin(), c.times.end());
}

void bench_product(const Product& product, int threads, Pair* pair, double budget) {
  const MatmulShape s = product.shape;
  const Floats a = random_floats(s.rows * s.depth);
  const Floats b = random_floats(s.depth * s.columns);
  Floats c(static_cast<std::size_t>(s.rows * s.columns));
  const Matrix am = product.a_transposed ? Matrix{a.data(), 1, s.rows} : Matrix{a.data(), s.depth, 1};
  const Matrix bm = product.b_transposed ? Matrix{b.data(), 1, s.depth} : Matrix{b.data(), s.columns, 1};
  Floats packed(static_cast<std::size_t>(PackedMatrix::size(s.depth, s.columns)));
  pack(bm, s.depth, s.columns, 0, strip_count(s.columns), packed.data());
  const PackedMatrix kept = {packed.data(), s.depth, s.columns};
  Scratch scratch[2];
  const auto part_of = [&](int worker) {
    if (threads == 1) return Part::whole(s);
    const std::int64_t row = s.rows / 2, column = strip_count(s.columns) / 2 * kStripWidth;
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
  std::vector<Contender> contenders = {{"exact", [&] { run(exact); }},
                                       {"exact, B kept packed", [&] { run(exact_kept); }}};
  for (const bench::Peer& peer : bench::peers()) {
    contenders.push_back({peer.name, peer.prepare(s, a.data(), product.a_transposed, b.data(),
                                                  product.b_transposed, c.data(), threads)});
  }
  measure(contenders, budget * threads, threads);
  const double work = 2e-9 * static_cast<double>(s.rows * s.columns * s.depth);
  std::printf("%d %-8s %5d %5d %5d", threads, product.name, static_cast<int>(s.rows),
              static_cast<int>(s.columns), static_cast<int>(s.depth));
  for (const Contender& k : contenders) {
    std::printf("  %s %.1f (%.1f)", k.name.c_str(), work / k.times.front(),
                work / k.times[k.times.size() / 2]);
  }
  std::printf("\n");
}

void bench_column_sum(std::int64_t rows, std::int64_t columns) {
  const Floats x = random_floats(rows * columns);
  Floats out(static_cast<std::size_t>(std::max(rows, columns)));
  std::vector<Contender> contenders = {
      {"column_dot_one", [&] { column_dot_one(rows, columns, x.data(), columns, out.data()); }},
      {"row_sum", [&] { row_sum(rows, columns, x.data(), columns, out.data()); }},
      {"row_max", [&] { row_max(rows, columns, x.data(), columns, out.data()); }}};
  measure(contenders, 0.1, 1);
  std::printf("%dx%d", static_cast<int>(rows), static_cast<int>(columns));
  for (const Contender& k : contenders) {
    std::printf("  %s %.1f GB/s", k.name.c_str(),
                4e-9 * static_cast<double>(rows * columns) / k.times.front());
  }
  std::printf("\n");
}

constexpr Product kProducts[] = {
    {"square", {512, 512, 512}, false, false},    {"square", {1024, 1024, 1024}, false, false},
    {"square", {2048, 2048, 2048}, false, false}, {"fwd1", {128, 256, 784}, false, true},
    {"fwd2", {128, 128, 256}, false, true},       {"fwd3", {128, 10, 128}, false, true},
    {"dX2", {128, 256, 128}, false, false},       {"dX3", {128, 128, 10}, false, false},
    {"dW1", {256, 784, 128}, true, false},        {"dW1 T", {784, 256, 128}, true, false},
    {"dW2", {128, 256, 128}, true, false},        {"dW3", {10, 128, 128}, true, false},
    {"gpt fwd", {2048, 1536, 384}, false, true},  {"gpt fwd", {2048, 384, 1536}, false, true},
    {"gpt dX", {2048, 384, 1536}, false, false},  {"gpt dW", {1536, 384, 2048}, true, false}};

}  // namespace

// matmul_bench [SET] [PRODUCT]: instruction set to force ("" for the fastest), product to run alone. With
// DGX_BENCH_ONE_THREAD set, no measurements on two threads.
int main(int argc, char** argv) {
  for (const InstructionSet set : available_instruction_sets()) {
    if (argc > 1 && name_of(set) == argv[1] && !force_instruction_set(set).ok()) return 70;
  }
  std::printf("instruction set %s; GF/s best (median)\n",
              std::string(name_of(current_instruction_set())).c_str());
  const auto chosen = [&](const Product& p) { return argc < 3 || std::strcmp(argv[2], p.name) == 0; };
  for (const Product& product : kProducts) {
    if (chosen(product)) bench_product(product, 1, nullptr, product.shape.rows >= 1024 ? 0.8 : 0.2);
  }
  Pair pair;
  const bool one_thread = std::getenv("DGX_BENCH_ONE_THREAD") != nullptr;
  for (const Product& product : kProducts) {
    if (!one_thread && chosen(product))
      bench_product(product, 2, &pair, product.shape.rows >= 1024 ? 0.8 : 0.2);
  }
  if (argc < 3) {
    for (const std::int64_t columns : {10, 16, 64, 256, 1536}) bench_column_sum(2048, columns);
  }
}
