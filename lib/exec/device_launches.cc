#include "device_launches.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

#include "device_dots.h"
#include "device_maps.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/kernels/philox.h"
#include "dgx/kernels/primitive_view.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
namespace cuda = kernels::cuda;

namespace {

constexpr std::size_t kTableAlignment = 16;
constexpr std::size_t kMostArguments = 4000;  // of a kernel: its limit is 32,764 bytes

class StepMaker {
 public:
  StepMaker(const program::Program& program, const Plan& plan, const DeviceMemory& offsets,
            std::uint64_t seed, const DevicePlaces& places)
      : program_(program),
        plan_(plan),
        offsets_(offsets),
        seed_(seed),
        memory_(places.memory),
        tables_(places.tables),
        kernels_(places.kernels),
        first_kernel_(places.first_kernel),
        writer_(plan, becoming_state(program)),
        checked_(program.values.size()) {}

  DeviceStep make() {
    out_.work.push_back(DeviceClear{memory_ + offsets_.flags, offsets_.results_bytes});
    add_uniforms();
    for (const DeviceEntry& entry : offsets_.entries) {
      if (entry.before)
        copy(*entry.spare, offsets_.values[static_cast<std::size_t>(*entry.next)], entry.size_bytes);
    }
    out_.tasks.resize(out_.work.size(), -1);
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      add(plan_.tasks[t]);
      out_.tasks.resize(out_.work.size(), static_cast<std::int32_t>(t));
    }
    for (std::size_t e = 0; e < offsets_.entries.size(); ++e) check_finite(e);
    for (const DeviceEntry& entry : offsets_.entries) add_exchange(entry);
    for (const DeviceEntry& entry : offsets_.entries) {
      if (entry.name == "loss") copy(offsets_.loss(), entry.current, entry.size_bytes);
    }
    out_.tasks.resize(out_.work.size(), -1);
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Primitive& at(ValueIndex v) const {
    return program_.values[static_cast<std::size_t>(v)];
  }
  template <class T = void>
  [[nodiscard]] T* address(ValueIndex v) const {
    const std::int64_t offset = offsets_.values[static_cast<std::size_t>(v)];
    return offset < 0 ? nullptr : static_cast<T*>(static_cast<void*>(memory_ + offset));
  }
  [[nodiscard]] std::int32_t* flag(std::size_t entry) const {
    return reinterpret_cast<std::int32_t*>(memory_ + offsets_.flags) + entry;
  }

  void copy(std::int64_t to, std::int64_t from, std::int64_t size_bytes) {
    out_.work.push_back(DeviceCopy{memory_ + to, memory_ + from, size_bytes});
  }

  /// Adds a table of `bytes`, and returns its later address on the device.
  const std::uint8_t* table(const void* bytes, std::size_t size) {
    const std::size_t offset = (out_.tables.size() + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
    out_.tables.resize(offset + size);
    if (size > 0) std::memcpy(out_.tables.data() + offset, bytes, size);
    return tables_ + offset;
  }
  template <class T>
  const T* table(const std::vector<T>& items) {
    return reinterpret_cast<const T*>(table(items.data(), items.size() * sizeof(T)));
  }

  void add_uniforms() {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Primitive& value = program_.values[v];
      if (value.kind != Kind::kInput || value.source.kind != Source::Kind::kUniform) continue;
      const auto ordinal = static_cast<std::uint32_t>(std::strtoul(value.source.name.c_str(), nullptr, 10));
      const kernels::Stream stream{kernels::StreamKind::kDropout, ordinal};
      out_.work.push_back(cuda::UniformNumbers{
          address<float>(static_cast<ValueIndex>(v)), bytes_of(value) / 4,
          reinterpret_cast<const std::int64_t*>(memory_ + offsets_.step), seed_, stream.word()});
    }
  }

  void add(const Task& task) {
    if (const auto* product = std::get_if<MatmulTask>(&task.work)) return add(*product);
    if (const auto* sum = std::get_if<ColumnSumTask>(&task.work)) return add(*sum);
    if (const auto* map = std::get_if<MapTask>(&task.work)) {
      if (kernels_ != nullptr) {
        const DeviceKernel kernel = writer_.maps(map->members, task.writes);
        if (kernel.arguments.size() <= kMostArguments) return add(kernel);
      }
      if (const auto maps = compile_device_maps(plan_, map->members, task.writes)) return add(*maps);
      return add_elements(map->members, task.writes);
    }
    if (const auto* rows = std::get_if<RowsTask>(&task.work)) return add(writer_.rows(*rows, task.writes));
    const ValueIndex v = std::get<GenericTask>(task.work).out;
    if (auto dot = recognise_device_dot(plan_.compiled[static_cast<std::size_t>(v)])) return add(v, *dot);
    if (kernels_ != nullptr) {
      for (const DeviceKernel& kernel : writer_.value(v)) add(kernel);
      return;
    }
    if (folds_by_teams(plan_.compiled[static_cast<std::size_t>(v)])) return add_fold(v);
    if (add_chain(v)) return;
    add_elements(task.writes, task.writes);
  }

  /// Adds a chain that acts only where a number of the position is an index of the output. False if `v` is
  /// none.
  bool add_chain(ValueIndex v) {
    const auto& compiled = plan_.compiled[static_cast<std::size_t>(v)];
    if (compiled.kind != Kind::kChain) return false;
    const auto accesses = strip_accesses(compiled);
    const auto chain = accesses ? recognise_chain(v, compiled, *accesses) : std::nullopt;
    if (!chain || !chain->key || chain->key->positions.extents.size() > cuda::kMapDimensions) return false;
    const ChainTask::Key& key = *chain->key;
    cuda::KeyedChain out;
    out.member = member_of(v, {}, true);
    out.count = compiled.count;
    out.fold_count = compiled.fold_count;
    out.keys = address(key.value);
    out.dtype = key.dtype;
    out.base = key.base;
    out.dimensions = static_cast<std::int32_t>(key.positions.extents.size());
    std::copy(key.positions.extents.begin(), key.positions.extents.end(), out.extents.begin());
    std::copy(key.positions.strides[0].begin(), key.positions.strides[0].end(), out.strides.begin());
    out.index_stride = key.stride;
    out.index_extent = key.extent;
    out_.work.push_back(out);
    return true;
  }

  static std::vector<bool> becoming_state(const program::Program& program) {
    std::vector<bool> becomes(program.values.size());
    for (const Primitive& value : program.values) {
      if (value.kind == Kind::kInput && value.next && value.dtype == DType::kF32)
        becomes[static_cast<std::size_t>(*value.next)] = true;
    }
    return becomes;
  }

  void add(const DeviceKernel& kernel) {
    cuda::Generated out{first_kernel_ + kernels_->add(kernel), kernel.threads, kernel.blocks, {}};
    for (const KernelArgument& argument : kernel.arguments) {
      switch (argument.what) {
        case KernelArgument::What::kValue: out.addresses.push_back(address(argument.value)); break;
        case KernelArgument::What::kFlag: out.addresses.push_back(flag_of(argument.value)); break;
        case KernelArgument::What::kScratch: out.addresses.push_back(memory_ + offsets_.scratch); break;
      }
    }
    out_.work.emplace_back(std::move(out));
  }

  void add(const DeviceMaps& maps) {
    std::vector<cuda::MapLoad> loads;
    for (const DeviceMaps::Load& from : maps.loads) {
      loads.push_back(from.load);
      if (from.value >= 0) loads.back().data = address(from.value);
    }
    std::vector<cuda::MapStore> stores;
    for (const DeviceMaps::Store& to : maps.stores)
      stores.push_back({address(to.value), flag_of(to.value), at(to.value).dtype, to.in});
    cuda::MapProgram program;
    program.loads = table(loads);
    program.operations = table(maps.operations);
    program.stores = table(stores);
    program.operation_count = static_cast<std::int32_t>(maps.operations.size());
    program.store_count = static_cast<std::int32_t>(maps.stores.size());
    program.dimensions = static_cast<std::int32_t>(maps.extents.size());
    std::copy(maps.extents.begin(), maps.extents.end(), program.extents.begin());
    program.count = plan_.compiled[static_cast<std::size_t>(maps.stores.front().value)].count;
    out_.work.push_back(program);
  }

  /// Chooses the form of a product or a dot.
  template <class P>
  void choose(P& p, const cuda::TileWanted& wanted) {
    p.form = cuda::choose_form(wanted);
    if (p.form.piece != 0) p.pieces = reinterpret_cast<float*>(memory_ + offsets_.scratch);
  }

  void add(ValueIndex v, DeviceDot& from) {
    from.dot.a.from = address<float>(from.a);
    from.dot.b.from = address<float>(from.b);
    from.dot.out = address<float>(v);
    choose(from.dot, wanted_of(from.dot));
    out_.work.push_back(from.dot);
  }

  void add(const ColumnSumTask& task) {
    out_.work.push_back(cuda::ColumnSum{address<float>(task.x) + task.base, address<float>(task.out),
                                        reinterpret_cast<float*>(memory_ + offsets_.scratch), task.rows,
                                        task.columns, task.row_stride});
  }

  void add_fold(ValueIndex v) {
    const auto& compiled = plan_.compiled[static_cast<std::size_t>(v)];
    cuda::Fold fold;
    fold.member = member_of(v, {}, true);
    fold.kind = compiled.kind;
    fold.dtype = compiled.dtype;
    fold.count = compiled.count;
    fold.fold_count = compiled.fold_count;
    fold.type =
        compiled.kind == Kind::kSum ? kernels::number_type(compiled.dtype) : compiled.steps.result.type;
    if (compiled.kind != Kind::kSum) {
      if (fold.type == kernels::NumberType::kFloat) {
        fold.start.value.real = -std::numeric_limits<float>::infinity();
      } else {
        fold.start.value.integer = std::numeric_limits<std::int64_t>::min();
      }
    }
    fold.parts = reinterpret_cast<cuda::FoldPart*>(memory_ + offsets_.scratch);
    out_.work.push_back(fold);
  }

  /// The flag of the entry that becomes `v`, or null.
  std::int32_t* flag_of(ValueIndex v) {
    for (std::size_t e = 0; e < offsets_.entries.size(); ++e) {
      if (at(v).dtype != DType::kF32 || offsets_.entries[e].next != v) continue;
      checked_[static_cast<std::size_t>(v)] = true;
      return flag(e);
    }
    return nullptr;
  }

  /// A member of a launch that makes the values `before` first, at the same element. `lies`: it is stored in
  /// memory.
  cuda::ElementMember member_of(ValueIndex v, std::span<const ValueIndex> before, bool lies) {
    const auto& compiled = plan_.compiled[static_cast<std::size_t>(v)];
    std::vector<cuda::Binding> bindings;
    for (const auto& access : compiled.accesses) {
      const auto member = std::find(before.begin(), before.end(), access.value);
      if (member == before.end()) {
        bindings.push_back({address(access.value), -1, access.dtype});
      } else {
        bindings.push_back({nullptr, static_cast<std::int32_t>(member - before.begin()), access.dtype});
      }
    }
    return {table(kernels::flatten(compiled)), table(bindings), lies ? address(v) : nullptr,
            lies ? flag_of(v) : nullptr};
  }

  void add_elements(const std::vector<ValueIndex>& values, const std::vector<ValueIndex>& stored) {
    std::vector<cuda::ElementMember> members;
    cuda::ElementProgram program;
    for (const ValueIndex v : values) {
      const auto& compiled = plan_.compiled[static_cast<std::size_t>(v)];
      program.most_steps = std::max(
          program.most_steps,
          static_cast<std::int32_t>(std::max(compiled.steps.steps.size(), compiled.when.steps.size())));
      if (compiled.kind == Kind::kSum && compiled.fold_count > kernels::kSumBlock) program.sum_levels = 6;
      const bool lies = std::find(stored.begin(), stored.end(), v) != stored.end();
      members.push_back(member_of(v, std::span(values).first(members.size()), lies));
    }
    program.count = plan_.compiled[static_cast<std::size_t>(values.front())].count;
    program.members = table(members);
    program.member_count = static_cast<std::int32_t>(members.size());
    out_.work.push_back(program);
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

  void add(const MatmulTask& task) {
    cuda::Product product;
    product.a = address<float>(task.a) + task.a_base;
    product.b = address<float>(task.b) + task.b_base;
    product.out = address<float>(task.out);
    product.rows = task.shape.rows;
    product.columns = task.shape.columns;
    product.depth = task.shape.depth;
    product.a_row = task.a_row;
    product.a_depth = task.a_depth;
    product.b_depth = task.b_depth;
    product.b_column = task.b_column;
    product.out_row = task.out_row;
    product.batch = batch_of(task.batch);
    choose(product, wanted_of(task));
    out_.work.push_back(product);
  }

  /// Checks next values that no kernel checks while it makes them: products, inputs, a value that becomes
  /// several entries.
  void check_finite(std::size_t e) {
    const DeviceEntry& entry = offsets_.entries[e];
    if (!entry.changes() || at(entry.input).dtype != DType::kF32) return;
    const auto next = static_cast<std::size_t>(*entry.next);
    const bool first =
        std::none_of(offsets_.entries.begin(), offsets_.entries.begin() + static_cast<std::ptrdiff_t>(e),
                     [&](const DeviceEntry& other) { return other.next == entry.next; });
    if (checked_[next] && first) return;
    const std::int64_t from = entry.before ? *entry.spare : offsets_.values[next];
    out_.work.push_back(
        cuda::FiniteCheck{reinterpret_cast<const float*>(memory_ + from), entry.size_bytes / 4, flag(e)});
  }

  /// Copies a next value that was made elsewhere to where the next step finds it.
  void add_exchange(const DeviceEntry& entry) {
    if (!entry.changes()) return;
    const std::int64_t from =
        entry.before ? *entry.spare : offsets_.values[static_cast<std::size_t>(*entry.next)];
    if (from != entry.current) copy(entry.current, from, entry.size_bytes);
  }

  const program::Program& program_;
  const Plan& plan_;
  const DeviceMemory& offsets_;
  std::uint64_t seed_;
  std::uint8_t* memory_;
  std::uint8_t* tables_;
  KernelText* kernels_;
  std::int32_t first_kernel_;
  const KernelWriter writer_;
  std::vector<bool> checked_;  // by value: a kernel that makes it raises its flag
  DeviceStep out_;
};

}  // namespace

DeviceStep make_device_step(const program::Program& program, const Plan& plan, const DeviceMemory& offsets,
                            std::uint64_t seed, const DevicePlaces& places) {
  return StepMaker(program, plan, offsets, seed, places).make();
}

}  // namespace dgx::exec
