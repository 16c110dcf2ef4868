// dump_capture LIBDGX_TORCH MODEL SHAPE DTYPE train|eval: prints the calls of one captured pass.
#include <cstdio>
#include <sstream>
#include <string>

#include "captured_text.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s libdgx_torch.so mlp:784-10|model.pt 128,1,28,28 f32|i64|u8 train|eval\n",
                 argv[0]);
    return 2;
  }
  auto* const backend = dgx::test::open_capture_backend(argv[1]);
  if (!backend) return 66;
  dgx::lowering::CaptureRequest request;
  request.model = argv[2];
  dgx::lowering::BatchField x{"x", {}};
  std::istringstream sizes(argv[3]);
  for (std::string size; std::getline(sizes, size, ',');) x.shape.push_back(std::stoll(size));
  const auto dtype = dgx::dtype_from_name(argv[4]);
  if (!dtype.ok()) return 2;
  x.dtype = *dtype;
  request.fields = {x};
  request.training = std::string(argv[5]) == "train";
  const auto graph = backend->capture(request);
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n%s\n", graph.error().message.c_str(), graph.error().hint.c_str());
    return static_cast<int>(graph.error().code);
  }
  std::fputs(dgx::test::captured_text(*graph).c_str(), stdout);
  return 0;
}
