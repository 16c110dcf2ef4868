// The GPU, through the CUDA runtime: one context, a stream for work and one for downloads. Built by nvcc into
// libdgx_cuda.so (CMakeLists.txt), opened by name.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dgx/kernels/cuda/interface.h"
#include "kernel_device.h"
#include "nvrtc.h"

namespace dgx::kernels::cuda {
/// Named, since nvcc puts a digest of the source's path into the names of an unnamed namespace, and two
/// builds in different folders are to give the same symbols. Nothing else uses it.
namespace gpu {

template <class Handle, cudaError_t (*kFree)(Handle)>
struct Free {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(kFree(handle)); }
};
/// A handle of the CUDA runtime, freed with its owner.
template <class Handle, cudaError_t (*kFree)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Free<Handle, kFree>>;
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

Status check(const DeviceInfo& info, cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  return device_error(info, what + ": " + text_of(error));
}

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Error no_driver() {
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (driver == 0) {
    return internal_error("--device cuda: this machine has no NVIDIA driver",
                          "use --device cpu, or a machine with an NVIDIA GPU and its driver");
  }
  return internal_error("--device cuda: the NVIDIA driver knows CUDA " + version(driver) +
                            ", this version of dgx needs " + version(CUDART_VERSION),
                        "install a newer driver, or use --device cpu");
}

Status read_info(DeviceInfo& info) {
  cudaDeviceProp properties{};
  DGX_CHECK(check(info, cudaGetDeviceProperties(&properties, 0), "asking what the device is"));
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  DGX_CHECK(check(info, cudaDriverGetVersion(&info.driver), "asking for the driver's version"));
  DGX_CHECK(check(info, cudaRuntimeGetVersion(&info.runtime), "asking for the runtime's version"));
  std::size_t free = 0, all = 0;
  DGX_CHECK(check(info, cudaMemGetInfo(&free, &all), "asking for the free memory"));
  info.memory_bytes = static_cast<std::int64_t>(all);
  info.free_bytes = static_cast<std::int64_t>(free);
  return {};
}

/// Chooses how the kernels compute elementary functions: without binary64 where it is an eighth as fast as
/// binary32 or slower, as on all GPUs but those of data centres (64 or 32 times slower, against 2).
/// DGX_DEVICE_FUNCTIONS overrides the choice: pairs or binary64.
Status choose_functions(DeviceInfo& info) {
  const char* const said = std::getenv("DGX_DEVICE_FUNCTIONS");
  const std::string_view wish = said == nullptr ? "" : said;
  if (wish.empty()) {
    int times_as_fast = 0;
    DGX_CHECK(check(info,
                    cudaDeviceGetAttribute(&times_as_fast, cudaDevAttrSingleToDoublePrecisionPerfRatio, 0),
                    "asking how fast the device is"));
    info.functions_by_pairs = times_as_fast >= 8;
  } else if (wish == "pairs" || wish == "binary64") {
    info.functions_by_pairs = wish == "pairs";
  } else {
    return usage_error("DGX_DEVICE_FUNCTIONS: unknown value '" + std::string(wish) + "'",
                       "set it to pairs or binary64, or not at all");
  }
  return {};
}

/// Opens the first device that CUDA shows (CUDA_VISIBLE_DEVICES chooses).
Result<DeviceInfo> open_first() {
  // Load all kernels now, not when each is first used: that may be while a graph is recorded, when nothing
  // may wait for the device.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) return no_driver();
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) {
    return internal_error("--device cuda: there is no GPU",
                          "use --device cpu, or check CUDA_VISIBLE_DEVICES");
  }
  if (counted != cudaSuccess) return internal_error("--device cuda: " + text_of(counted), "use --device cpu");
  DeviceInfo info;
  DGX_CHECK(check(info, cudaSetDevice(0), "opening the device"));
  DGX_CHECK(read_info(info));
  DGX_CHECK(choose_functions(info));
  return info;
}

Result<Stream> make_stream(const DeviceInfo& info) {
  cudaStream_t made = nullptr;
  DGX_CHECK(check(info, cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream"));
  return Stream(made);
}

class GpuDevice final : public KernelDevice<GpuDevice> {
 public:
  ~GpuDevice() override {
    for (const Stream* stream : {&stream_, &downloads_}) {
      if (*stream) static_cast<void>(cudaStreamSynchronize(stream->get()));
    }
  }

  [[nodiscard]] Status open() {
    DGX_TRY(info_, open_first());
    DGX_TRY(nvrtc_, Nvrtc::open());
    for (Stream* stream : {&stream_, &downloads_}) {
      DGX_TRY(*stream, make_stream(info_));
    }
    // Blocking synchronisation: a thread that waits for a download is in no hurry, and should not spin next
    // to a training run.
    for (Event* event : {&computed_, &downloaded_}) {
      DGX_TRY(*event, make_event(cudaEventDisableTiming | cudaEventBlockingSync));
    }
    return {};
  }

  [[nodiscard]] Result<void*> allocate(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(size_bytes < 1 ? 1 : size_bytes));
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // it is not sticky
      std::size_t free = 0, all = 0;
      DGX_CHECK(check(cudaMemGetInfo(&free, &all), "asking for the free memory"));
      return no_memory(size_bytes, static_cast<std::int64_t>(free));
    }
    DGX_CHECK(check(error, "taking memory"));
    memory_.emplace_back(memory);
    return memory;
  }

  [[nodiscard]] Result<void*> allocate_staging(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    void* memory = nullptr;
    DGX_CHECK(check(cudaMallocHost(&memory, static_cast<std::size_t>(size_bytes < 1 ? 1 : size_bytes)),
                    "taking staging memory"));
    staging_.emplace_back(memory);
    return memory;
  }

  [[nodiscard]] Status upload(void* to, const void* from, std::int64_t size_bytes) override {
    return move(stream_, to, from, size_bytes, cudaMemcpyHostToDevice, "copying to the device");
  }

  [[nodiscard]] Status download(void* to, const void* from, std::int64_t size_bytes) override {
    DGX_CHECK(move(stream_, to, from, size_bytes, cudaMemcpyDeviceToHost, "copying from the device"));
    return synchronize();
  }

  [[nodiscard]] Status begin_download(void* to_staging, const void* from, std::int64_t size_bytes) override {
    constexpr const char* kWhat = "beginning a copy from the device";
    DGX_CHECK(state());
    DGX_CHECK(check(cudaEventRecord(computed_.get(), stream_.get()), kWhat));
    DGX_CHECK(check(cudaStreamWaitEvent(downloads_.get(), computed_.get()), kWhat));
    DGX_CHECK(move(downloads_, to_staging, from, size_bytes, cudaMemcpyDeviceToHost, kWhat));
    return check(cudaEventRecord(downloaded_.get(), downloads_.get()), kWhat);
  }

  [[nodiscard]] Status finish_download() override {
    DGX_CHECK(state());
    return check(cudaEventSynchronize(downloaded_.get()), "copying from the device");
  }

  [[nodiscard]] Status copy(void* to, const void* from, std::int64_t size_bytes) override {
    return move(stream_, to, from, size_bytes, cudaMemcpyDeviceToDevice, "copying on the device");
  }

  [[nodiscard]] Status clear(void* to, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    return check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(size_bytes), stream_.get()),
                 "clearing memory");
  }

  [[nodiscard]] Result<std::int32_t> compile(const std::string& text, std::int32_t count) override {
    DGX_CHECK(state());
    DGX_TRY(const std::string code, nvrtc_->compile(text, 10 * info_.major + info_.minor));
    cudaLibrary_t library = nullptr;
    constexpr const char* kWhat = "loading generated kernels";
    DGX_CHECK(
        check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), kWhat));
    libraries_.emplace_back(library);
    const auto first = static_cast<std::int32_t>(kernels_.size());
    for (std::int32_t n = 0; n < count; ++n) {
      cudaKernel_t kernel = nullptr;
      DGX_CHECK(check(cudaLibraryGetKernel(&kernel, library, ("k" + std::to_string(n)).c_str()), kWhat));
      cudaFuncAttributes attributes{};  // loads it: nothing may wait for the device while a graph is recorded
      kernels_.push_back(reinterpret_cast<const void*>(kernel));
      DGX_CHECK(check(cudaFuncGetAttributes(&attributes, kernels_.back()), kWhat));
    }
    return first;
  }

  [[nodiscard]] Status begin_recording() override {
    DGX_CHECK(state());
    return check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
                 "beginning a graph");
  }

  [[nodiscard]] Result<int> end_recording() override {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &graph);
    DGX_CHECK(state());
    DGX_CHECK(check(ended, "ending a graph"));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    DGX_CHECK(check(made, "making a graph"));
    graphs_.emplace_back(ready);
    return static_cast<int>(graphs_.size()) - 1;
  }

  [[nodiscard]] Status replay(int recording) override {
    DGX_CHECK(state());
    return check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(recording)].get(), stream_.get()),
                 "running a step's graph");
  }

  [[nodiscard]] Status mark() override {
    DGX_CHECK(state());
    if (marks_ == events_.size()) {
      DGX_TRY(Event event, make_event(cudaEventDefault));
      events_.push_back(std::move(event));
    }
    return check(cudaEventRecord(events_[marks_++].get(), stream_.get()), "reading the device's clock");
  }

  [[nodiscard]] Result<std::vector<double>> marked_seconds() override {
    DGX_CHECK(synchronize());
    std::vector<double> out;
    for (std::size_t n = 1; n < marks_; ++n) {
      float milliseconds = 0;
      DGX_CHECK(check(cudaEventElapsedTime(&milliseconds, events_[n - 1].get(), events_[n].get()),
                      "reading the device's clock"));
      out.push_back(static_cast<double>(milliseconds) * 1e-3);
    }
    marks_ = 0;
    return out;
  }

  [[nodiscard]] Status synchronize() override {
    DGX_CHECK(state());
    return check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
  }

  template <class... A>
  Status queue(const char* name, Grid grid, void (*kernel)(A...), A... arguments) {
    DGX_CHECK(state());
    kernel<<<static_cast<unsigned>(grid.blocks), grid.threads, 0, stream_.get()>>>(arguments...);
    const cudaError_t started = cudaGetLastError();
    return started == cudaSuccess ? Status() : check(started, "starting kernel " + std::string(name));
  }

  Status queue(const Generated& generated) {
    DGX_CHECK(state());
    void* argument = const_cast<void**>(generated.addresses.data());
    const cudaError_t started = cudaLaunchKernel(kernels_[static_cast<std::size_t>(generated.kernel)],
                                                 dim3(static_cast<unsigned>(generated.blocks)),
                                                 dim3(generated.threads), &argument, 0, stream_.get());
    return started == cudaSuccess
               ? Status()
               : check(started, "starting generated kernel " + std::to_string(generated.kernel));
  }

 private:
  [[nodiscard]] Status check(cudaError_t error, const std::string& what) {
    return error == cudaSuccess ? Status() : fail(what + ": " + text_of(error));
  }

  [[nodiscard]] Result<Event> make_event(unsigned flags) {
    cudaEvent_t made = nullptr;
    DGX_CHECK(check(cudaEventCreateWithFlags(&made, flags), "making an event"));
    return Event(made);
  }

  [[nodiscard]] Status move(const Stream& stream, void* to, const void* from, std::int64_t size_bytes,
                            cudaMemcpyKind kind, const char* what) {
    DGX_CHECK(state());
    return check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), kind, stream.get()), what);
  }

  // Freed from the last to the first, after the streams' work.
  Stream stream_, downloads_;
  Event computed_, downloaded_;
  std::vector<Event> events_;  // for marks
  std::size_t marks_ = 0;      // made since marked_seconds()
  std::vector<Owned<void*, cudaFreeHost>> staging_;
  std::vector<Owned<void*, cudaFree>> memory_;
  std::unique_ptr<Nvrtc> nvrtc_;
  std::vector<Owned<cudaLibrary_t, cudaLibraryUnload>> libraries_;
  std::vector<const void*> kernels_;
  std::vector<Owned<cudaGraphExec_t, cudaGraphExecDestroy>> graphs_;
};

}  // namespace gpu
}  // namespace dgx::kernels::cuda

extern "C" __attribute__((visibility("default"))) bool dgx_open_cuda_device(
    const char* interface, dgx::Result<std::unique_ptr<dgx::kernels::cuda::Device>>* out) {
  if (std::strcmp(interface, dgx::kernels::cuda::kDeviceInterface) != 0) return false;
  auto device = std::make_unique<dgx::kernels::cuda::gpu::GpuDevice>();
  if (dgx::Status opened = device->open(); !opened.ok()) {
    *out = std::move(opened).error();
  } else {
    *out = std::unique_ptr<dgx::kernels::cuda::Device>(std::move(device));
  }
  return true;
}
