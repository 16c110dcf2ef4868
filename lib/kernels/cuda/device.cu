// The GPU, through the CUDA runtime: one context, a stream for work and one for downloads. Built by nvcc into
// libdgx_cuda.so (CMakeLists.txt), opened by name.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "dgx/kernels/cuda/interface.h"
#include "kernel_device.h"
#include "nvrtc.h"

namespace dgx::kernels::cuda {
namespace {

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

class GpuDevice final : public KernelDevice<GpuDevice> {
 public:
  ~GpuDevice() override {
    for (cudaStream_t stream : {stream_, downloads_}) {
      if (stream != nullptr) static_cast<void>(cudaStreamSynchronize(stream));
    }
    for (cudaGraphExec_t graph : graphs_) static_cast<void>(cudaGraphExecDestroy(graph));
    for (cudaLibrary_t library : libraries_) static_cast<void>(cudaLibraryUnload(library));
    for (void* memory : memory_) static_cast<void>(cudaFree(memory));
    for (void* memory : staging_) static_cast<void>(cudaFreeHost(memory));
    events_.insert(events_.end(), {computed_, downloaded_});
    for (cudaEvent_t event : events_) {
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
    }
    for (cudaStream_t stream : {stream_, downloads_}) {
      if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
    }
  }

  /// The first device that CUDA shows (CUDA_VISIBLE_DEVICES chooses).
  [[nodiscard]] Status open() {
    // Load all kernels now, not when each is first used: that may be while a graph is recorded, when nothing
    // may wait for the device.
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    int count = 0;
    const cudaError_t counted = cudaGetDeviceCount(&count);
    if (counted == cudaErrorInsufficientDriver) return no_driver();
    if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) {
      return internal_error("--device cuda: there is no GPU",
                            "use --device cpu, or look at CUDA_VISIBLE_DEVICES");
    }
    if (counted != cudaSuccess)
      return internal_error("--device cuda: " + text_of(counted), "use --device cpu");
    DGX_CHECK(check(cudaSetDevice(0), "opening the device"));
    DGX_CHECK(read_info());
    DGX_CHECK(choose_functions());
    DGX_TRY(nvrtc_, Nvrtc::open());
    for (cudaStream_t* stream : {&stream_, &downloads_})
      DGX_CHECK(check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a stream"));
    // Blocking synchronisation: a thread that waits for a download is in no hurry, and should not spin next
    // to a training run.
    for (cudaEvent_t* event : {&computed_, &downloaded_}) {
      DGX_CHECK(check(cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync),
                      "making an event"));
    }
    return {};
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }

  [[nodiscard]] Result<void*> allocate(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(size_bytes < 1 ? 1 : size_bytes));
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // it is not sticky
      std::size_t free = 0, all = 0;
      DGX_CHECK(check(cudaMemGetInfo(&free, &all), "asking for the free memory"));
      return usage_error(info_.name + ": no " + std::to_string(size_bytes) +
                             " bytes of memory are free, but " + std::to_string(free),
                         "use a smaller batch, or --device cpu");
    }
    DGX_CHECK(check(error, "taking memory"));
    memory_.push_back(memory);
    return memory;
  }

  [[nodiscard]] Result<void*> allocate_staging(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    void* memory = nullptr;
    DGX_CHECK(check(cudaMallocHost(&memory, static_cast<std::size_t>(size_bytes < 1 ? 1 : size_bytes)),
                    "taking staging memory"));
    staging_.push_back(memory);
    return memory;
  }

  [[nodiscard]] Status upload(void* to, const void* from, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    return check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), cudaMemcpyHostToDevice, stream_),
        "copying to the device");
  }

  [[nodiscard]] Status download(void* to, const void* from, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    DGX_CHECK(check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), cudaMemcpyDeviceToHost, stream_),
        "copying from the device"));
    return synchronize();
  }

  [[nodiscard]] Status begin_download(void* to_staging, const void* from, std::int64_t size_bytes) override {
    constexpr const char* kWhat = "beginning a copy from the device";
    DGX_CHECK(state());
    DGX_CHECK(check(cudaEventRecord(computed_, stream_), kWhat));
    DGX_CHECK(check(cudaStreamWaitEvent(downloads_, computed_), kWhat));
    DGX_CHECK(check(cudaMemcpyAsync(to_staging, from, static_cast<std::size_t>(size_bytes),
                                    cudaMemcpyDeviceToHost, downloads_),
                    kWhat));
    return check(cudaEventRecord(downloaded_, downloads_), kWhat);
  }

  [[nodiscard]] Status finish_download() override {
    DGX_CHECK(state());
    return check(cudaEventSynchronize(downloaded_), "copying from the device");
  }

  [[nodiscard]] Status copy(void* to, const void* from, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    return check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), cudaMemcpyDeviceToDevice, stream_),
        "copying on the device");
  }

  [[nodiscard]] Status clear(void* to, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    return check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(size_bytes), stream_), "clearing memory");
  }

  [[nodiscard]] Result<std::int32_t> compile(const std::string& text, std::int32_t count) override {
    DGX_CHECK(state());
    DGX_TRY(const std::string code, nvrtc_->compile(text, 10 * info_.major + info_.minor));
    cudaLibrary_t library = nullptr;
    constexpr const char* kWhat = "loading generated kernels";
    DGX_CHECK(
        check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), kWhat));
    libraries_.push_back(library);
    const auto first = static_cast<std::int32_t>(kernels_.size());
    for (std::int32_t n = 0; n < count; ++n) {
      cudaKernel_t kernel = nullptr;
      DGX_CHECK(check(cudaLibraryGetKernel(&kernel, library, ("k" + std::to_string(n)).c_str()), kWhat));
      cudaFuncAttributes attributes{};  // loads it: nothing may wait for the device while a graph is recorded
      DGX_CHECK(check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), kWhat));
      kernels_.push_back(kernel);
    }
    return first;
  }

  [[nodiscard]] Status begin_recording() override {
    DGX_CHECK(state());
    return check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning a graph");
  }

  [[nodiscard]] Result<int> end_recording() override {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    DGX_CHECK(state());
    DGX_CHECK(check(ended, "ending a graph"));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    DGX_CHECK(check(made, "making a graph"));
    graphs_.push_back(ready);
    return static_cast<int>(graphs_.size()) - 1;
  }

  [[nodiscard]] Status replay(int recording) override {
    DGX_CHECK(state());
    return check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(recording)], stream_),
                 "running a step's graph");
  }

  [[nodiscard]] Status mark() override {
    DGX_CHECK(state());
    if (marks_ == events_.size()) {
      events_.push_back(nullptr);
      DGX_CHECK(check(cudaEventCreate(&events_.back()), "making an event"));
    }
    return check(cudaEventRecord(events_[marks_++], stream_), "reading the device's clock");
  }

  [[nodiscard]] Result<std::vector<double>> marked_seconds() override {
    DGX_CHECK(synchronize());
    std::vector<double> out;
    for (std::size_t n = 1; n < marks_; ++n) {
      float milliseconds = 0;
      DGX_CHECK(check(cudaEventElapsedTime(&milliseconds, events_[n - 1], events_[n]),
                      "reading the device's clock"));
      out.push_back(static_cast<double>(milliseconds) * 1e-3);
    }
    marks_ = 0;
    return out;
  }

  [[nodiscard]] Status synchronize() override {
    DGX_CHECK(state());
    return check(cudaStreamSynchronize(stream_), "waiting for the device");
  }

  template <class... A>
  Status queue(const char* name, Grid grid, void (*kernel)(A...), A... arguments) {
    DGX_CHECK(state());
    kernel<<<static_cast<unsigned>(grid.blocks), grid.threads, 0, stream_>>>(arguments...);
    const cudaError_t started = cudaGetLastError();
    if (started == cudaSuccess) return {};
    return check(started, "starting kernel " + std::string(name));
  }

  Status queue(const Generated& generated) {
    DGX_CHECK(state());
    void* argument = const_cast<void**>(generated.addresses.data());
    const auto* const kernel =
        reinterpret_cast<const void*>(kernels_[static_cast<std::size_t>(generated.kernel)]);
    const cudaError_t started = cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(generated.blocks)),
                                                 dim3(generated.threads), &argument, 0, stream_);
    if (started == cudaSuccess) return {};
    return check(started, "starting generated kernel " + std::to_string(generated.kernel));
  }

 private:
  [[nodiscard]] Status state() const {
    const std::lock_guard lock(mutex_);
    return error_ ? Status(*error_) : Status();
  }

  /// Keeps the first error.
  [[nodiscard]] Status check(cudaError_t error, const std::string& what) {
    if (error == cudaSuccess) return {};
    const std::lock_guard lock(mutex_);
    if (!error_) {
      const std::string name = info_.name.empty() ? "--device cuda" : info_.name;
      error_ = internal_error(name + ": " + what + ": " + text_of(error), kAfterDeviceError);
    }
    return *error_;
  }

  [[nodiscard]] static Status no_driver() {
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

  static std::string version(int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  }

  [[nodiscard]] Status read_info() {
    cudaDeviceProp properties{};
    DGX_CHECK(check(cudaGetDeviceProperties(&properties, 0), "asking what the device is"));
    info_.name = properties.name;
    info_.major = properties.major;
    info_.minor = properties.minor;
    DGX_CHECK(check(cudaDriverGetVersion(&info_.driver), "asking for the driver's version"));
    DGX_CHECK(check(cudaRuntimeGetVersion(&info_.runtime), "asking for the runtime's version"));
    std::size_t free = 0, all = 0;
    DGX_CHECK(check(cudaMemGetInfo(&free, &all), "asking for the free memory"));
    info_.memory_bytes = static_cast<std::int64_t>(all);
    info_.free_bytes = static_cast<std::int64_t>(free);
    return {};
  }

  /// Chooses how the kernels compute elementary functions: without binary64 where it is an eighth as fast as
  /// binary32 or slower, as on all GPUs but those of data centres (64 or 32 times slower, against 2).
  /// DGX_DEVICE_FUNCTIONS overrides the choice: pairs or binary64.
  [[nodiscard]] Status choose_functions() {
    const char* const said = std::getenv("DGX_DEVICE_FUNCTIONS");
    const std::string_view wish = said == nullptr ? "" : said;
    if (wish.empty()) {
      int times_as_fast = 0;
      DGX_CHECK(check(cudaDeviceGetAttribute(&times_as_fast, cudaDevAttrSingleToDoublePrecisionPerfRatio, 0),
                      "asking how fast the device is"));
      info_.functions_by_pairs = times_as_fast >= 8;
    } else if (wish == "pairs" || wish == "binary64") {
      info_.functions_by_pairs = wish == "pairs";
    } else {
      return usage_error("DGX_DEVICE_FUNCTIONS: what is '" + std::string(wish) + "'?",
                         "set it to pairs or binary64, or not at all");
    }
    return {};
  }

  DeviceInfo info_;
  cudaStream_t stream_ = nullptr, downloads_ = nullptr;
  cudaEvent_t computed_ = nullptr, downloaded_ = nullptr;
  std::vector<cudaEvent_t> events_;  // for marks
  std::size_t marks_ = 0;            // made since marked_seconds()
  mutable std::mutex mutex_;         // guards error_
  std::optional<Error> error_;
  std::vector<void*> memory_, staging_;
  std::vector<cudaGraphExec_t> graphs_;
  std::unique_ptr<Nvrtc> nvrtc_;
  std::vector<cudaLibrary_t> libraries_;
  std::vector<cudaKernel_t> kernels_;
};

}  // namespace
}  // namespace dgx::kernels::cuda

extern "C" __attribute__((visibility("default"))) bool dgx_open_cuda_device(
    const char* interface, dgx::Result<std::unique_ptr<dgx::kernels::cuda::Device>>* out) {
  if (std::strcmp(interface, dgx::kernels::cuda::kDeviceInterface) != 0) return false;
  auto device = std::make_unique<dgx::kernels::cuda::GpuDevice>();
  if (dgx::Status opened = device->open(); !opened.ok()) {
    *out = std::move(opened).error();
  } else {
    *out = std::unique_ptr<dgx::kernels::cuda::Device>(std::move(device));
  }
  return true;
}
