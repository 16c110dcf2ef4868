#include "device/device_launches.h"

#include <algorithm>
#include <cstdlib>

#include "dgx/kernels/philox.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
namespace cuda = kernels::cuda;

namespace {

/// Lists a step's work. First what operations rely on: cleared flags, random inputs, and copies of inputs
/// that become state, before anything overwrites them. Then the operations. Last what follows from their
/// results: the finite checks that no kernel has done, next values copied to their entries, and the loss.
class StepMaker {
 public:
  StepMaker(const Plan& plan, const DeviceMemory& offsets, std::uint64_t seed, std::uint8_t* memory)
      : program_(*plan.program),
        plan_(plan),
        offsets_(offsets),
        seed_(seed),
        memory_(memory),
        writer_(plan),
        checked_(program_.values.size()) {}

  DeviceStep make() {
    out_.work.push_back(DeviceClear{memory_ + offsets_.flags, offsets_.results_bytes});
    add_uniforms();
    for (const DeviceEntry& entry : offsets_.entries) {
      if (entry.before) copy(*entry.spare, offsets_.values[*entry.next], entry.size_bytes);
    }
    out_.operations.resize(out_.work.size(), -1);
    for (std::size_t t = 0; t < plan_.operations.size(); ++t) {
      add(plan_.operations[t]);
      out_.operations.resize(out_.work.size(), static_cast<std::int32_t>(t));
    }
    for (std::size_t e = 0; e < offsets_.entries.size(); ++e) check_finite(e);
    for (const DeviceEntry& entry : offsets_.entries) add_exchange(entry);
    for (const DeviceEntry& entry : offsets_.entries) {
      if (entry.name == "loss") copy(offsets_.loss(), entry.current, entry.size_bytes);
    }
    out_.operations.resize(out_.work.size(), -1);
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Primitive& at(ValueIndex v) const { return program_.values[v]; }
  template <class T = void>
  [[nodiscard]] T* address(ValueIndex v) const {
    const std::int64_t offset = offsets_.values[v];
    return offset < 0 ? nullptr : static_cast<T*>(static_cast<void*>(memory_ + offset));
  }
  [[nodiscard]] std::int32_t* flag(std::size_t entry) const {
    return reinterpret_cast<std::int32_t*>(memory_ + offsets_.flags) + entry;
  }

  void copy(std::int64_t to, std::int64_t from, std::int64_t size_bytes) {
    out_.work.push_back(DeviceCopy{memory_ + to, memory_ + from, size_bytes});
  }

  void add_uniforms() {
    for (const ValueIndex v : program_.values.indices()) {
      const Primitive& value = program_.values[v];
      if (value.kind != Kind::kInput || value.source.kind != Source::Kind::kUniform) continue;
      const auto ordinal = static_cast<std::uint32_t>(std::strtoul(value.source.name.c_str(), nullptr, 10));
      const kernels::Stream stream{kernels::StreamKind::kDropout, ordinal};
      out_.work.push_back(cuda::UniformNumbers{address<float>(v), bytes_of(value) / 4,
                                               reinterpret_cast<const std::int64_t*>(memory_ + offsets_.step),
                                               seed_, stream.word()});
    }
  }

  void add(const Operation& operation) {
    std::visit([&](const auto& work) { add(work, operation.writes); },
               std::get<DeviceOperation>(operation.work));
  }
  using Stored = std::vector<ValueIndex>;  // values of an operation that lie in memory
  void add(const Maps& maps, const Stored& stored) { add(writer_.maps(maps, stored)); }
  void add(const Rows& rows, const Stored& stored) { add(writer_.rows(rows, stored)); }
  void add(const KeyedChain& chain, const Stored& /*out*/) { add(writer_.chain(chain)); }
  void add(const Generic& generic, const Stored& /*out*/) { add(writer_.value(generic)); }
  void add(const TeamFold& fold, const Stored& /*out*/) {
    for (const DeviceKernel& kernel : writer_.fold(fold)) add(kernel);
  }

  void add(const DeviceKernel& kernel) {
    cuda::Generated out{out_.kernels.add(kernel), kernel.threads, kernel.blocks, {}};
    for (const KernelArgument& argument : kernel.arguments) {
      switch (argument.what) {
        case KernelArgument::What::kValue: out.addresses.push_back(address(argument.value)); break;
        case KernelArgument::What::kFlag: out.addresses.push_back(flag_of(argument.value)); break;
        case KernelArgument::What::kScratch: out.addresses.push_back(memory_ + offsets_.scratch); break;
      }
    }
    out_.work.emplace_back(std::move(out));
  }

  [[nodiscard]] float* scratch() const { return reinterpret_cast<float*>(memory_ + offsets_.scratch); }

  void add(const TiledDot& tiled, const Stored& /*out*/) {
    cuda::Dot dot = tiled.dot;
    dot.a.from = address<float>(tiled.a);
    dot.b.from = address<float>(tiled.b);
    dot.out = address<float>(tiled.out);
    if (dot.form.piece != 0) dot.pieces = scratch();
    out_.work.push_back(dot);
  }

  void add(const ColumnSum& sum, const Stored& /*out*/) {
    out_.work.push_back(cuda::ColumnSum{address<float>(sum.x) + sum.base, address<float>(sum.out), scratch(),
                                        sum.rows, sum.columns, sum.row_stride});
  }

  /// The flag of the entry that becomes `v`, or null. Notes that the kernel which asks for it does the check.
  std::int32_t* flag_of(ValueIndex v) {
    for (std::size_t e = 0; e < offsets_.entries.size(); ++e) {
      if (at(v).dtype != DType::kF32 || offsets_.entries[e].next != v) continue;
      checked_[v] = true;
      return flag(e);
    }
    return nullptr;
  }

  static cuda::Batch batch_of(const LoopNest& nest) {
    cuda::Batch batch;
    batch.dimensions = static_cast<std::int32_t>(nest.extents.size());
    for (std::size_t d = 0; d < nest.extents.size(); ++d) {
      batch.count *= nest.extents[d];
      batch.extents[d] = nest.extents[d];
      for (std::size_t map = 0; map < nest.strides.size(); ++map)
        batch.strides[map][d] = nest.strides[map][d];
    }
    return batch;
  }

  void add(const TiledProduct& tiled, const Stored& /*out*/) {
    const Matmul& product = tiled.product;
    cuda::Product out;
    out.a = address<float>(product.a) + product.a_base;
    out.b = address<float>(product.b) + product.b_base;
    out.out = address<float>(product.out);
    out.rows = product.shape.rows;
    out.columns = product.shape.columns;
    out.depth = product.shape.depth;
    out.a_row = product.a_row;
    out.a_depth = product.a_depth;
    out.b_depth = product.b_depth;
    out.b_column = product.b_column;
    out.out_row = product.out_row;
    out.batch = batch_of(product.batch);
    out.form = tiled.form;
    if (out.form.piece != 0) out.pieces = scratch();
    out_.work.push_back(out);
  }

  /// Checks next values that no kernel checks while it makes them: products, inputs, and all but the first
  /// entry that one value becomes.
  void check_finite(std::size_t e) {
    const DeviceEntry& entry = offsets_.entries[e];
    if (!entry.changes() || at(entry.input).dtype != DType::kF32) return;
    const bool first =
        std::none_of(offsets_.entries.begin(), offsets_.entries.begin() + static_cast<std::ptrdiff_t>(e),
                     [&](const DeviceEntry& other) { return other.next == entry.next; });
    if (checked_[*entry.next] && first) return;
    const std::int64_t from = entry.before ? *entry.spare : offsets_.values[*entry.next];
    out_.work.push_back(
        cuda::FiniteCheck{reinterpret_cast<const float*>(memory_ + from), entry.size_bytes / 4, flag(e)});
  }

  /// Copies a next value that was made elsewhere to where the next step finds it.
  void add_exchange(const DeviceEntry& entry) {
    if (!entry.changes()) return;
    const std::int64_t from = entry.before ? *entry.spare : offsets_.values[*entry.next];
    if (from != entry.current) copy(entry.current, from, entry.size_bytes);
  }

  const program::Program& program_;
  const Plan& plan_;
  const DeviceMemory& offsets_;
  std::uint64_t seed_;
  std::uint8_t* memory_;
  const KernelWriter writer_;
  kernels::ByValue<bool> checked_;  // a kernel that makes it raises its flag
  DeviceStep out_;
};

}  // namespace

DeviceStep make_device_step(const Plan& plan, const DeviceMemory& offsets, std::uint64_t seed,
                            std::uint8_t* memory) {
  return StepMaker(plan, offsets, seed, memory).make();
}

}  // namespace dgx::exec
