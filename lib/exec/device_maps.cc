#include "device_maps.h"

#include <algorithm>
#include <bit>
#include <map>

#include "linear.h"

namespace dgx::exec {

using kernels::CompiledOperand;
using kernels::CompiledPrimitive;
using kernels::CompiledStep;
using kernels::NumberType;
using kernels::Operand;
using kernels::ScalarOp;
using kernels::ValueIndex;
using kernels::cuda::MapForm;
using kernels::cuda::MapOperation;
using kernels::cuda::MapSource;

namespace {

/// A number that has no register yet; it is assigned once.
using Number = std::int32_t;

struct Operation {
  MapForm form;
  ScalarOp op;
  Number out;
  std::array<Number, 3> in;  // of a load: the load's number
  int arity;
};

class Compiler {
 public:
  explicit Compiler(const Plan& plan) : plan_(plan) {}

  std::optional<DeviceMaps> compile(std::span<const ValueIndex> members, std::span<const ValueIndex> stored) {
    iteration_ = plan_.compiled[static_cast<std::size_t>(members.front())].iteration;
    for (const ValueIndex v : members) {
      if (!add(v)) return std::nullopt;
    }
    for (const ValueIndex v : stored) out_.stores.push_back({v, 0});
    collapse();
    if (!place_registers()) return std::nullopt;
    return std::move(out_);
  }

 private:
  Number number(NumberType type) {
    types_.push_back(type);
    return static_cast<Number>(types_.size()) - 1;
  }
  [[nodiscard]] NumberType type_of(Number n) const { return types_[static_cast<std::size_t>(n)]; }

  Number emit(MapForm form, ScalarOp op, NumberType type, std::array<Number, 3> in, int arity) {
    const Number out = number(type);
    operations_.push_back({form, op, out, in, arity});
    return out;
  }

  /// Loads a number, only once if it is read twice: everything is read before anything is written.
  Number load(ValueIndex value, MapSource source, std::uint32_t literal, std::int64_t base,
              const std::vector<std::int64_t>& strides) {
    const auto key = std::tuple(value, source, literal, base, strides);
    if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
    DeviceMaps::Load load;
    load.value = value;
    load.load.source = source;
    load.load.literal = std::bit_cast<float>(literal);
    load.load.base = base;
    strides_.push_back(strides);
    out_.loads.push_back(load);
    const NumberType type = source == MapSource::kReal || source == MapSource::kLiteral
                                ? NumberType::kFloat
                                : NumberType::kInteger;
    const Number out =
        emit(MapForm::kLoad, ScalarOp::kAdd, type, {static_cast<Number>(out_.loads.size()) - 1, 0, 0}, 0);
    loaded_.emplace(key, out);
    return out;
  }

  [[nodiscard]] std::vector<std::int64_t> no_strides() const {
    return std::vector<std::int64_t>(iteration_.size());
  }

  Number read(const LinearAccess& access, DType dtype) {
    if (const auto made = made_.find(access.value); made != made_.end()) return made->second;
    const MapSource source = dtype == DType::kF32   ? MapSource::kReal
                             : dtype == DType::kI64 ? MapSource::kInteger
                                                    : MapSource::kByte;
    return load(access.value, source, 0, access.base, access.iteration);
  }

  Number operand(const CompiledPrimitive& primitive, const CompiledOperand& from,
                 const std::vector<Number>& steps) {
    switch (from.kind) {
      case Operand::Kind::kAccess: {
        const auto n = static_cast<std::size_t>(from.index);
        return read((*accesses_)[n], primitive.accesses[n].dtype);
      }
      case Operand::Kind::kStep: return steps[static_cast<std::size_t>(from.index)];
      case Operand::Kind::kIndex: {
        auto strides = no_strides();
        strides[static_cast<std::size_t>(from.index)] = 1;
        return load(-1, MapSource::kPlace, 0, 0, strides);
      }
      case Operand::Kind::kFloat:
        return load(-1, MapSource::kLiteral, std::bit_cast<std::uint32_t>(from.literal.real), 0,
                    no_strides());
      default: return load(-1, MapSource::kPlace, 0, from.literal.integer, no_strides());
    }
  }

  Number step(const CompiledStep& step, std::array<Number, 3> in) {
    const bool is_real = step.operand_type == NumberType::kFloat;
    switch (step.op) {
      case ScalarOp::kSelect:
        return emit(is_real ? MapForm::kSelectReal : MapForm::kSelectInteger, step.op, step.type, in, 3);
      case ScalarOp::kEq:
      case ScalarOp::kNe:
      case ScalarOp::kLt:
      case ScalarOp::kLe:
      case ScalarOp::kGt:
      case ScalarOp::kGe:
        return emit(is_real ? MapForm::kCompareReal : MapForm::kCompareInteger, step.op, step.type, in, 2);
      case ScalarOp::kF32: return is_real ? in[0] : emit(MapForm::kFloatOfInteger, step.op, step.type, in, 1);
      case ScalarOp::kI64: return is_real ? emit(MapForm::kIntegerOfFloat, step.op, step.type, in, 1) : in[0];
      case ScalarOp::kU8:
        return byte(is_real ? emit(MapForm::kIntegerOfFloat, step.op, NumberType::kInteger, in, 1) : in[0]);
      default: return emit(is_real ? MapForm::kReal : MapForm::kInteger, step.op, step.type, in, step.arity);
    }
  }
  Number byte(Number integer) {
    return emit(MapForm::kByteOfInteger, ScalarOp::kU8, NumberType::kInteger, {integer, 0, 0}, 1);
  }

  bool add(ValueIndex v) {
    const CompiledPrimitive& primitive = plan_.compiled[static_cast<std::size_t>(v)];
    accesses_ = linear_accesses(primitive);
    if (!accesses_ || primitive.iteration.size() > kernels::cuda::kMapDimensions) return false;
    std::vector<Number> steps;
    for (const CompiledStep& one : primitive.steps.steps) {
      std::array<Number, 3> in{};
      for (std::size_t i = 0; i < static_cast<std::size_t>(one.arity); ++i)
        in[i] = operand(primitive, one.operands[i], steps);
      steps.push_back(step(one, in));
    }
    Number result = steps.empty() ? operand(primitive, primitive.steps.result, steps) : steps.back();
    if (primitive.dtype == DType::kU8) result = byte(result);
    made_[v] = result;
    return true;
  }

  /// Joins dimensions that all loads walk at a single stride.
  void collapse() {
    LoopNest nest{iteration_, strides_};
    nest.collapse();
    out_.extents = nest.extents;
    for (std::size_t n = 0; n < out_.loads.size(); ++n)
      std::copy(nest.strides[n].begin(), nest.strides[n].end(), out_.loads[n].load.strides.begin());
  }

  /// Gives every number a register from where it is made to where it is read last, or to the end if it is
  /// stored. Numbers that nothing reads are not computed. False if registers do not suffice, or there are
  /// over 256 loads.
  bool place_registers() {
    std::vector<std::size_t> last(types_.size(), 0);
    std::vector<bool> needed(types_.size());
    for (const DeviceMaps::Store& store : out_.stores) {
      needed[static_cast<std::size_t>(made_.at(store.value))] = true;
      last[static_cast<std::size_t>(made_.at(store.value))] = operations_.size();
    }
    for (std::size_t n = operations_.size(); n-- > 0;) {
      const Operation& operation = operations_[n];
      if (!needed[static_cast<std::size_t>(operation.out)]) continue;
      for (int i = 0; i < operation.arity; ++i) {
        const auto in = static_cast<std::size_t>(operation.in[static_cast<std::size_t>(i)]);
        if (!needed[in]) last[in] = n;
        needed[in] = true;
      }
    }
    std::vector<std::uint8_t> at(types_.size());
    std::array<std::vector<std::uint8_t>, 2> free;
    for (std::size_t r = kernels::cuda::kMapReals; r-- > 0;) free[0].push_back(static_cast<std::uint8_t>(r));
    for (std::size_t r = kernels::cuda::kMapIntegers; r-- > 0;)
      free[1].push_back(static_cast<std::uint8_t>(r));
    const auto file = [&](Number n) -> std::vector<std::uint8_t>& {
      return free[type_of(n) == NumberType::kFloat ? 0 : 1];
    };
    for (std::size_t n = 0; n < operations_.size(); ++n) {
      const Operation& operation = operations_[n];
      if (!needed[static_cast<std::size_t>(operation.out)]) continue;
      MapOperation placed{operation.form, operation.op, 0, {}};
      for (int i = 0; i < 3; ++i) {
        const auto slot = static_cast<std::size_t>(i);
        if (operation.form == MapForm::kLoad) {
          placed.in[slot] = static_cast<std::uint8_t>(operation.in[slot]);
        } else if (i < operation.arity) {
          placed.in[slot] = at[static_cast<std::size_t>(operation.in[slot])];
        }
      }
      if (file(operation.out).empty()) return false;
      at[static_cast<std::size_t>(operation.out)] = placed.out = file(operation.out).back();
      file(operation.out).pop_back();
      for (int i = 0; i < operation.arity; ++i) {
        const Number in = operation.in[static_cast<std::size_t>(i)];
        if (last[static_cast<std::size_t>(in)] != n) continue;
        file(in).push_back(at[static_cast<std::size_t>(in)]);
        // Given back once, if it is read twice here.
        last[static_cast<std::size_t>(in)] = operations_.size() + 1;
      }
      out_.operations.push_back(placed);
    }
    for (DeviceMaps::Store& store : out_.stores)
      store.in = at[static_cast<std::size_t>(made_.at(store.value))];
    return out_.loads.size() <= 256;
  }

  const Plan& plan_;
  DeviceMaps out_;
  Shape iteration_;
  std::vector<NumberType> types_;  // by number
  std::vector<Operation> operations_;
  std::vector<std::vector<std::int64_t>> strides_;  // by load
  std::map<std::tuple<ValueIndex, MapSource, std::uint32_t, std::int64_t, std::vector<std::int64_t>>, Number>
      loaded_;
  std::map<ValueIndex, Number> made_;
  std::optional<std::vector<LinearAccess>> accesses_;
};

}  // namespace

std::optional<DeviceMaps> compile_device_maps(const Plan& plan, std::span<const ValueIndex> members,
                                              std::span<const ValueIndex> stored) {
  return Compiler(plan).compile(members, stored);
}

}  // namespace dgx::exec
