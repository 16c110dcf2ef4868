// Entries that no step changes, on the CPU and on the emulated device: hashed once, and copied only when that
// is wanted.

#include <catch2/catch.hpp>

#include "dgx/exec/device_executor.h"
#include "emulated_device.h"
#include "networks.h"

namespace dgx::exec {
namespace {

using test::Network;
using test::require_same;
using test::Samples;
namespace cuda = kernels::cuda;

/// A device that counts the bytes which come back from it.
class CountingDevice final : public cuda::Device {
 public:
  CountingDevice(std::unique_ptr<Device> device, std::int64_t& bytes)
      : device_(std::move(device)), bytes_(bytes) {}

  [[nodiscard]] const cuda::DeviceInfo& info() const override { return device_->info(); }
  Result<void*> allocate(std::int64_t size) override { return device_->allocate(size); }
  Result<void*> allocate_staging(std::int64_t size) override { return device_->allocate_staging(size); }
  Status upload(void* to, const void* from, std::int64_t size) override {
    return device_->upload(to, from, size);
  }
  Status download(void* to, const void* from, std::int64_t size) override {
    bytes_ += size;
    return device_->download(to, from, size);
  }
  Status begin_download(void* to, const void* from, std::int64_t size) override {
    bytes_ += size;
    return device_->begin_download(to, from, size);
  }
  Status finish_download() override { return device_->finish_download(); }
  Status copy(void* to, const void* from, std::int64_t size) override {
    return device_->copy(to, from, size);
  }
  Status clear(void* to, std::int64_t size) override { return device_->clear(to, size); }
  Result<std::int32_t> compile(const std::string& text, std::int32_t count) override {
    return device_->compile(text, count);
  }
  Status launch(const cuda::Generated& work) override { return device_->launch(work); }
  Status launch(const cuda::Product& work) override { return device_->launch(work); }
  Status launch(const cuda::Dot& work) override { return device_->launch(work); }
  Status launch(const cuda::ColumnSum& work) override { return device_->launch(work); }
  Status launch(const cuda::UniformNumbers& work) override { return device_->launch(work); }
  Status launch(const cuda::FiniteCheck& work) override { return device_->launch(work); }
  Status begin_recording() override { return device_->begin_recording(); }
  Result<int> end_recording() override { return device_->end_recording(); }
  Status replay(int recording) override { return device_->replay(recording); }
  Status mark() override { return device_->mark(); }
  Result<std::vector<double>> marked_seconds() override { return device_->marked_seconds(); }
  Status synchronize() override { return device_->synchronize(); }

 private:
  std::unique_ptr<Device> device_;
  std::int64_t& bytes_;
};

Network adapted() {
  Network network;
  network.sizes = {60, 30, 3};
  network.frozen = {"0.*"};
  return network;
}

constexpr const char* kBase = "model/0.weight";
constexpr std::int64_t kBaseBytes = 60 * 30 * sizeof(float);

bool is_base(std::string_view name) { return name == kBase || name == "model/0.bias"; }

void check_digests(const StepExecutor& executor) {
  const auto digests = executor.digests(1);
  const auto wanted = merkle::state_digests(executor.state().value());
  REQUIRE((digests.ok() && wanted.ok()));
  CHECK(digests->tensors == wanted->tensors);
  CHECK(digests->state == wanted->state);
}

/// Both executors of a network, the device's with the bytes that it brought back.
struct Executors {
  Executors() {
    cpu = std::move(ExactExecutor::create(network.step_program(), inputs(), 1)).value();
    auto counting = std::make_unique<CountingDevice>(test::emulated_device(), bytes);
    device =
        std::move(DeviceExecutor::create(network.step_program(), inputs(), std::move(counting), 1)).value();
  }
  [[nodiscard]] StepInputs inputs() const { return test::step_inputs(network, data); }
  [[nodiscard]] State start() const { return *program::initial_state(*network.step_program(), test::kSeed); }
  template <class Run>
  void each(const Run& run) {
    run(*cpu);
    run(*device);
  }

  Network network = adapted();
  Samples data{network};
  std::int64_t bytes = 0;
  std::unique_ptr<ExactExecutor> cpu;
  std::unique_ptr<DeviceExecutor> device;
};

TEST_CASE("the digests of a state are right whatever was loaded, traced or made faulty before") {
  Executors all;
  all.each([&](StepExecutor& executor) {
    REQUIRE(executor.load(all.start()).ok());
    check_digests(executor);
    REQUIRE(executor.step().ok());
    check_digests(executor);
    State other = executor.state().value();
    find_entry(other, kBase)->tensor.as<float>()[7] += 1;
    REQUIRE(executor.load(other).ok());
    check_digests(executor);
    REQUIRE(executor.step().ok());
    check_digests(executor);
    // One bit of a constant entry, which stays.
    const auto program = all.network.step_program();
    for (const kernels::ValueIndex v : program->values.indices()) {
      if (program->values[v].source.name != kBase) continue;
      REQUIRE(executor.trace(Fault{v, 11, 4}, {}).ok());
    }
    check_digests(executor);
    REQUIRE(executor.load(all.start()).ok());
    check_digests(executor);
  });
}

TEST_CASE("a device's constant entries come back to be hashed once", "[device][emulated]") {
  Executors all;
  const auto hashed = [&] {
    all.bytes = 0;
    REQUIRE(all.device->digests(1).ok());
    return all.bytes;
  };
  REQUIRE(all.device->load(all.start()).ok());
  CHECK(hashed() > kBaseBytes);
  for (int s = 0; s < 3; ++s) {
    REQUIRE(all.device->step().ok());
    CHECK(hashed() < kBaseBytes / 4);
  }
  State now = all.device->state().value();
  REQUIRE(all.device->load(now).ok());
  CHECK(hashed() < kBaseBytes / 4);
  find_entry(now, kBase)->tensor.as<float>()[0] += 1;
  REQUIRE(all.device->load(now).ok());
  CHECK(hashed() > kBaseBytes);
  CHECK(hashed() < kBaseBytes / 4);
}

TEST_CASE("a snapshot has what is not left out, and a device copies no more", "[device][emulated]") {
  Executors all;
  all.each([&](StepExecutor& executor) {
    REQUIRE(executor.load(all.start()).ok());
    REQUIRE(executor.step().ok());
    const State now = executor.state().value();
    State changed = now;
    std::erase_if(changed, [](const Entry& entry) { return is_base(entry.name); });
    REQUIRE(changed.size() + 2 == now.size());
    all.bytes = 0;
    auto taken = executor.snapshot(is_base);
    REQUIRE(taken.ok());
    require_same((*taken)().value(), changed, "without constant entries");
    CHECK(all.bytes < kBaseBytes / 2);
    // More than the first call took memory for.
    taken = executor.snapshot({});
    REQUIRE(taken.ok());
    require_same((*taken)().value(), now, "whole");
    taken = executor.snapshot([](std::string_view name) { return name == kBase; });
    REQUIRE(taken.ok());
    changed = now;
    std::erase_if(changed, [](const Entry& entry) { return entry.name == kBase; });
    require_same((*taken)().value(), changed, "without one of two");
  });
}

}  // namespace
}  // namespace dgx::exec
