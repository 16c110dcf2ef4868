#include <fmt/format.h>

#include <span>

#include "dgx/kernels/compiled.h"

namespace dgx::kernels {
namespace {

// Turns one primitive into its compiled form, checking it on the way; the members are what the checks share.
class Compiler {
 public:
  Compiler(const Primitive& primitive, const TypeOf& type_of) : in_(primitive), type_of_(type_of) {}

  Result<CompiledPrimitive> run() {
    DGX_CHECK(shapes());
    DGX_CHECK(accesses());
    DGX_CHECK(init());
    DGX_CHECK(lists());
    DGX_CHECK(result());
    return std::move(out_);
  }

 private:
  Status shapes();
  Status accesses();
  Status init();
  Status lists();
  Status result();

  Result<CompiledAccess> access(const Access& from);
  Result<CompiledCoordinate> coordinate(const Coordinate& from, std::int64_t size, std::int64_t stride);
  Result<CompiledTerm> term(const Term& from);
  Status check_indirections(std::size_t n) const;
  void make_linear(CompiledAccess& access) const;
  bool stays_inside(const CompiledCoordinate& coordinate) const;

  Result<CompiledSteps> list(const std::vector<Step>& steps, bool may_accumulate);
  Result<CompiledStep> step(const Step& from, const std::vector<CompiledStep>& earlier, bool may_accumulate);
  Result<CompiledOperand> operand(const Operand& from, const std::vector<CompiledStep>& earlier,
                                  bool may_accumulate);
  Result<CompiledOperand> index_operand(const Operand& from);

  [[nodiscard]] std::int64_t size_of_slot(std::int32_t slot) const {
    return slot < kFirstFoldSlot ? out_.iteration[static_cast<std::size_t>(slot)]
                                 : out_.fold[static_cast<std::size_t>(slot - kFirstFoldSlot)];
  }
  [[nodiscard]] bool has_index(std::int32_t n) const {
    return n >= 0 && static_cast<std::size_t>(n) < out_.iteration.size();
  }
  [[nodiscard]] bool has_fold(std::int32_t n) const {
    return n >= 0 && static_cast<std::size_t>(n) < out_.fold.size();
  }
  [[nodiscard]] bool has_access(std::int32_t n) const {
    return n >= 0 && static_cast<std::size_t>(n) < in_.accesses.size();
  }
  [[nodiscard]] NumberType value_number() const { return number_type(out_.dtype); }

  const Primitive& in_;
  const TypeOf& type_of_;
  CompiledPrimitive out_;
};

Status Compiler::shapes() {
  out_.kind = in_.kind;
  out_.dtype = in_.dtype;
  out_.shape = in_.shape;
  out_.iteration = in_.iteration_shape();
  out_.fold = in_.fold;
  if (in_.kind == Kind::kInput) return malformed("an input has no elements to compute");
  if (in_.kind == Kind::kMap && !in_.fold.empty()) return malformed("a map has no fold shape");
  DGX_TRY(out_.count, element_count(in_.shape));
  DGX_TRY(const std::int64_t iterations, element_count(out_.iteration));
  if (iterations != out_.count) {
    return malformed(fmt::format("iteration shape {} and shape {} differ in their number of elements",
                                 dgx::to_string(out_.iteration), dgx::to_string(in_.shape)));
  }
  DGX_TRY(out_.fold_count, element_count(in_.fold));
  return {};
}

Status Compiler::accesses() {
  for (std::size_t n = 0; n < in_.accesses.size(); ++n) {
    auto compiled = access(in_.accesses[n]);
    if (!compiled) return within(fmt::format("access {}", n), compiled.error());
    out_.accesses.push_back(std::move(compiled).value());
  }
  for (std::size_t n = 0; n < out_.accesses.size(); ++n) DGX_CHECK(check_indirections(n));
  return {};
}

Result<CompiledAccess> Compiler::access(const Access& from) {
  const auto type = type_of_(from.value);
  if (!type) return malformed(fmt::format("there is no earlier value {}", from.value));
  CompiledAccess access;
  access.value = from.value;
  access.dtype = type->dtype;
  DGX_TRY(access.count, element_count(type->shape));
  const Shape& shape = from.view ? *from.view : type->shape;
  DGX_TRY(const std::int64_t view_count, element_count(shape));
  if (view_count != access.count) {
    return malformed(fmt::format("view {} and {} differ in their number of elements", dgx::to_string(shape),
                                 dgx::to_string(type->shape)));
  }
  if (from.coordinates.size() != shape.size()) {
    return malformed(fmt::format("{} coordinates for {} dimensions", from.coordinates.size(), shape.size()));
  }
  std::int64_t stride = access.count;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    stride = shape[d] == 0 ? 0 : stride / shape[d];
    auto compiled = coordinate(from.coordinates[d], shape[d], stride);
    if (!compiled) return within(fmt::format("coordinate {}", d), compiled.error());
    access.coordinates.push_back(std::move(compiled).value());
  }
  const bool is_real = number_type(access.dtype) == NumberType::kFloat;
  access.fill.integer = 0;
  if (is_real) access.fill.real = 0;
  if (from.fill) {
    if (std::holds_alternative<float>(*from.fill) != is_real) {
      return malformed(fmt::format("the fill does not have the type of {}", name_of(access.dtype)));
    }
    if (is_real) access.fill.real = std::get<float>(*from.fill);
    if (!is_real) access.fill.integer = std::get<std::int64_t>(*from.fill);
    if (access.dtype == DType::kU8 && to_u8(access.fill.integer) != access.fill.integer)
      return malformed(fmt::format("the fill {} is not a u8", access.fill.integer));
  }
  make_linear(access);
  return access;
}

Result<CompiledCoordinate> Compiler::coordinate(const Coordinate& from, std::int64_t size,
                                                std::int64_t stride) {
  if (from.divisor < 1) return malformed(fmt::format("divisor {} is below 1", from.divisor));
  CompiledCoordinate compiled{{}, from.constant, from.division, from.divisor, size, stride};
  for (const Term& one : from.terms) {
    DGX_TRY(compiled.terms.emplace_back(), term(one));
  }
  return compiled;
}

Result<CompiledTerm> Compiler::term(const Term& from) {
  switch (from.symbol) {
    case Term::Symbol::kIndex:
      if (!has_index(from.index)) return malformed(fmt::format("there is no index i{}", from.index));
      return CompiledTerm{from.index, -1, from.coefficient};
    case Term::Symbol::kFold:
      if (!has_fold(from.index)) return malformed(fmt::format("there is no fold index k{}", from.index));
      return CompiledTerm{from.index + kFirstFoldSlot, -1, from.coefficient};
    case Term::Symbol::kAccess:
      if (!has_access(from.index)) return malformed(fmt::format("there is no access ${}", from.index));
      return CompiledTerm{0, from.index, from.coefficient};
  }
  return internal_error("unknown symbol");
}

// `$` goes one level deep: what a coordinate reads must be an integer, by an access without a `$` of its own.
Status Compiler::check_indirections(std::size_t n) const {
  for (const CompiledCoordinate& one : out_.accesses[n].coordinates) {
    for (const CompiledTerm& from : one.terms) {
      if (from.access < 0) continue;
      const CompiledAccess& named = out_.accesses[static_cast<std::size_t>(from.access)];
      if (named.dtype == DType::kF32)
        return malformed(fmt::format("access {}: ${} is not an integer", n, from.access));
      for (const CompiledCoordinate& inner : named.coordinates) {
        for (const CompiledTerm& deeper : inner.terms) {
          if (deeper.access >= 0) {
            return malformed(fmt::format("access {}: ${} has a $ of its own", n, from.access));
          }
        }
      }
    }
  }
  return {};
}

// Interval arithmetic in 128 bits: coefficients have at most 64, sizes 53. A coordinate that divides, or
// reads an index from a value, is not proved inside.
bool Compiler::stays_inside(const CompiledCoordinate& coordinate) const {
  if (coordinate.division != Coordinate::Division::kNone) return false;
  __int128 least = coordinate.constant;
  __int128 most = coordinate.constant;
  for (const CompiledTerm& one : coordinate.terms) {
    if (one.access >= 0) return false;
    const std::int64_t size = size_of_slot(one.slot);
    if (size == 0) return false;
    const __int128 reach = static_cast<__int128>(one.coefficient) * (size - 1);
    (reach < 0 ? least : most) += reach;
  }
  return least >= 0 && most < coordinate.size;
}

void Compiler::make_linear(CompiledAccess& access) const {
  std::array<std::int64_t, kIndexSlots> total{};
  for (const CompiledCoordinate& coordinate : access.coordinates) {
    if (!stays_inside(coordinate)) return;
    access.offset = wrapping_add(access.offset, wrapping_mul(coordinate.constant, coordinate.stride));
    for (const CompiledTerm& one : coordinate.terms) {
      std::int64_t& slot = total[static_cast<std::size_t>(one.slot)];
      slot = wrapping_add(slot, wrapping_mul(one.coefficient, coordinate.stride));
    }
  }
  access.is_linear = true;
  for (std::int32_t slot = 0; slot < kIndexSlots; ++slot) {
    const std::int64_t coefficient = total[static_cast<std::size_t>(slot)];
    if (coefficient != 0 && size_of_slot(slot) > 1) access.linear.push_back({slot, -1, coefficient});
  }
}

Status Compiler::init() {
  if (in_.kind != Kind::kChain) {
    if (in_.init || !in_.when.empty()) return malformed("only a chain has init and when");
    return {};
  }
  if (!in_.init) return malformed("a chain needs init");
  const Operand::Kind kind = in_.init->kind;
  if (kind != Operand::Kind::kAccess && kind != Operand::Kind::kFloat && kind != Operand::Kind::kInteger) {
    return malformed("init is neither a literal nor an access");
  }
  auto compiled = operand(*in_.init, {}, false);
  if (!compiled) return within("init", compiled.error());
  out_.init = std::move(compiled).value();
  if (out_.init.type != value_number())
    return malformed(fmt::format("init does not have type {}", name_of(out_.dtype)));
  if (kind != Operand::Kind::kAccess) return {};

  const auto uses_fold = [](const CompiledAccess& access) {
    for (const CompiledCoordinate& coordinate : access.coordinates) {
      for (const CompiledTerm& one : coordinate.terms) {
        if (one.access < 0 && one.slot >= kFirstFoldSlot) return true;
      }
    }
    return false;
  };
  const CompiledAccess& read = out_.accesses[static_cast<std::size_t>(out_.init.index)];
  bool folds = uses_fold(read);
  for (const CompiledCoordinate& coordinate : read.coordinates) {
    for (const CompiledTerm& one : coordinate.terms) {
      if (one.access >= 0) folds = folds || uses_fold(out_.accesses[static_cast<std::size_t>(one.access)]);
    }
  }
  if (folds) return malformed("init reads an access with fold indices");
  return {};
}

Status Compiler::lists() {
  const bool is_chain = in_.kind == Kind::kChain;
  auto compiled = list(in_.steps, is_chain);
  if (!compiled) return within("do", compiled.error());
  out_.steps = std::move(compiled).value();
  if (in_.when.empty()) return {};
  auto condition = list(in_.when, false);
  if (!condition) return within("when", condition.error());
  out_.when = std::move(condition).value();
  out_.has_when = true;
  if (out_.when.result.type != NumberType::kInteger) return malformed("when gives a float");
  return {};
}

Result<CompiledSteps> Compiler::list(const std::vector<Step>& steps, bool may_accumulate) {
  if (steps.size() > kMaxSteps)
    return malformed(fmt::format("{} steps, more than {}", steps.size(), kMaxSteps));
  CompiledSteps compiled;
  for (std::size_t n = 0; n < steps.size(); ++n) {
    auto one = step(steps[n], compiled.steps, may_accumulate);
    if (!one) return within(fmt::format("step {}", n), one.error());
    compiled.steps.push_back(std::move(one).value());
  }
  if (steps.empty()) {
    DGX_TRY(compiled.result, operand(Operand::access(0), {}, false));
    return compiled;
  }
  const auto last = static_cast<std::int32_t>(steps.size() - 1);
  compiled.result = {Operand::Kind::kStep, last, compiled.steps.back().type, {}};
  compiled.always = std::uint64_t{1} << last;
  // Backwards from the last step: a step that is needed needs its operands, except the branches of a select.
  for (std::size_t n = steps.size(); n-- > 0;) {
    if ((compiled.always >> n & 1) == 0) continue;
    const CompiledStep& one = compiled.steps[n];
    const int sure = one.op == ScalarOp::kSelect ? 1 : one.arity;
    for (int i = 0; i < sure; ++i) {
      const CompiledOperand& from = one.operands[static_cast<std::size_t>(i)];
      if (from.kind == Operand::Kind::kStep) compiled.always |= std::uint64_t{1} << from.index;
    }
  }
  return compiled;
}

Result<CompiledStep> Compiler::step(const Step& from, const std::vector<CompiledStep>& earlier,
                                    bool may_accumulate) {
  CompiledStep compiled;
  compiled.op = from.op;
  compiled.arity = arity_of(from.op);
  const auto arity = static_cast<std::size_t>(compiled.arity);
  std::array<NumberType, 3> types{};
  for (std::size_t n = 0; n < arity; ++n) {
    DGX_TRY(compiled.operands[n], operand(from.operands[n], earlier, may_accumulate));
    types[n] = compiled.operands[n].type;
  }
  DGX_TRY(compiled.type, result_type(from.op, std::span(types).first(arity)));
  compiled.operand_type = types[arity - 1];
  return compiled;
}

Result<CompiledOperand> Compiler::operand(const Operand& from, const std::vector<CompiledStep>& earlier,
                                          bool may_accumulate) {
  CompiledOperand compiled{from.kind, from.index, NumberType::kInteger, {}};
  compiled.literal.integer = from.integer;
  switch (from.kind) {
    case Operand::Kind::kAccess:
      if (!has_access(from.index)) return malformed(fmt::format("there is no access x{}", from.index));
      compiled.type = number_type(out_.accesses[static_cast<std::size_t>(from.index)].dtype);
      return compiled;
    case Operand::Kind::kStep:
      if (from.index < 0 || static_cast<std::size_t>(from.index) >= earlier.size()) {
        return malformed(fmt::format("t{} is not an earlier step", from.index));
      }
      compiled.type = earlier[static_cast<std::size_t>(from.index)].type;
      return compiled;
    case Operand::Kind::kIndex:
    case Operand::Kind::kFold: return index_operand(from);
    case Operand::Kind::kAccumulator:
      if (!may_accumulate) return malformed("acc outside the do of a chain");
      compiled.type = value_number();
      return compiled;
    case Operand::Kind::kFloat:
      compiled.type = NumberType::kFloat;
      compiled.literal.real = from.real;
      return compiled;
    case Operand::Kind::kInteger: return compiled;
  }
  return internal_error("unknown operand");
}

Result<CompiledOperand> Compiler::index_operand(const Operand& from) {
  const bool is_fold = from.kind == Operand::Kind::kFold;
  if (is_fold ? !has_fold(from.index) : !has_index(from.index)) {
    return malformed(fmt::format("there is no index {}{}", is_fold ? 'k' : 'i', from.index));
  }
  return CompiledOperand{
      from.kind, is_fold ? from.index + kFirstFoldSlot : from.index, NumberType::kInteger, {}};
}

Status Compiler::result() {
  if (in_.kind == Kind::kArgmax) {
    if (out_.dtype != DType::kI64) return malformed("an argmax gives i64");
    return {};
  }
  if (in_.kind == Kind::kDot) {
    if (!in_.steps.empty()) return malformed("a dot has no steps");
    if (out_.dtype != DType::kF32) return malformed("a dot gives f32");
    if (out_.accesses.size() < 2) return malformed("a dot needs two accesses");
    for (std::size_t n = 0; n < 2; ++n) {
      if (out_.accesses[n].dtype != DType::kF32)
        return malformed(fmt::format("access {} of a dot is not f32", n));
    }
    return {};
  }
  if (out_.steps.result.type != value_number()) {
    return malformed(fmt::format("do does not give a number for {}", name_of(out_.dtype)));
  }
  return {};
}

}  // namespace

Result<CompiledPrimitive> compile(const Primitive& primitive, const TypeOf& type_of) {
  return Compiler(primitive, type_of).run();
}

Result<CompiledPrimitive> compile(const Primitive& primitive, const ByValue<ValueType>& table) {
  return compile(primitive, [&table](ValueIndex value) {
    return table.contains(value) ? std::optional(table[value]) : std::nullopt;
  });
}

}  // namespace dgx::kernels
