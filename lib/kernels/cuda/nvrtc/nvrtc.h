#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels::cuda {

/// NVRTC, the compiler library of NVIDIA's toolkit: opened by name, never linked.
class Nvrtc {
 public:
  /// Opens $DGX_NVRTC, else libnvrtc.so.13 where the system finds it, or in a toolkit at /usr/local/cuda.
  /// kInternal, saying why and what to install, if there is none that can be used.
  [[nodiscard]] static Result<std::unique_ptr<Nvrtc>> open();
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;

  /// Returns machine code, or PTX if this NVRTC does not know the architecture (90 is sm_90): either may be
  /// loaded.
  [[nodiscard]] Result<std::string> compile(const std::string& source, int architecture) const;
  /// Returns PTX.
  [[nodiscard]] Result<std::string> translate(const std::string& source, int architecture) const;

 private:
  struct Functions;
  explicit Nvrtc(std::unique_ptr<Functions> functions);
  [[nodiscard]] Result<std::string> make(const std::string& source, const std::string& architecture,
                                         bool is_ptx) const;
  std::unique_ptr<Functions> functions_;
  std::vector<int> architectures_;
};

/// A header that generated kernels may include, and the name by which they do.
struct EmbeddedHeader {
  const char* name;
  const char* text;
};
[[nodiscard]] const std::vector<EmbeddedHeader>& embedded_headers();

}  // namespace dgx::kernels::cuda
