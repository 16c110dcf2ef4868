#include <algorithm>

#include "dgx/kernels/cpu/column_sum.h"
#include "dgx/kernels/fold_order.h"
#include "plan/recognise.h"

namespace dgx::exec {

using kernels::CompiledOperand;
using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::kSumBlock;
using kernels::Operand;
using kernels::ScalarOp;
using kernels::ValueIndex;
using kernels::cpu::StripType;
using Source = StripRegister::Source;

namespace {

constexpr std::int64_t kShortFold = 32;

/// True if an output's operands are best read as a row: there is but one output, the fold is longer than a
/// block, or operands lie in long rows.
bool has_rows(const CompiledPrimitive& primitive, const std::vector<StripAccess>& accesses) {
  if (primitive.count == 1 || primitive.fold_count > kSumBlock) return true;
  if (primitive.fold_count < kShortFold) return false;
  return std::all_of(accesses.begin(), accesses.end(), [&](const StripAccess& access) {
    std::size_t inner = primitive.fold.size();
    while (inner > 0 && primitive.fold[inner - 1] == 1) --inner;
    const std::int64_t stride = inner == 0 ? 1 : access.plain.fold[inner - 1];
    return access.guarded.empty() && (stride == 0 || stride == 1);
  });
}

bool names_index(const kernels::CompiledSteps& list) {
  const auto is_index = [](const CompiledOperand& operand) {
    return operand.kind == Operand::Kind::kIndex || operand.kind == Operand::Kind::kFold;
  };
  return std::any_of(list.steps.begin(), list.steps.end(), [&](const kernels::CompiledStep& step) {
    return std::any_of(step.operands.begin(), step.operands.begin() + step.arity, is_index);
  });
}

std::int64_t inner_stride(const Shape& extents, const std::vector<std::int64_t>& strides) {
  std::size_t inner = extents.size();
  while (inner > 0 && extents[inner - 1] == 1) --inner;
  return inner == 0 ? 0 : strides[inner - 1];
}

/// True for a sum whose operands lie in memory as short rows of neighbouring outputs, position after
/// position: too short for strips of outputs.
bool has_columns(const CompiledPrimitive& primitive, const std::vector<StripAccess>& accesses) {
  constexpr std::int64_t kLeastColumns = 8;
  constexpr std::int64_t kMostColumns = kernels::cpu::kStripLength / 2;
  const std::int64_t columns = primitive.iteration.empty() ? 1 : primitive.iteration.back();
  if (primitive.kind != Kind::kSum || primitive.fold_count < kShortFold || columns < kLeastColumns ||
      columns > kMostColumns)
    return false;
  bool all = true;
  bool any = false;
  for (const StripAccess& access : accesses) {
    const std::int64_t stride = access.plain.iteration.back();
    all = all && access.guarded.empty() && (stride == 0 || stride == 1);
    any = any || (stride == 1 && inner_stride(primitive.fold, access.plain.fold) == columns);
  }
  return all && any && !names_index(primitive.steps);
}

/// The accesses of a fold by columns: strips run along positions and the innermost output dimension; the
/// outer output dimensions number the matrices.
std::vector<StripAccess> by_columns(const std::vector<StripAccess>& accesses) {
  std::vector<StripAccess> out = accesses;
  for (StripAccess& access : out) {
    std::swap(access.plain.iteration, access.plain.fold);
    access.plain.iteration.push_back(access.plain.fold.back());
    access.plain.fold.pop_back();
  }
  return out;
}

/// Elements between rows of operands, if the fold can read them in memory; nullopt if they must be computed.
std::optional<std::int64_t> row_stride_of(const StripProgram& program) {
  const StripRegister& reg = program.registers[static_cast<std::size_t>(program.result)];
  if (reg.source != Source::kMemory || reg.dtype != DType::kF32 || !program.instructions.empty() ||
      program.nest.rows() != 1) {
    return std::nullopt;
  }
  LoopNest outer{program.outer.extents, {program.outer.strides[reg.map]}};
  outer.collapse();
  if (outer.extents.size() != 1) return std::nullopt;
  return outer.strides[0][0];
}

/// Operands that lie in memory are folded there. Others are computed and added up by their strip program,
/// while they are in processor registers.
std::optional<Fold> fold_of_columns(ValueIndex value, const CompiledPrimitive& primitive,
                                    const std::vector<StripAccess>& accesses) {
  Shape matrix = primitive.fold;
  matrix.push_back(primitive.iteration.back());
  const Shape matrices(primitive.iteration.begin(), primitive.iteration.end() - 1);
  const auto compile = [&](bool adds_up) {
    StripCompiler compiler(matrix, matrices, StripCompiler::Along::kIteration);
    compiler.add(value, primitive, by_columns(accesses));
    adds_up ? compiler.add_up() : compiler.return_operand();
    return compiler.finish();
  };
  Fold fold{value,
            primitive.kind,
            primitive.count,
            primitive.fold_count,
            Fold::Along::kColumns,
            compile(false),
            {},
            primitive.iteration.back()};
  if (fold.operands().type != StripType::kFloat) return std::nullopt;
  fold.row_stride = row_stride_of(fold.program);
  if (!fold.row_stride) fold.program = compile(true);
  return fold;
}

/// A condition `eq xJ iD` of `when`, alone or joined to others by `and`.
struct Equality {
  std::size_t access, dimension;
};
std::optional<Equality> equality_in(const kernels::CompiledSteps& when, const CompiledOperand& operand) {
  if (operand.kind != Operand::Kind::kStep) return std::nullopt;
  const auto& step = when.steps[static_cast<std::size_t>(operand.index)];
  const auto& [a, b, c] = step.operands;
  if (step.op == ScalarOp::kAnd) {
    const auto first = equality_in(when, a);
    return first ? first : equality_in(when, b);
  }
  if (step.op != ScalarOp::kEq) return std::nullopt;
  for (const auto& [x, i] : {std::pair{a, b}, std::pair{b, a}}) {
    if (x.kind == Operand::Kind::kAccess && i.kind == Operand::Kind::kIndex) {
      return Equality{static_cast<std::size_t>(x.index), static_cast<std::size_t>(i.index)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Chain::Key> recognise_key(const CompiledPrimitive& primitive,
                                        const std::vector<StripAccess>& accesses) {
  if (!primitive.has_when || primitive.when.steps.empty()) return std::nullopt;
  const auto equality = equality_in(primitive.when, primitive.when.result);
  if (!equality) return std::nullopt;
  const StripAccess& access = accesses[equality->access];
  if (!access.guarded.empty()) return std::nullopt;
  Chain::Key key;
  key.sets.strides.resize(1);
  for (std::size_t d = 0; d < primitive.iteration.size(); ++d) {
    const std::int64_t stride = primitive.iteration[d] == 1 ? 0 : access.plain.iteration[d];
    if (d >= equality->dimension && stride != 0) return std::nullopt;
    if (d >= equality->dimension) continue;
    key.sets.extents.push_back(primitive.iteration[d]);
    key.sets.strides[0].push_back(stride);
  }
  key.sets.collapse();
  key.value = access.plain.value;
  key.dtype = primitive.accesses[equality->access].dtype;
  key.base = access.plain.base;
  key.positions = {primitive.fold, {access.plain.fold}};
  key.positions.collapse();
  key.extent = primitive.iteration[equality->dimension];
  key.stride = row_major_strides(primitive.iteration)[equality->dimension];
  return key;
}

std::int64_t Fold::floats() const {
  switch (along) {
    case Along::kFold: return length;
    // StripSum takes 33 strips of floats, StripMax 10.
    case Along::kOutputs: return 40 * kernels::cpu::kStripLength;
    default: return kernels::cpu::ColumnSums::size(length, columns) + kernels::cpu::kStripLength;
  }
}

std::optional<Fold> recognise_fold(ValueIndex value, const CompiledPrimitive& primitive,
                                   const std::vector<StripAccess>& accesses) {
  const bool folds =
      primitive.kind == Kind::kSum || primitive.kind == Kind::kMax || primitive.kind == Kind::kArgmax;
  if (!folds || primitive.count == 0 || primitive.fold_count == 0) return std::nullopt;
  if (has_columns(primitive, accesses)) {
    if (auto fold = fold_of_columns(value, primitive, accesses)) return fold;
  }
  const bool rows = has_rows(primitive, accesses);
  StripCompiler compiler(rows ? primitive.fold : primitive.iteration,
                         rows ? primitive.iteration : primitive.fold,
                         rows ? StripCompiler::Along::kFold : StripCompiler::Along::kIteration);
  compiler.add(value, primitive, accesses);
  compiler.return_operand();
  Fold fold{value,
            primitive.kind,
            primitive.count,
            primitive.fold_count,
            rows ? Fold::Along::kFold : Fold::Along::kOutputs,
            compiler.finish(),
            {},
            1};
  // Integer folds are rare and left to the generic path.
  if (fold.operands().type != StripType::kFloat) return std::nullopt;
  if (rows) fold.row_stride = row_stride_of(fold.program);
  return fold;
}

std::optional<Chain> recognise_chain(ValueIndex value, const CompiledPrimitive& primitive,
                                     const std::vector<StripAccess>& accesses) {
  // The accumulator of a u8 chain is wide; only what is stored saturates. Generic has that.
  const bool narrow = primitive.dtype == DType::kU8;
  if (primitive.kind != Kind::kChain || narrow || primitive.count == 0 || primitive.fold_count == 0)
    return std::nullopt;
  Chain chain;
  chain.out = value;
  chain.dtype = primitive.dtype;
  chain.length = primitive.fold_count;
  StripCompiler init(primitive.iteration, {}, StripCompiler::Along::kIteration);
  init.add_init(value, primitive, accesses);
  init.return_result(value);
  chain.init = init.finish();
  StripCompiler body(primitive.iteration, primitive.fold, StripCompiler::Along::kIteration);
  body.add(value, primitive, accesses);
  body.return_result(value);
  chain.body = body.finish();
  chain.key = recognise_key(primitive, accesses);
  return chain;
}

}  // namespace dgx::exec
