#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cpu/strip.h"
#include "linear.h"

namespace dgx::exec {

/// Where a register of a strip program lies.
struct StripRegister {
  enum class Source : std::uint8_t {
    kScratch,  ///< the thread's scratch: an intermediate result
    kMemory,   ///< the value itself, read or written along its unit stride
    kSplat,    ///< one element of the value, repeated
    kGather,   ///< elements of the value at other strides, copied into scratch
    kIndex,    ///< iteration (or fold) index `map`, as integers
    kLiteral,  ///< a constant
    kFlag,     ///< the thread's "something is not finite" flag of `value`
    kResult,   ///< where a fold wants its operands
  };
  Source source = Source::kScratch;
  kernels::cpu::StripType type = kernels::cpu::StripType::kFloat;
  DType dtype = DType::kF32;      ///< of the value in memory
  kernels::ValueIndex value = -1;
  std::int64_t base = 0;
  std::size_t map = 0;            ///< into LoopNest::strides; for kIndex the dimension
  kernels::Literal literal = 0.0F;
  std::int64_t size = 4;          ///< bytes of an element in memory
};

/// A fused expression over a loop nest: the maps of one group, or the operand expression of a fold.
struct StripProgram {
  LoopNest nest;
  std::vector<StripRegister> registers;
  std::vector<kernels::cpu::StripInstruction> instructions;
  std::vector<std::size_t> walked;                  ///< registers that depend on the place: in memory, gathered, indices
  std::vector<std::vector<std::uint8_t>> literals;  ///< kStripLength copies of each kLiteral register's constant
  std::int32_t result = -1;                         ///< folds: the register of the last step
  std::int64_t period = 0;  ///< the innermost dimension stands for two, of which this is the inner one's extent; 0: for one
  std::vector<std::vector<std::int64_t>> outer;     ///< folds: [map][dimension of the output's iteration]

  [[nodiscard]] std::int64_t work() const;  ///< element operations in all
};

/// Builds a StripProgram from primitives that share an iteration shape. Values made by one member and read by another
/// stay in registers.
class StripCompiler {
 public:
  /// `extents`: the iteration shape for maps, the fold shape for a fold. `uses_index`: some step names an index, so
  /// dimensions are not joined.
  StripCompiler(const Shape& extents, bool is_fold);

  /// Adds a member; its accesses are linear. Returns false if an operation has no strip form (none today).
  void add(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
           const std::vector<LinearAccess>& accesses);
  /// Writes member `value` to memory.
  void store(kernels::ValueIndex value, DType dtype);
  /// Raises the flag of member `value` if it is not finite.
  void check_finite(kernels::ValueIndex value);
  /// The expression of a fold ends in its last member.
  void return_result(kernels::ValueIndex value);

  [[nodiscard]] StripProgram finish();

 private:
  using Type = kernels::cpu::StripType;
  using Op = kernels::cpu::StripOp;
  struct Member {
    kernels::ValueIndex value;
    std::int32_t result;
  };

  std::int32_t add_register(StripRegister reg);
  std::int32_t scratch(Type type);
  std::int32_t emit(Op op, Type type, std::int32_t a, std::int32_t b = 0, std::int32_t c = 0);
  std::int32_t read(const LinearAccess& access, DType dtype);
  std::int32_t operand(const kernels::CompiledOperand& operand, const std::vector<std::int32_t>& steps);
  std::int32_t step(const kernels::CompiledStep& step, const std::vector<std::int32_t>& steps);
  std::int32_t compare(kernels::ScalarOp op, bool is_float, std::int32_t a, std::int32_t b);
  std::int32_t convert(kernels::ScalarOp op, std::int32_t a);
  std::int32_t as_type(std::int32_t reg, Type type);
  [[nodiscard]] Type type_of(std::int32_t reg) const { return program_.registers[static_cast<std::size_t>(reg)].type; }
  std::int32_t member_result(kernels::ValueIndex value) const;
  void join_short_rows();
  void place_registers();
  void widen_bytes();
  void fill_literals();

  StripProgram program_;
  bool is_fold_;
  bool uses_index_ = false;
  std::vector<Member> members_;
  const kernels::CompiledPrimitive* primitive_ = nullptr;
  const std::vector<LinearAccess>* accesses_ = nullptr;
};

/// A thread's scratch for strip programs.
class StripScratch {
 public:
  /// Memory and flags for programs of up to `registers` registers over `values` values.
  void prepare(std::size_t registers, std::size_t values);
  [[nodiscard]] std::vector<std::uint32_t>& flags() { return flags_; }

 private:
  friend class StripRunner;
  std::vector<std::uint8_t> memory_;
  std::vector<void*> pointers_;
  std::vector<const void*> splatted_;
  std::vector<std::int64_t> row_base_;
  std::vector<std::uint32_t> flags_;
};

/// Runs a strip program: units of at most kStripLength elements along the innermost dimension.
class StripRunner {
 public:
  /// `values`: where each value lies. `offsets`: what to add to each register's base, by map (folds: the output element's;
  /// maps of values in strips: the strip's); null for other maps.
  StripRunner(const StripProgram& program, void* const* values, const std::int64_t* offsets, StripScratch& scratch);

  [[nodiscard]] static std::int64_t unit_count(const StripProgram& program);
  /// Units [begin, end).
  void run(std::int64_t begin, std::int64_t end);
  /// Programs of one row: its elements [begin, end), at the offsets of now.
  void run_elements(std::int64_t begin, std::int64_t end);
  /// Folds: all operands, in order, into `out`.
  void fill(void* out);

 private:
  void set_row(std::int64_t row);
  void read(std::size_t r, std::int64_t start, std::int64_t count);
  void fill_index(const StripRegister& reg, std::int64_t* to, std::int64_t start, std::int64_t count) const;
  void run_strip(std::int64_t start, std::int64_t count, void* result);

  const StripProgram& program_;
  void* const* values_;
  const std::int64_t* offsets_;
  StripScratch& scratch_;
  std::int64_t row_ = 0;
};

}  // namespace dgx::exec
