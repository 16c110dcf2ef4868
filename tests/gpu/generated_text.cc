// Generates the kernels that a device would run for a step, and compiles them with NVRTC; needs no GPU.
//
// usage: generated_text PROGRAM.jsonl OUT [ARCHITECTURE [pairs]]
//
// Writes OUT.cu, the source, and OUT.ptx, NVRTC's output for compute_75; with an architecture (90) also
// OUT.cubin. "pairs": computes elementary functions by pairs of floats. Prints the number of kernels and the
// time it took. Exits 77 without NVRTC.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "device/device_launches.h"
#include "dgx/core/files.h"
#include "dgx/program/program.h"
#include "nvrtc.h"

namespace dgx::exec {
namespace {

using kernels::cuda::Nvrtc;

Result<KernelText> text_of(const std::string& path) {
  DGX_TRY(const std::string lines, read_file(path, std::size_t{1} << 30));
  DGX_TRY(auto program, program::parse_program(lines));
  DGX_TRY(const Plan plan, make_device_plan(std::make_shared<const program::Program>(std::move(program))));
  const DeviceMemory offsets = plan_device_memory(plan);
  const auto memory = std::make_unique_for_overwrite<std::uint8_t[]>(  // never touched
      static_cast<std::size_t>(offsets.size_bytes));
  return make_device_step(plan, offsets, 0, memory.get()).kernels;
}

Status translate(const Nvrtc& nvrtc, const std::string& text, const std::string& out, int architecture) {
  const auto begin = std::chrono::steady_clock::now();
  DGX_TRY(const std::string ptx, nvrtc.translate(text, 75));
  fmt::print("PTX in {:.2f} s\n",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  DGX_CHECK(write_file(out + ".ptx", ptx.substr(0, ptx.find('\0')), Clobber::kReplace));
  if (architecture == 0) return {};
  const auto again = std::chrono::steady_clock::now();
  DGX_TRY(const std::string code, nvrtc.compile(text, architecture));
  fmt::print("sm_{} in {:.2f} s\n", architecture,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - again).count());
  return write_file(out + ".cubin", code, Clobber::kReplace);
}

int run(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string out = argv[2];
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "{}\n", error.message);
    return 1;
  };
  const auto kernels = text_of(argv[1]);
  if (!kernels.ok()) return fail(kernels.error());
  const std::string text = kernels->text(argc > 4);
  fmt::print("{} kernels, {} lines\n", kernels->count(), std::count(text.begin(), text.end(), '\n'));
  if (const Status written = write_file(out + ".cu", text, Clobber::kReplace); !written.ok())
    return fail(written.error());
  const auto nvrtc = Nvrtc::open();
  if (!nvrtc.ok()) {
    fmt::print("skipped: {}\n", nvrtc.error().message);
    return 77;
  }
  const Status done = translate(**nvrtc, text, out, argc > 3 ? std::atoi(argv[3]) : 0);
  return done.ok() ? 0 : fail(done.error());
}

}  // namespace
}  // namespace dgx::exec

int main(int argc, char** argv) { return dgx::exec::run(argc, argv); }
