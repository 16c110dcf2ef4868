#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/core/tensor.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cpu/strip.h"
#include "plan/linear.h"

namespace dgx::exec {

/// A coordinate of a kGuarded register: a sum over the nest's dimensions, the outer ones, and indices that
/// are read from values.
struct GuardedCoordinate {
  struct Term {
    std::size_t from;  ///< a dimension, or a register
    std::int64_t coefficient;
  };
  std::vector<Term> inner, outer;
  std::vector<Term> reads;  ///< `from` is a register of integers
  std::int64_t constant = 0;
  kernels::Coordinate::Division division = kernels::Coordinate::Division::kNone;
  std::int64_t divisor = 1;
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

/// A register of a strip program: where its numbers come from.
struct StripRegister {
  enum class Source : std::uint8_t {
    kScratch,   ///< the thread's scratch: an intermediate result
    kMemory,    ///< the value in memory, read or written in place at unit stride
    kSplat,     ///< one element of the value, repeated
    kPeriodic,  ///< the elements of one period (StripProgram::period), repeated
    kGather,    ///< elements of the value at other strides, copied into scratch
    /// Elements whose coordinates divide, take an index from a value or may be outside; copied into scratch.
    kGuarded,
    kIndex,        ///< index `map` of the nest, as integers
    kOuter,        ///< outer index `map`, repeated
    kLiteral,      ///< a constant
    kFlag,         ///< the thread's "something is not finite" flag of `value`
    kAccumulator,  ///< memory given to StripRunner::set_accumulator(): a chain's acc, or the sums of add_up()
  };
  Source source = Source::kScratch;
  kernels::cpu::StripType type = kernels::cpu::StripType::kFloat;
  DType dtype = DType::kF32;  ///< the value's type in memory
  kernels::ValueIndex value = kernels::kNoValue;
  std::int64_t base = 0;
  std::size_t map = 0;  ///< index into LoopNest::strides; for kIndex and kOuter the dimension
  kernels::Literal literal = 0.0F;
  std::int64_t size = 4;  ///< bytes of an element in memory
  bool single = false;    ///< an index constant along a strip, of which only the first number is read
  /// The guarded coordinates of kGuarded, whose fill is `literal`.
  std::vector<GuardedCoordinate> guarded = {};
};

/// A fused expression over a loop nest: the maps of one group, the operand expression of a fold, or a chain's
/// start or body.
///
/// A strip is up to kStripLength neighbouring elements along the nest's innermost dimension, a register one
/// number for each of them, and an instruction one vectorised loop over them (kernels/cpu/strip.h). So
/// interpreting costs one dispatch per strip, not per element, and what the members pass to each other stays
/// in registers, which the first-level cache holds. Elements are independent and each is computed by the
/// steps of its definition: the bits do not depend on the strips.
///
/// Operands are registers too, of a Source that says how they are filled. Best is memory itself, at unit
/// stride: the register points there (`pointed`). Others are filled before a strip's instructions run
/// (`walked`), or once for a row or for the whole run: splats and literals.
///
/// The expression of a fold or a chain has two kinds of dimensions: those that strips run along, and outer
/// ones, whose indices are the same for a whole strip. Strips may run along the outputs, with the positions
/// outer, or along the positions, with the outputs outer.
struct StripProgram {
  LoopNest nest;
  std::vector<StripRegister> registers;
  std::vector<kernels::cpu::StripInstruction> instructions;
  /// A register that is read or written in memory where it lies: an address, set for each row and strip.
  struct Pointed {
    std::size_t reg, map;
    kernels::ValueIndex value;
    std::int64_t base;
    std::int64_t size;  ///< bytes of an element
    std::int64_t step;  ///< bytes from an element of the strip to the next
  };
  std::vector<Pointed> pointed;
  /// Other registers, filled for each strip: gathers, indices.
  std::vector<std::size_t> walked;
  /// The constant of each register that is a kLiteral, or kStripLength copies if an instruction needs them.
  std::vector<std::vector<std::uint8_t>> literals;
  std::int32_t result = -1;  ///< folds and chains: the register of the last step
  /// Chains: the register of acc; after add_up(): of the sums.
  std::int32_t accumulator = -1;
  /// If not 0, the innermost dimension is two joined ones; this is the inner one's extent.
  std::int64_t period = 0;
  std::int64_t strip = kernels::cpu::kStripLength;  ///< most elements at once; whole periods, if any
  LoopNest outer;                                   ///< the outer dimensions, not joined

  [[nodiscard]] std::int64_t work() const;  ///< element operations in all
};

/// Builds a StripProgram from primitives that share an iteration shape. Values made by one member and read by
/// another stay in registers.
///
/// add() translates a member's accesses to registers and its steps to instructions, over the nest as it is in
/// the primitive. finish() then fits the program to the machine: it joins dimensions that all registers walk
/// at one stride (collapse), or two where the inner one is much shorter than a strip (join_short_rows);
/// decides from the strides that are left where each register's numbers come from (place_registers); widens
/// bytes to integers; links instructions that pass their results in processor registers (chain); and lists
/// what the runner only has to point at (point).
class StripCompiler {
 public:
  enum class Along : std::uint8_t { kIteration, kFold };
  /// Strips run along `inner`, the iteration shape or the fold shape; the other of the two is `outer` (maps:
  /// empty).
  StripCompiler(const Shape& inner, const Shape& outer, Along along);

  /// Keeps units within rows: those of an index of the outermost dimension follow each other, and are as many
  /// for each.
  void keep_rows() { keeps_rows_ = named_[0] = true; }
  /// Adds a member: a map, the operand of a fold, or the body of a chain (acc after one position).
  void add(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
           const std::vector<StripAccess>& accesses);
  /// Adds the start value of a chain's acc.
  void add_init(kernels::ValueIndex value, const kernels::CompiledPrimitive& primitive,
                const std::vector<StripAccess>& accesses);
  /// Writes member `value` to memory.
  void store(kernels::ValueIndex value, DType dtype);
  /// Raises the flag of member `value` if it is not finite.
  void check_finite(kernels::ValueIndex value);
  /// For a chain: makes member `value` the program's result, a number of the value's type.
  void return_result(kernels::ValueIndex value);
  /// For sum, max and argmax: makes the last member the program's result, whatever its type.
  void return_operand() { program_.result = members_.back().result; }
  /// Instead of returning the last member, a float, adds it to what the accumulator holds.
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
  [[nodiscard]] Type type_of(std::int32_t reg) const {
    return program_.registers[static_cast<std::size_t>(reg)].type;
  }
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
  // True for each dimension of the nest that an index or a guarded coordinate names: it is not joined.
  std::vector<bool> named_;
  bool keeps_rows_ = false;
  std::vector<Member> members_;
  const kernels::CompiledPrimitive* primitive_ = nullptr;
  const std::vector<StripAccess>* accesses_ = nullptr;
};

/// A thread's scratch for strip programs.
class StripScratch {
 public:
  /// Memory and flags for programs of up to `registers` registers over `values` values.
  void prepare(std::size_t registers, std::size_t values);
  [[nodiscard]] kernels::ByValue<std::uint32_t>& flags() { return flags_; }

 private:
  friend class StripRunner;
  std::vector<std::uint8_t> memory_;
  std::vector<void*> pointers_;
  std::vector<const void*> splatted_;
  struct Held {
    std::int64_t first = 0, count = 0;
  };
  std::vector<Held> held_;  // by register: the indices it holds
  std::vector<std::int64_t> row_base_;
  std::vector<std::uint8_t*> row_address_;  // by number in StripProgram::pointed
  kernels::ByValue<std::uint32_t> flags_;
  std::vector<std::int64_t> outer_offsets_;  // by map
  std::vector<std::int64_t> places_;         // a strip's elements in memory; -1: outside
};

/// Runs a strip program in units of at most program.strip elements along the innermost dimension. Units are
/// numbered row by row, so that members can share a program by ranges of units.
class StripRunner {
 public:
  /// `values`: each value's memory. `offsets`, by map: elements to add to a register's base (for values in
  /// strips, the strip's offset); or null.
  StripRunner(const StripProgram& program, const kernels::ByValue<void*>& values, const std::int64_t* offsets,
              StripScratch& scratch);

  /// Moves the outer indices to row-major position `position`, or to the next position.
  void set_outer(std::int64_t position);
  void next_outer();
  void set_accumulator(void* memory);
  /// Prefetches what later strips read and write. Hardware prefetchers cannot: they tell streams apart by the
  /// load instruction, and one load of the interpreter serves many streams.
  void fetch_ahead() { fetches_ahead_ = true; }

  [[nodiscard]] static std::int64_t unit_count(const StripProgram& program);
  /// Runs units [begin, end).
  void run(std::int64_t begin, std::int64_t end);
  /// For a program of one row: runs its elements [begin, end), at the current `offsets`.
  void run_elements(std::int64_t begin, std::int64_t end);
  /// Runs one unit; the result, if there is one, goes to `result`. Returns the unit's number of elements.
  std::int64_t run_unit(std::int64_t unit, void* result);
  /// Runs elements [first, first + count), in row-major order of the nest, and writes their results to
  /// `result`.
  void run_range(std::int64_t first, std::int64_t count, void* result);
  [[nodiscard]] static std::int64_t unit_size(const StripProgram& program, std::int64_t unit);
  /// The first element of a unit, counted in row-major order of the nest.
  [[nodiscard]] static std::int64_t first_element(const StripProgram& program, std::int64_t unit);
  /// For folds: writes all operands at the current outer indices to `out`, in order.
  void fill(void* out);

 private:
  void set_row(std::int64_t row);
  void read(std::size_t r, std::int64_t start, std::int64_t count);
  void read_guarded(std::size_t r, std::int64_t start, std::int64_t count);
  struct GuardedRun;
  void guarded_run(std::size_t r, void* to, std::int64_t at, std::int64_t start, std::int64_t count);
  void add_coordinate(GuardedRun& run, const GuardedCoordinate& coordinate) const;
  void find_places(const GuardedRun& run) const;
  [[nodiscard]] std::int64_t index_read(std::size_t r, std::int64_t at) const;
  [[nodiscard]] std::int64_t fixed_part(const GuardedCoordinate& coordinate, std::int64_t start,
                                        bool moves) const;
  void read_index(std::size_t r, std::int64_t start, std::int64_t count);
  void run_strip(std::int64_t start, std::int64_t count, void* result);

  const StripProgram& program_;
  const kernels::ByValue<void*>& values_;
  const std::int64_t* offsets_;
  StripScratch& scratch_;
  std::int64_t row_ = 0;
  bool fetches_ahead_ = false;
  std::array<std::int64_t, kMaxRank> outer_index_{};
};

}  // namespace dgx::exec
