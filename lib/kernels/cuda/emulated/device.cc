// The kernels on the CPU, for tests without a GPU (and, under sanitizers, with one): libdgx_cuda_emulated.so.
// Asynchronous calls are done at once, except a begun download, which is done as late as possible.
// DGX_EMULATED_DEVICE sets the behaviour, in words separated by commas:
//
//   memory=BYTES      the size of its memory
//   lost-after=N      after N launches it is lost: every call is an error from then on
//   order=reversed|shuffled    the order in which threads and blocks take turns
//   functions=pairs|binary64   how it computes elementary functions; binary64 unless given
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "../kernel_device.h"
#include "call.h"
#include "compiler.h"
#include "dgx/kernels/cuda/interface.h"

namespace dgx::kernels::cuda::emulated {
namespace {

constexpr std::align_val_t kAlignment{256};

struct Behaviour {
  std::int64_t memory_bytes = std::int64_t{1} << 40;
  std::optional<std::int64_t> lost_after;
  Order order = Order::kForward;
  bool functions_by_pairs = false;
};

Result<Behaviour> behaviour_of(std::string_view text) {
  Behaviour out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name(word.substr(0, equals)), value(word.substr(std::min(equals + 1, word.size())));
    if (name == "memory") {
      out.memory_bytes = std::strtoll(value.c_str(), nullptr, 10);
    } else if (name == "lost-after") {
      out.lost_after = std::strtoll(value.c_str(), nullptr, 10);
    } else if (name == "order" && (value == "reversed" || value == "shuffled")) {
      out.order = value == "reversed" ? Order::kReversed : Order::kShuffled;
    } else if (name == "functions" && (value == "pairs" || value == "binary64")) {
      out.functions_by_pairs = value == "pairs";
    } else {
      return usage_error("DGX_EMULATED_DEVICE: unknown value '" + std::string(word) + "'");
    }
  }
  return out;
}

/// Filled with nonzero bytes, so that no kernel can rely on what memory holds at first.
struct Memory {
  explicit Memory(std::int64_t size_bytes)
      : data(::operator new(static_cast<std::size_t>(size_bytes), kAlignment)), size(size_bytes) {
    std::memset(data, 0xa5, static_cast<std::size_t>(size_bytes));
  }
  ~Memory() { ::operator delete(data, kAlignment); }
  Memory(const Memory&) = delete;
  void* data;
  std::int64_t size;
};

class EmulatedDevice final : public KernelDevice<EmulatedDevice> {
 public:
  explicit EmulatedDevice(const Behaviour& behaviour) : behaviour_(behaviour), runner_(behaviour.order) {
    info_ = {"emulated device",           0, 0, 0, 0, behaviour.memory_bytes, behaviour.memory_bytes, true,
             behaviour.functions_by_pairs};
  }

  [[nodiscard]] Result<void*> allocate(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    size_bytes = std::max<std::int64_t>(size_bytes, 1);
    if (size_bytes > info_.free_bytes) return no_memory(size_bytes, info_.free_bytes);
    info_.free_bytes -= size_bytes;
    memory_.push_back(std::make_unique<Memory>(size_bytes));
    return memory_.back()->data;
  }

  [[nodiscard]] Result<void*> allocate_staging(std::int64_t size_bytes) override {
    DGX_CHECK(state());
    memory_.push_back(std::make_unique<Memory>(std::max<std::int64_t>(size_bytes, 1)));
    return memory_.back()->data;
  }

  [[nodiscard]] Status upload(void* to, const void* from, std::int64_t size_bytes) override {
    return move(to, from, size_bytes);
  }
  [[nodiscard]] Status download(void* to, const void* from, std::int64_t size_bytes) override {
    return move(to, from, size_bytes);
  }
  [[nodiscard]] Status begin_download(void* to_staging, const void* from, std::int64_t size_bytes) override {
    DGX_CHECK(state());
    download_ = [=, this] { return move(to_staging, from, size_bytes); };
    return {};
  }
  [[nodiscard]] Status finish_download() override { return download_(); }
  [[nodiscard]] Status synchronize() override { return state(); }

  [[nodiscard]] Status mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return state();
  }
  [[nodiscard]] Result<std::vector<double>> marked_seconds() override {
    DGX_CHECK(state());
    std::vector<double> out;
    for (std::size_t n = 1; n < marks_.size(); ++n)
      out.push_back(std::chrono::duration<double>(marks_[n] - marks_[n - 1]).count());
    marks_.clear();
    return out;
  }

  [[nodiscard]] Status copy(void* to, const void* from, std::int64_t size_bytes) override {
    return note([=, this] { return move(to, from, size_bytes); });
  }
  [[nodiscard]] Status clear(void* to, std::int64_t size_bytes) override {
    return note([=, this] {
      std::memset(to, 0, static_cast<std::size_t>(size_bytes));
      return state();
    });
  }

  [[nodiscard]] Result<std::int32_t> compile(const std::string& text, std::int32_t count) override {
    DGX_CHECK(state());
    DGX_TRY(const auto functions, compile_library(text, count));
    kernels_.insert(kernels_.end(), functions.begin(), functions.end());
    return static_cast<std::int32_t>(kernels_.size()) - count;
  }

  [[nodiscard]] Status begin_recording() override {
    DGX_CHECK(state());
    recordings_.emplace_back();
    recording_ = true;
    return {};
  }
  [[nodiscard]] Result<int> end_recording() override {
    DGX_CHECK(state());
    recording_ = false;
    return static_cast<int>(recordings_.size()) - 1;
  }
  [[nodiscard]] Status replay(int recording) override {
    for (const auto& work : recordings_[static_cast<std::size_t>(recording)]) DGX_CHECK(work());
    return state();
  }

  template <class... A>
  Status queue(const char* name, Grid grid, void (*kernel)(A...), A... arguments) {
    return note([=, this] { return run(name, grid, [=] { call(kernel, arguments...); }); });
  }
  Status queue(const Generated& generated) {
    const GeneratedFunction kernel = kernels_[static_cast<std::size_t>(generated.kernel)];
    const std::string name = "generated " + std::to_string(generated.kernel);
    return note([=, this] {
      return run(name, {generated.blocks, generated.threads},
                 [&] { call_generated(kernel, generated.addresses.data()); });
    });
  }

 private:
  Status run(const std::string& name, Grid grid, const std::function<void()>& body) {
    DGX_CHECK(state());
    if (behaviour_.lost_after && launches_ == *behaviour_.lost_after)
      return fail("kernel " + name + ": the device is lost");
    ++launches_;
    if (Status ran = runner_.run(grid.blocks, grid.threads, body); !ran.ok())
      return fail("kernel " + name + ": " + ran.error().message);
    return {};
  }

  Status note(std::function<Status()> work) {
    DGX_CHECK(state());
    if (!recording_) return work();
    recordings_.back().push_back(std::move(work));
    return {};
  }

  Status move(void* to, const void* from, std::int64_t size_bytes) {
    DGX_CHECK(state());
    // For no bytes the addresses may be null.
    if (size_bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
    return {};
  }

  Behaviour behaviour_;
  BlockRunner runner_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::vector<std::function<Status()>>> recordings_;
  bool recording_ = false;
  std::int64_t launches_ = 0;
  std::vector<GeneratedFunction> kernels_;
  std::function<Status()> download_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

Result<std::unique_ptr<Device>> open() {
  const char* const text = std::getenv("DGX_EMULATED_DEVICE");
  DGX_TRY(const Behaviour behaviour, behaviour_of(text == nullptr ? "" : text));
  DGX_CHECK(check_compiler());
  static bool told = false;
  if (!std::exchange(told, true))
    std::fputs(
        "warning: --device cuda: an emulated device, for tests: the same kernels on this CPU, slowly\n",
        stderr);
  return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(behaviour));
}

}  // namespace
}  // namespace dgx::kernels::cuda::emulated

extern "C" __attribute__((visibility("default"))) bool dgx_open_cuda_device(
    const char* interface, dgx::Result<std::unique_ptr<dgx::kernels::cuda::Device>>* out) {
  if (std::strcmp(interface, dgx::kernels::cuda::kDeviceInterface) != 0) return false;
  *out = dgx::kernels::cuda::emulated::open();
  return true;
}
