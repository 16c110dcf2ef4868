#include "gpu_peers.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace dgx::bench {
namespace {

// The parts of cublas_v2.h that are used here; all its enumerations are int.
using Create = int (*)(void** handle);
using SetMathMode = int (*)(void* handle, int mode);
using GetVersion = int (*)(void* handle, int* version);
using Sgemm = int (*)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha,
                      const float* a, int lda, long long stride_a, const float* b, int ldb,
                      long long stride_b, const float* beta, float* c, int ldc, long long stride_c,
                      int count);
constexpr int kDefaultMath = 0, kTf32Math = 3;

template <class F>
F function(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

void* open_library() {
  for (const char* const folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    for (const char* const version : {".13", ".12", ".11", ""}) {
      const std::string name = std::string(folder) + "libcublas.so" + version;
      if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr)
        return library;
    }
  }
  return nullptr;
}

void must(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "%s: %d\n", what, status);
  std::exit(70);
}

}  // namespace

std::optional<Cublas> Cublas::open() {
  unsetenv("NVIDIA_TF32_OVERRIDE");  // it would override queue()'s mode
  Cublas out;
  out.library_ = open_library();
  if (out.library_ == nullptr) {
    std::fprintf(stderr, "no libcublas.so to compare with: LD_LIBRARY_PATH may name its folder\n");
    return std::nullopt;
  }
  // The driver's function, for the context that cuBLAS shares with the runtime in the device's module.
  if (void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); driver != nullptr) {
    out.wait_ = function<int (*)()>(driver, "cuCtxSynchronize");
  }
  const auto create = function<Create>(out.library_, "cublasCreate_v2");
  if (out.wait_ == nullptr || create == nullptr || create(&out.handle_) != 0) {
    std::fprintf(stderr, "cuBLAS does not open a GPU\n");
    return std::nullopt;
  }
  return out;
}

std::string Cublas::name() const {
  int version = 0;
  must(function<GetVersion>(library_, "cublasGetVersion_v2")(handle_, &version), "cublasGetVersion");
  // The number is 110805 up to version 12, 130000 from 13.0 on.
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

void Cublas::set_mode(int mode) const {
  if (mode == mode_) return;
  must(function<SetMathMode>(library_, "cublasSetMathMode")(handle_, mode), "cublasSetMathMode");
  mode_ = mode;
}

void Cublas::queue(const GpuProduct& p, bool tf32) const {
  static const auto sgemm = function<Sgemm>(library_, "cublasSgemmStridedBatched");
  set_mode(tf32 ? kTf32Math : kDefaultMath);
  constexpr float kOne = 1, kZero = 0;
  const auto rows = static_cast<int>(p.rows), columns = static_cast<int>(p.columns),
             depth = static_cast<int>(p.depth);
  // cuBLAS is column-major: this computes the transposed product.
  must(sgemm(handle_, p.b_transposed ? 1 : 0, p.a_transposed ? 1 : 0, columns, rows, depth, &kOne, p.b,
             p.b_transposed ? depth : columns, p.columns * p.depth, p.a, p.a_transposed ? rows : depth,
             p.rows * p.depth, &kZero, p.out, columns, p.rows * p.columns, static_cast<int>(p.batch)),
       "cublasSgemmStridedBatched");
}

void Cublas::synchronize() const { must(wait_(), "cuCtxSynchronize"); }

}  // namespace dgx::bench
