#include "matmul_peers.h"

#if DGX_BENCH_TORCH
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#endif

#include <dlfcn.h>

namespace dgx::bench {

using kernels::cpu::MatmulShape;

namespace {

using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
using SetThreads = void (*)(int);

// Opened, not linked, and with RTLD_DEEPBIND: libtorch would otherwise call OpenBLAS's functions instead of
// its own.
void* openblas_library() {
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  return library;
}

std::function<void()> openblas(const MatmulShape& s, const float* a, bool ta, const float* b, bool tb,
                               float* c, int threads) {
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(openblas_library(), "cblas_sgemm"));
  const auto set_threads =
      reinterpret_cast<SetThreads>(dlsym(openblas_library(), "openblas_set_num_threads"));
  const int m = static_cast<int>(s.rows), n = static_cast<int>(s.columns), k = static_cast<int>(s.depth);
  constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
  set_threads(threads);
  return [=] {
    sgemm(kRowMajor, ta ? kTransposed : kAsIs, tb ? kTransposed : kAsIs, m, n, k, 1, a, ta ? m : k, b,
          tb ? k : n, 0, c, n);
  };
}

/// OpenBLAS's name, with the kernels that it chose for this processor or was told to use.
std::string openblas_name() {
  using Name = char* (*)();
  const auto core = reinterpret_cast<Name>(dlsym(openblas_library(), "openblas_get_corename"));
  return core == nullptr ? "OpenBLAS" : std::string("OpenBLAS ") + core();
}

#if DGX_BENCH_TORCH
at::Tensor tensor(const float* data, std::int64_t rows, std::int64_t columns, bool transposed) {
  float* numbers = const_cast<float*>(data);
  return transposed ? at::from_blob(numbers, {columns, rows}).t() : at::from_blob(numbers, {rows, columns});
}

std::function<void()> torch(const MatmulShape& s, const float* a, bool ta, const float* b, bool tb, float* c,
                            int threads) {
  at::set_num_threads(threads);
  return [x = tensor(a, s.rows, s.depth, ta), y = tensor(b, s.depth, s.columns, tb),
          z = at::from_blob(c, {s.rows, s.columns})]() mutable {
    at::NoGradGuard guard;
    at::mm_out(z, x, y);
  };
}
#endif

}  // namespace

std::vector<Peer> peers() {
  std::vector<Peer> out;
  if (openblas_library() != nullptr) out.push_back({openblas_name(), openblas});
#if DGX_BENCH_TORCH
  out.push_back({"libtorch", torch});
#endif
  return out;
}

}  // namespace dgx::bench
