#include "nvrtc.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

namespace dgx::kernels::cuda {
namespace {

TEST_CASE("without NVRTC a device is refused, with what to install and how to name it") {
  ::setenv("DGX_NVRTC", "/nonexistent/libnvrtc.so", 1);
  const auto nvrtc = Nvrtc::open();
  REQUIRE_FALSE(nvrtc.ok());
  CHECK(nvrtc.error().code == ErrorCode::kInternal);
  CHECK(nvrtc.error().message.starts_with("--device cuda: it needs NVRTC"));
  CHECK(nvrtc.error().message.find("/nonexistent/libnvrtc.so") != std::string::npos);
  CHECK(nvrtc.error().hint.find("nvidia-cuda-nvrtc") != std::string::npos);
  CHECK(nvrtc.error().hint.find("DGX_NVRTC") != std::string::npos);
}

}  // namespace
}  // namespace dgx::kernels::cuda
