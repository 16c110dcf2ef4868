#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/strip_group.h"

namespace dgx::exec {

using kernels::CompiledOperand;
using kernels::CompiledStep;
using kernels::NumberType;
using kernels::Operand;
using kernels::ScalarOp;
using kernels::ValueIndex;
using kernels::cpu::kStripLength;
using kernels::cpu::strip_op;
using Source = StripRegister::Source;

std::int64_t StripProgram::work() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : nest.extents) elements *= extent;
  return elements * static_cast<std::int64_t>(instructions.size());
}

StripCompiler::StripCompiler(const Shape& inner, const Shape& outer, Along along)
    : along_(along), named_(inner.size()) {
  program_.nest.extents = inner;
  program_.outer.extents = outer;
  add_register({});  // register 0 is unused: it stands for operands that an instruction does not have
}

std::int32_t StripCompiler::add_register(StripRegister reg) {
  program_.registers.push_back(std::move(reg));
  return static_cast<std::int32_t>(program_.registers.size()) - 1;
}

std::int32_t StripCompiler::scratch(Type type) { return add_register({Source::kScratch, type}); }

std::int32_t StripCompiler::emit(Op op, Type type, std::int32_t a, std::int32_t b, std::int32_t c) {
  const std::int32_t out = scratch(type);
  program_.instructions.push_back({op, out, {a, b, c}});
  return out;
}

std::int32_t StripCompiler::member_result(ValueIndex value) const {
  for (const Member& member : members_) {
    if (member.value == value) return member.result;
  }
  return -1;
}

std::size_t StripCompiler::add_map(const LinearAccess& access) {
  const bool along_fold = along_ == Along::kFold;
  program_.nest.strides.push_back(along_fold ? access.fold : access.iteration);
  program_.outer.strides.push_back(along_fold ? access.iteration : access.fold);
  return program_.nest.strides.size() - 1;
}

std::int32_t StripCompiler::read(std::size_t n) {
  const StripAccess& access = (*accesses_)[n];
  const DType dtype = primitive_->accesses[n].dtype;
  const LinearAccess& plain = access.plain;
  if (const std::int32_t reg = member_result(plain.value); reg >= 0) return reg;
  if (!access.guarded.empty()) return read_guarded(access, dtype);
  for (std::size_t r = 0; r < program_.registers.size(); ++r) {
    const StripRegister& reg = program_.registers[r];
    const bool same = reg.source == Source::kMemory && reg.value == plain.value && reg.base == plain.base &&
                      along_ == Along::kIteration && program_.outer.extents.empty() &&
                      program_.nest.strides[reg.map] == plain.iteration;
    if (same) return static_cast<std::int32_t>(r);
  }
  // kMemory stands for "to be decided": finish() looks at the innermost stride once dimensions are joined.
  const Type type = dtype == DType::kF32 ? Type::kFloat : Type::kInteger;
  return add_register({Source::kMemory, type, dtype, plain.value, plain.base, add_map(plain)});
}

std::int32_t StripCompiler::read_guarded(const StripAccess& access, DType dtype) {
  const bool is_float = dtype == DType::kF32;
  StripRegister reg{Source::kGuarded, is_float ? Type::kFloat : Type::kInteger, dtype, access.plain.value,
                    access.plain.base};
  for (const kernels::CompiledCoordinate& coordinate : access.guarded)
    reg.guarded.push_back(guard(coordinate));
  reg.map = add_map(access.plain);
  reg.literal = is_float ? kernels::Literal(access.fill.real) : kernels::Literal(access.fill.integer);
  return add_register(std::move(reg));
}

GuardedCoordinate StripCompiler::guard(const kernels::CompiledCoordinate& coordinate) {
  GuardedCoordinate out;
  out.constant = coordinate.constant;
  out.division = coordinate.division;
  out.divisor = coordinate.divisor;
  out.size = coordinate.size;
  out.stride = coordinate.stride;
  for (const kernels::CompiledTerm& term : coordinate.terms) {
    if (term.access >= 0) {
      out.reads.push_back(
          {static_cast<std::size_t>(read(static_cast<std::size_t>(term.access))), term.coefficient});
      continue;
    }
    const bool is_fold = term.slot >= kernels::kFirstFoldSlot;
    const auto dimension =
        static_cast<std::size_t>(is_fold ? term.slot - kernels::kFirstFoldSlot : term.slot);
    const bool is_inner = is_fold == (along_ == Along::kFold);
    if (is_inner) named_[dimension] = true;
    (is_inner ? out.inner : out.outer).push_back({dimension, term.coefficient});
  }
  return out;
}

std::int32_t StripCompiler::index(bool is_fold, std::size_t dimension) {
  const bool is_inner = is_fold == (along_ == Along::kFold);
  if (is_inner) named_[dimension] = true;
  return add_register({is_inner ? Source::kIndex : Source::kOuter, Type::kInteger, DType::kI64,
                       kernels::kNoValue, 0, dimension});
}

std::int32_t StripCompiler::accumulator() {
  const bool is_float = primitive_->dtype == DType::kF32;
  if (program_.accumulator < 0) {
    program_.accumulator = add_register({Source::kAccumulator, is_float ? Type::kFloat : Type::kInteger});
  }
  return program_.accumulator;
}

std::int32_t StripCompiler::operand(const CompiledOperand& operand, const std::vector<std::int32_t>& steps) {
  const auto index_of = static_cast<std::size_t>(operand.index);
  switch (operand.kind) {
    case Operand::Kind::kAccess: return read(index_of);
    case Operand::Kind::kStep: return steps[index_of];
    case Operand::Kind::kIndex: return index(false, index_of);
    case Operand::Kind::kFold: return index(true, index_of - kernels::kFirstFoldSlot);
    case Operand::Kind::kAccumulator: return accumulator();
    default: break;
  }
  if (operand.type == NumberType::kFloat) {
    return add_register(
        {Source::kLiteral, Type::kFloat, DType::kF32, kernels::kNoValue, 0, 0, operand.literal.real});
  }
  return add_register(
      {Source::kLiteral, Type::kInteger, DType::kI64, kernels::kNoValue, 0, 0, operand.literal.integer});
}

std::int32_t StripCompiler::as_type(std::int32_t reg, Type type) {
  const Type from = type_of(reg);
  if (from == type) return reg;
  if (type == Type::kMask) return emit(Op::kMaskOfInteger, Type::kMask, reg);
  return emit(Op::kIntegerOfMask, Type::kInteger, reg);
}

std::int32_t StripCompiler::compare(ScalarOp op, bool is_float, std::int32_t a, std::int32_t b) {
  const Type type = is_float ? Type::kFloat : Type::kInteger;
  a = as_type(a, type);
  b = as_type(b, type);
  return emit(strip_op(op, type), Type::kMask, a, b);
}

std::int32_t StripCompiler::convert(ScalarOp op, std::int32_t a) {
  const Type type = type_of(a);
  if (op == ScalarOp::kF32) {
    if (type == Type::kFloat) return a;
    return emit(Op::kFloatOfInteger, Type::kFloat, as_type(a, Type::kInteger));
  }
  const std::int32_t integer =
      type == Type::kFloat ? emit(Op::kIntegerOfFloat, Type::kInteger, a) : as_type(a, Type::kInteger);
  return op == ScalarOp::kI64 ? integer : emit(Op::kByteOfInteger, Type::kInteger, integer);
}

/// The inverse of a literal power of two, if it is normal: multiplying by it gives the bits of the division
/// in a tenth of the time.
std::optional<std::int32_t> StripCompiler::exact_inverse(std::int32_t reg) {
  const StripRegister& divisor = program_.registers[static_cast<std::size_t>(reg)];
  if (divisor.source != Source::kLiteral || divisor.type != Type::kFloat) return std::nullopt;
  int exponent = 0;
  const float mantissa = std::frexp(std::get<float>(divisor.literal), &exponent);
  if (std::fabs(mantissa) != 0.5F || exponent < -124 || exponent > 126) return std::nullopt;
  return add_register({Source::kLiteral, Type::kFloat, DType::kF32, kernels::kNoValue, 0, 0,
                       1 / std::get<float>(divisor.literal)});
}

std::int32_t StripCompiler::step(const CompiledStep& step, const std::vector<std::int32_t>& steps) {
  std::int32_t in[3] = {0, 0, 0};
  for (int n = 0; n < step.arity; ++n) in[n] = operand(step.operands[static_cast<std::size_t>(n)], steps);
  const bool is_float = step.operand_type == NumberType::kFloat;
  switch (step.op) {
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe: return compare(step.op, is_float, in[0], in[1]);
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
      return emit(strip_op(step.op, Type::kMask), Type::kMask, as_type(in[0], Type::kMask),
                  as_type(in[1], Type::kMask));
    case ScalarOp::kNot: return emit(Op::kNotM, Type::kMask, as_type(in[0], Type::kMask));
    case ScalarOp::kSelect: {
      const std::int32_t mask = as_type(in[0], Type::kMask);
      if (is_float) return emit(Op::kSelectF, Type::kFloat, mask, in[1], in[2]);
      return emit(Op::kSelectI, Type::kInteger, mask, as_type(in[1], Type::kInteger),
                  as_type(in[2], Type::kInteger));
    }
    case ScalarOp::kF32:
    case ScalarOp::kI64:
    case ScalarOp::kU8: return convert(step.op, in[0]);
    default: break;
  }
  if (step.op == ScalarOp::kDiv && is_float) {
    if (const auto inverse = exact_inverse(in[1])) return emit(Op::kMulF, Type::kFloat, in[0], *inverse);
  }
  const Type type = is_float ? Type::kFloat : Type::kInteger;
  for (int n = 0; n < step.arity; ++n) in[n] = as_type(in[n], type);
  return emit(strip_op(step.op, type), type, in[0], in[1], in[2]);
}

std::vector<std::int32_t> StripCompiler::add_steps(const kernels::CompiledSteps& list) {
  std::vector<std::int32_t> steps;
  for (const CompiledStep& s : list.steps) steps.push_back(step(s, steps));
  return steps;
}

void StripCompiler::add(ValueIndex value, const kernels::CompiledPrimitive& primitive,
                        const std::vector<StripAccess>& accesses) {
  primitive_ = &primitive;
  accesses_ = &accesses;
  const auto steps = add_steps(primitive.steps);
  std::int32_t result = steps.empty() ? operand(primitive.steps.result, steps) : steps.back();
  if (primitive.has_when) {
    const auto conditions = add_steps(primitive.when);
    const std::int32_t when =
        conditions.empty() ? operand(primitive.when.result, conditions) : conditions.back();
    const bool is_float = primitive.dtype == DType::kF32;
    const std::int32_t mask = as_type(when, Type::kMask);
    result = is_float
                 ? emit(Op::kSelectF, Type::kFloat, mask, result, accumulator())
                 : emit(Op::kSelectI, Type::kInteger, mask, as_type(result, Type::kInteger), accumulator());
  }
  // A map's result saturates when stored in a u8 value (dgx-numerics(7), "Elements"), also for readers that
  // are members of the group.
  const bool narrows = primitive.kind == kernels::Kind::kMap && primitive.dtype == DType::kU8 &&
                       type_of(result) == Type::kInteger;
  const bool is_byte = steps.empty() ? primitive.accesses[0].dtype == DType::kU8
                                     : primitive.steps.steps.back().op == ScalarOp::kU8;
  if (narrows && !is_byte) result = emit(Op::kByteOfInteger, Type::kInteger, result);
  members_.push_back({value, result});
}

void StripCompiler::add_init(ValueIndex value, const kernels::CompiledPrimitive& primitive,
                             const std::vector<StripAccess>& accesses) {
  primitive_ = &primitive;
  accesses_ = &accesses;
  members_.push_back({value, operand(primitive.init, {})});
}

void StripCompiler::store(ValueIndex value, DType dtype) {
  std::int32_t from = member_result(value);
  if (dtype != DType::kF32) from = as_type(from, Type::kInteger);
  const std::size_t map = add_map({value, 0, row_major_strides(program_.nest.extents), {}});
  const Type type = dtype == DType::kF32 ? Type::kFloat : Type::kInteger;
  const std::int32_t out = add_register({Source::kMemory, type, dtype, value, 0, map});
  // Instead of copying a scratch register, let the instruction that makes it write to memory: later readers
  // then find it there.
  const Source source = program_.registers[static_cast<std::size_t>(from)].source;
  if (source == Source::kScratch && dtype != DType::kU8) {
    const auto renamed = [&](std::int32_t& r) { r = r == from ? out : r; };
    for (auto& instruction : program_.instructions) {
      renamed(instruction.out);
      for (std::int32_t& in : instruction.in) renamed(in);
    }
    for (Member& member : members_) renamed(member.result);
    return;
  }
  const Op op = dtype == DType::kF32 ? Op::kCopyF : dtype == DType::kU8 ? Op::kStoreByte : Op::kCopyI;
  program_.instructions.push_back({op, out, {from, 0, 0}});
}

void StripCompiler::check_finite(ValueIndex value) {
  const std::int32_t flag = add_register({Source::kFlag, Type::kMask, DType::kF32, value});
  program_.instructions.push_back({Op::kCheckFinite, flag, {member_result(value), 0, 0}});
}

void StripCompiler::add_up() {
  const std::int32_t sums = add_register({Source::kAccumulator, Type::kFloat});
  program_.accumulator = sums;
  program_.instructions.push_back({Op::kAddF, sums, {sums, members_.back().result, 0}});
}

void StripCompiler::return_result(ValueIndex value) {
  program_.result =
      as_type(member_result(value), primitive_->dtype == DType::kF32 ? Type::kFloat : Type::kInteger);
}

/// Joins dimensions into fewer and longer ones, except those that are named.
void StripCompiler::collapse() {
  const auto place = program_.nest.collapse(named_);
  for (StripRegister& reg : program_.registers) {
    if (reg.source == Source::kIndex) reg.map = place[reg.map];
    for (GuardedCoordinate& coordinate : reg.guarded) {
      for (GuardedCoordinate::Term& term : coordinate.inner) term.from = place[term.from];
    }
  }
}

/// Rows much shorter than a strip would spend their time on starting strips. So the two innermost dimensions
/// become one, and what has no single stride along it is gathered.
void StripCompiler::join_short_rows() {
  LoopNest& nest = program_.nest;
  constexpr std::int64_t kShort = kStripLength / 4;
  if (keeps_rows_ || along_ == Along::kFold || nest.extents.size() < 2 || nest.inner_extent() >= kShort ||
      nest.inner_extent() == 0)
    return;
  program_.period = nest.inner_extent();
  program_.strip = kStripLength / program_.period * program_.period;
  nest.extents.pop_back();
  nest.extents.back() *= program_.period;
}

/// Decides how each register gets its numbers, by its stride along the innermost dimension.
void StripCompiler::place_registers() {
  for (std::size_t r = 0; r < program_.registers.size(); ++r) {
    StripRegister& reg = program_.registers[r];
    reg.size = static_cast<std::int64_t>(size_of(reg.dtype));
    const bool walks = reg.source == Source::kMemory || reg.source == Source::kIndex ||
                       reg.source == Source::kOuter || reg.source == Source::kGuarded;
    if (walks) program_.walked.push_back(r);
    if (reg.source != Source::kMemory) continue;
    const auto& strides = program_.nest.strides[reg.map];
    const std::int64_t stride = strides.back();
    const bool one_stride = program_.period == 0 || strides[strides.size() - 2] == stride * program_.period;
    const bool single = program_.nest.inner_extent() == 1;
    if (one_stride && (stride == 1 || single)) continue;
    reg.source = Source::kGather;
    if (program_.period != 0 && strides[strides.size() - 2] == 0) reg.source = Source::kPeriodic;
    if (one_stride && stride == 0) reg.source = Source::kSplat;
  }
}

/// u8 memory is widened as it is read; everything else is read as it lies.
void StripCompiler::widen_bytes() {
  std::vector<kernels::cpu::StripInstruction> widened;
  auto& instructions = program_.instructions;
  const std::size_t registers = program_.registers.size();
  for (std::size_t n = 0; n < registers; ++n) {
    const auto r = static_cast<std::int32_t>(n);
    const StripRegister reg = program_.registers[n];
    const bool written =
        std::any_of(instructions.begin(), instructions.end(), [r](const auto& i) { return i.out == r; });
    if (reg.dtype != DType::kU8 || reg.source != Source::kMemory || written) continue;
    const std::int32_t wide = scratch(Type::kInteger);
    bool used = program_.result == r;
    for (auto& instruction : instructions) {
      if (instruction.op == Op::kFloatOfInteger && instruction.in[0] == r) {
        instruction.op = Op::kFloatOfByte;  // no need to pass through 64 bits
        continue;
      }
      for (std::int32_t& in : instruction.in) {
        used = used || in == r;
        in = in == r ? wide : in;
      }
    }
    if (program_.result == r) program_.result = wide;
    if (used) widened.push_back({Op::kIntegerOfByte, wide, {r, 0, 0}});
  }
  instructions.insert(instructions.begin(), widened.begin(), widened.end());
}

void StripCompiler::fill_literals() {
  for (std::size_t r = 0; r < program_.registers.size(); ++r) {
    const StripRegister& reg = program_.registers[r];
    std::vector<std::uint8_t> copies;
    if (reg.source == Source::kLiteral) {
      const bool is_float = std::holds_alternative<float>(reg.literal);
      const std::size_t size = is_float ? 4 : 8;
      copies.resize(
          size * (needs_copies(static_cast<std::int32_t>(r)) ? static_cast<std::size_t>(kStripLength) : 1));
      const void* from = is_float ? static_cast<const void*>(&std::get<float>(reg.literal))
                                  : static_cast<const void*>(&std::get<std::int64_t>(reg.literal));
      for (std::size_t i = 0; i < copies.size(); i += size) std::memcpy(copies.data() + i, from, size);
    }
    program_.literals.push_back(std::move(copies));
  }
}

/// True for an index that is the same for all elements of a strip.
bool StripCompiler::is_index_of_strip(const StripRegister& reg) const {
  return reg.source == Source::kOuter ||
         (reg.source == Source::kIndex && reg.map + 1 < program_.nest.extents.size());
}

/// Links instructions into chains that pass results in processor registers. Only scratch registers may pass
/// so: all others lie in memory that something else reads.
void StripCompiler::chain() {
  std::vector<kernels::cpu::StripUse> uses;
  for (const StripRegister& reg : program_.registers) {
    const bool number =
        reg.source == Source::kLiteral || (reg.source == Source::kSplat && reg.dtype == DType::kF32);
    uses.push_back({reg.source != Source::kScratch, number || is_index_of_strip(reg)});
  }
  if (program_.result >= 0) uses[static_cast<std::size_t>(program_.result)].stored = true;
  kernels::cpu::link_chains(program_.instructions, uses);
}

/// True if the register must hold its one number for every element of a strip, since an instruction reads it
/// so.
bool StripCompiler::needs_copies(std::int32_t reg) const {
  if (reg == program_.result) return true;
  return std::any_of(program_.instructions.begin(), program_.instructions.end(),
                     [reg](const auto& instruction) {
                       for (int n = 0; n < 3; ++n) {
                         if (instruction.in[n] == reg && (instruction.uniform >> n & 1) == 0) return true;
                       }
                       return false;
                     });
}

/// Registers that instructions can use in memory as they lie take no more than an address: moves them to
/// `pointed`.
void StripCompiler::point() {
  std::vector<std::size_t> walked;
  for (const std::size_t r : program_.walked) {
    StripRegister& reg = program_.registers[r];
    reg.single = is_index_of_strip(reg) && !needs_copies(static_cast<std::int32_t>(r));
    const bool splat = reg.source == Source::kSplat && reg.dtype == DType::kF32 &&
                       !needs_copies(static_cast<std::int32_t>(r));
    if (reg.source != Source::kMemory && !splat) {
      walked.push_back(r);
      continue;
    }
    const std::int64_t stride = program_.nest.strides[reg.map].back();
    program_.pointed.push_back({r, reg.map, reg.value, reg.base, reg.size, splat ? 0 : stride * reg.size});
  }
  program_.walked = std::move(walked);
}

StripProgram StripCompiler::finish() {
  collapse();
  join_short_rows();
  place_registers();
  widen_bytes();
  chain();
  fill_literals();
  point();
  return std::move(program_);
}

}  // namespace dgx::exec
