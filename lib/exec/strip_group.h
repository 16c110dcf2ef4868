#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cpu/strip.h"
#include "linear.h"

namespace dgx::exec {

/// A coordinate of a kGuarded register, in the nest's and the outer dimensions.
struct GuardedCoordinate {
  struct Term {
    std::size_t from;  ///< a dimension, or a register
    std::int64_t coefficient;
  };
  std::vector<Term> inner, outer;
  std::vector<Term> reads;  ///< registers of integers
  std::int64_t constant = 0;
  kernels::Coordinate::Division division = kernels::Coordinate::Division::kNone;
  std::int64_t divisor = 1;
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

/// Where a register of a strip program lies.
struct StripRegister {
  enum class Source : std::uint8_t {
    kScratch,  ///< the thread's scratch: an intermediate result
    kMemory,   ///< the value itself, read or written along its unit stride
    kSplat,    ///< one element of the value, repeated
    kPeriodic, ///< a period's elements of the value, repeated
    kGather,   ///< elements of the value at other strides, copied into scratch
    kGuarded,  ///< elements that divided, outside or indexed coordinates name, or their fill, put into scratch
    kIndex,    ///< the nest's index `map`, as integers
    kOuter,    ///< the outer index `map`, repeated
    kLiteral,  ///< a constant
    kFlag,     ///< the thread's "something is not finite" flag of `value`
    kAccumulator,  ///< of a chain: where the runner is told
  };
  Source source = Source::kScratch;
  kernels::cpu::StripType type = kernels::cpu::StripType::kFloat;
  DType dtype = DType::kF32;      ///< of the value in memory
  kernels::ValueIndex value = -1;
  std::int64_t base = 0;
  std::size_t map = 0;            ///< into LoopNest::strides; for kIndex the dimension
  kernels::Literal literal = 0.0F;
  std::int64_t size = 4;          ///< bytes of an element in memory
  bool single = false;            ///< of an index that is the same all along a strip: only the first number is read
  std::vector<GuardedCoordinate> guarded = {};  ///< with the fill as `literal`
};

/// A fused expression over a loop nest: the maps of one group, or the operand expression of a fold. A fold's expression has
/// two kinds of dimensions: those that strips run along, and outer ones, whose indices are the same for a whole strip.
struct StripProgram {
  LoopNest nest;
  std::vector<StripRegister> registers;
  std::vector<kernels::cpu::StripInstruction> instructions;
  /// A register that is memory from the row's address on.
  struct Pointed {
    std::size_t reg, value, map;
    std::int64_t base;
    std::int64_t size;  ///< bytes of an element
    std::int64_t step;  ///< bytes from an element of the strip to the next
  };
  std::vector<Pointed> pointed;
  std::vector<std::size_t> walked;                  ///< other registers that depend on the place: gathered, indices
  std::vector<std::vector<std::uint8_t>> literals;  ///< each kLiteral register's constant; kStripLength copies if an instruction asks for them
  std::int32_t result = -1;                         ///< folds: the register of the last step
  std::int32_t accumulator = -1;                    ///< chains: the register of acc; folds that add_up(): of the sums
  std::int64_t period = 0;  ///< the innermost dimension stands for two, of which this is the inner one's extent; 0: for one
  std::int64_t strip = kernels::cpu::kStripLength;  ///< most elements at once: whole periods
  LoopNest outer;           ///< the outer dimensions, as they are in the primitive

  [[nodiscard]] std::int64_t work() const;  ///< element operations in all
};

/// Builds a StripProgram from primitives that share an iteration shape. Values made by one member and read by another
/// stay in registers.
class StripCompiler {
 public:
  enum class Along : std::uint8_t { kIteration, kFold };
  /// Strips run along `inner`, the iteration shape or the fold shape; the other of the two is `outer` (maps: empty).
  StripCompiler(const Shape& inner, const Shape& outer, Along along);

  /// Adds a member: a map, or the operand of a fold. Of a chain: acc after a position.
  void add(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
           const std::vector<StripAccess>& accesses);
  /// A chain's start.
  void add_init(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
                const std::vector<StripAccess>& accesses);
  /// Writes member `value` to memory.
  void store(kernels::ValueIndex value, DType dtype);
  /// Raises the flag of member `value` if it is not finite.
  void check_finite(kernels::ValueIndex value);
  /// The expression of a chain ends in its last member, a number of the value's type.
  void return_result(kernels::ValueIndex value);
  /// That of another fold in an operand of any type.
  void return_operand() { program_.result = members_.back().result; }
  /// Operands that are floats are not returned, but added to what is at the accumulator.
  void add_up();

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
  std::int32_t read(std::size_t access);
  std::int32_t read_guarded(const StripAccess& access, DType dtype);
  std::size_t add_map(const LinearAccess& access);
  GuardedCoordinate guard(const kernels::CompiledCoordinate& coordinate);
  std::int32_t index(bool is_fold, std::size_t dimension);
  std::int32_t accumulator();
  std::vector<std::int32_t> add_steps(const kernels::CompiledSteps& steps);
  std::int32_t operand(const kernels::CompiledOperand& operand, const std::vector<std::int32_t>& steps);
  std::int32_t step(const kernels::CompiledStep& step, const std::vector<std::int32_t>& steps);
  std::optional<std::int32_t> exact_inverse(std::int32_t reg);
  std::int32_t compare(kernels::ScalarOp op, bool is_float, std::int32_t a, std::int32_t b);
  std::int32_t convert(kernels::ScalarOp op, std::int32_t a);
  std::int32_t as_type(std::int32_t reg, Type type);
  [[nodiscard]] Type type_of(std::int32_t reg) const { return program_.registers[static_cast<std::size_t>(reg)].type; }
  std::int32_t member_result(kernels::ValueIndex value) const;
  void collapse();
  void join_short_rows();
  void place_registers();
  void widen_bytes();
  void fill_literals();
  void chain();
  [[nodiscard]] bool is_index_of_strip(const StripRegister& reg) const;
  [[nodiscard]] bool needs_copies(std::int32_t reg) const;
  void point();

  StripProgram program_;
  Along along_;
  std::vector<bool> named_;  // dimensions of the nest that an index or a guarded coordinate names: not joined to others
  std::vector<Member> members_;
  const kernels::CompiledPrimitive* primitive_ = nullptr;
  const std::vector<StripAccess>* accesses_ = nullptr;
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
  struct Held {
    std::int64_t first = 0, count = 0;
  };
  std::vector<Held> held_;  // indices in a register
  std::vector<std::int64_t> row_base_;
  std::vector<std::uint8_t*> row_address_;  // by number in StripProgram::pointed
  std::vector<std::uint32_t> flags_;
  std::vector<std::int64_t> outer_offsets_;  // by map
  std::vector<std::int64_t> places_;         // a strip's elements in memory; −1: outside
};

/// Runs a strip program: units of at most program.strip elements along the innermost dimension.
class StripRunner {
 public:
  /// `values`: where each value lies. `offsets`: what to add to each register's base, by map (maps of values in strips: the
  /// strip's place), or null.
  StripRunner(const StripProgram& program, void* const* values, const std::int64_t* offsets, StripScratch& scratch);

  /// The outer indices: those of position `position`, in row-major order, and the next.
  void set_outer(std::int64_t position);
  void next_outer();
  void set_accumulator(void* memory);
  /// Asks for what later strips read and write, where it comes from afar. The processor does not: to it, an instruction of the interpreter
  /// reads now this, now that.
  void fetch_ahead() { fetches_ahead_ = true; }

  [[nodiscard]] static std::int64_t unit_count(const StripProgram& program);
  /// Units [begin, end).
  void run(std::int64_t begin, std::int64_t end);
  /// Programs of one row: its elements [begin, end), at the offsets of now.
  void run_elements(std::int64_t begin, std::int64_t end);
  /// One unit; the result, if there is one, goes to `result`. Returns the unit's elements.
  std::int64_t run_unit(std::int64_t unit, void* result);
  /// Elements [first, first + count) in row-major order of the nest, their results to `result`.
  void run_range(std::int64_t first, std::int64_t count, void* result);
  [[nodiscard]] static std::int64_t unit_size(const StripProgram& program, std::int64_t unit);
  /// The first element of a unit in row-major order of the nest.
  [[nodiscard]] static std::int64_t first_element(const StripProgram& program, std::int64_t unit);
  /// Folds: all operands, in order, into `out`.
  void fill(void* out);

 private:
  void set_row(std::int64_t row);
  void read(std::size_t r, std::int64_t start, std::int64_t count);
  void read_guarded(std::size_t r, std::int64_t start, std::int64_t count);
  void guarded_run(std::size_t r, void* to, std::int64_t at, std::int64_t start, std::int64_t count);
  [[nodiscard]] std::int64_t index_read(std::size_t r, std::int64_t at) const;
  [[nodiscard]] std::int64_t fixed_part(const GuardedCoordinate& coordinate, std::int64_t start, bool moves) const;
  void read_index(std::size_t r, std::int64_t start, std::int64_t count);
  void run_strip(std::int64_t start, std::int64_t count, void* result);

  const StripProgram& program_;
  void* const* values_;
  const std::int64_t* offsets_;
  StripScratch& scratch_;
  std::int64_t row_ = 0;
  bool fetches_ahead_ = false;
  std::array<std::int64_t, 8> outer_index_{};
};

}  // namespace dgx::exec
