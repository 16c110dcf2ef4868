// Included by strip_simd.cc, inside its namespace.
//
// Chains: one block of a strip goes through all instructions of the chain, then the next block. Half of the
// vector registers hold the previous result, so that the cost of dispatch is spread over as many numbers as
// possible; the other operands are read vector by vector.
inline constexpr int kMostVectors = HWY_TARGET == HWY_AVX3 ? 16 : 8;
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(F{}));

// A block of a strip in memory: whole, or its first `count` elements.
template <int kBlockVectors>
struct WholeBlock {
  static constexpr int kVectors = kBlockVectors;
  static HWY_INLINE V load(const float* from, int v, std::int64_t) {
    return hn::LoadU(F{}, from + v * kLanes);
  }
  static HWY_INLINE void store(V value, float* to, int v, std::int64_t) {
    hn::StoreU(value, F{}, to + v * kLanes);
  }
};
struct PartOfBlock {
  static constexpr int kVectors = 8;
  static HWY_INLINE V load(const float* from, int v, std::int64_t count) {
    const std::int64_t rest = count - v * kLanes;
    if (rest >= kLanes) return hn::LoadU(F{}, from + v * kLanes);
    return rest > 0 ? load_some(F{}, from + v * kLanes, rest) : hn::Zero(F{});
  }
  static HWY_INLINE void store(V value, float* to, int v, std::int64_t count) {
    const std::int64_t rest = count - v * kLanes;
    if (rest >= kLanes) return hn::StoreU(value, F{}, to + v * kLanes);
    if (rest > 0) store_some(F{}, value, to + v * kLanes, rest);
  }
};

// from + at as one address: otherwise the compiler adds `at` to the displacement of each vector, and keeps
// the sums in memory.
template <class T>
HWY_INLINE T* address(T* from, std::int64_t at) {
  T* sum = from + at;
  __asm__("" : "+r"(sum));
  return sum;
}

// Sources of an operand's vectors: the previous result, one number, or memory.
struct FromMade {
  HWY_INLINE V operator()(V made, int) const { return made; }
};
struct FromNumber {
  V all;
  HWY_INLINE V operator()(V, int) const { return all; }
};
template <class Memory>
struct FromMemory {
  const float* from;
  std::int64_t count;
  HWY_INLINE V operator()(V, int v) const { return Memory::load(from, v, count); }
};

HWY_INLINE hn::Vec<I> load_some_integers(const std::int64_t* from, std::int64_t count) {
  HWY_ALIGN std::int64_t lanes[hn::MaxLanes(I{})] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(I{}, lanes);
}

template <class MemoryOfBlock>
struct Operands {
  using Memory = MemoryOfBlock;
  static constexpr int kVectors = Memory::kVectors;
  using Block = V[kVectors];
  const StripInstruction& instruction;
  void* const* registers;
  std::int64_t at, count;

  [[nodiscard]] HWY_INLINE const float* floats(int n) const {
    return static_cast<const float*>(registers[instruction.in[n]]);
  }
  [[nodiscard]] HWY_INLINE bool is_made(int n) const { return (instruction.held >> n & 1) != 0; }
  [[nodiscard]] HWY_INLINE bool is_number(int n) const { return (instruction.uniform >> n & 1) != 0; }
  [[nodiscard]] HWY_INLINE FromNumber number(int n) const { return {hn::Set(F{}, *floats(n))}; }
  [[nodiscard]] HWY_INLINE FromMemory<Memory> memory(int n) const { return {address(floats(n), at), count}; }

  /// Loads vectors first, first + 1, … of operand n.
  template <int kSome>
  HWY_INLINE void load(int n, const Block& made, int first, V (&out)[kSome]) const {
    if (is_made(n)) {
#pragma GCC unroll 8
      for (int v = 0; v < kSome; ++v) out[v] = made[first + v];
    } else if (is_number(n)) {
      const V all = hn::Set(F{}, *floats(n));
#pragma GCC unroll 8
      for (int v = 0; v < kSome; ++v) out[v] = all;
    } else {
      const float* const from = address(floats(n), at);
#pragma GCC unroll 8
      for (int v = 0; v < kSome; ++v) out[v] = Memory::load(from, first + v, count);
    }
  }
  /// One vector of integers of operand n, from element `part` · lanes of the block on.
  HWY_INLINE hn::Vec<I> integers(int n, int part) const {
    constexpr auto kLanesI = static_cast<std::int64_t>(hn::MaxLanes(I{}));
    const auto* const from = static_cast<const std::int64_t*>(registers[instruction.in[n]]);
    if (is_number(n)) return hn::Set(I{}, *from);
    const std::int64_t rest = count - part * kLanesI;
    if (rest >= kLanesI) return hn::LoadU(I{}, address(from, at) + part * kLanesI);
    return load_some_integers(from + at + part * kLanesI, rest);
  }
  HWY_INLINE void store(const Block& made) const {
    float* const to = address(static_cast<float*>(registers[instruction.out]), at);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) Memory::store(made[v], to, v, count);
  }
};

template <class Function, int kVectors, class X>
HWY_INLINE void make1(const X& x, V (&made)[kVectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) made[v] = Function{}(F{}, x(made[v], v));
}

template <class Function, class Operands>
HWY_INLINE void block1(const Operands& operands, typename Operands::Block& made) {
  if (operands.is_made(0)) return make1<Function>(FromMade{}, made);
  if (operands.is_number(0)) return make1<Function>(operands.number(0), made);
  make1<Function>(operands.memory(0), made);
}

template <class Function, int kVectors, class X, class Y>
HWY_INLINE void make2(const X& x, const Y& y, V (&made)[kVectors]) {
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) made[v] = Function{}(F{}, x(made[v], v), y(made[v], v));
}

template <class Function, class X, class Operands>
HWY_INLINE void with_second(const Operands& operands, const X& x, typename Operands::Block& made) {
  if (operands.is_made(1)) return make2<Function>(x, FromMade{}, made);
  if (operands.is_number(1)) return make2<Function>(x, operands.number(1), made);
  make2<Function>(x, operands.memory(1), made);
}

template <class Function, class Operands>
HWY_INLINE void block2(const Operands& operands, typename Operands::Block& made) {
  if (operands.is_made(0)) return with_second<Function>(operands, FromMade{}, made);
  if (operands.is_number(0)) return with_second<Function>(operands, operands.number(0), made);
  with_second<Function>(operands, operands.memory(0), made);
}

template <class Compare, class Operands>
HWY_INLINE void compare_block(const Operands& operands, typename Operands::Block& made) {
  const auto half = [&](int part) HWY_ATTR {
    return mask_of(I{}, Compare{}(operands.integers(0, part), operands.integers(1, part)));
  };
#pragma GCC unroll 16
  for (int v = 0; v < Operands::kVectors; ++v) {
    made[v] = hn::BitCast(F{}, hn::Combine(hn::RebindToSigned<F>{}, half(2 * v + 1), half(2 * v)));
  }
}

// Operations with three operands take a few vectors at a time: these and the previous result must fit the
// registers.
inline constexpr int kFewVectors = 4;

template <class Operands>
HWY_INLINE void select_block(const Operands& operands, typename Operands::Block& made) {
#pragma GCC unroll 4
  for (int first = 0; first < Operands::kVectors; first += kFewVectors) {
    V mask[kFewVectors], x[kFewVectors], y[kFewVectors];
    operands.load(0, made, first, mask);
    operands.load(1, made, first, x);
    operands.load(2, made, first, y);
#pragma GCC unroll 4
    for (int v = 0; v < kFewVectors; ++v) made[first + v] = SelectF{}(F{}, mask[v], x[v], y[v]);
  }
}

// Enough vectors to amortise the test for subnormal numbers.
inline constexpr int kFmaVectors = 8;

// Out of line, and on copies of its operands and result: an array whose address is taken, or that is indexed
// by a variable, is not kept in registers.
HWY_NOINLINE inline void fma_one_by_one(V (&xyz_out)[4][kFmaVectors]) {
  for (int v = 0; v < kFmaVectors; ++v)
    xyz_out[3][v] = FmaF{}(F{}, xyz_out[0][v], xyz_out[1][v], xyz_out[2][v]);
}

HWY_INLINE void make_fma(const V (&x)[kFmaVectors], const V (&y)[kFmaVectors], const V (&z)[kFmaVectors],
                         V (&out)[kFmaVectors]) {
  const U u;
  auto least = hn::Set(u, 0xffffffffu);  // the least of what is_subnormal() compares
#pragma GCC unroll 8
  for (int v = 0; v < kFmaVectors; ++v) {
    least = hn::Min(least, hn::Min(from_one(u, hn::BitCast(u, x[v])), from_one(u, hn::BitCast(u, y[v]))));
  }
  if (HWY_LIKELY(hn::AllFalse(u, hn::Lt(least, hn::Set(u, kSubnormals))))) {
#pragma GCC unroll 8
    for (int v = 0; v < kFmaVectors; ++v) out[v] = hn::MulAdd(x[v], y[v], z[v]);
    return;
  }
  V operands_and_result[4][kFmaVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kFmaVectors; ++v) {
    operands_and_result[0][v] = x[v];
    operands_and_result[1][v] = y[v];
    operands_and_result[2][v] = z[v];
  }
  fma_one_by_one(operands_and_result);
#pragma GCC unroll 8
  for (int v = 0; v < kFmaVectors; ++v) out[v] = operands_and_result[3][v];
}

template <class Operands>
HWY_INLINE void fma_block(const Operands& operands, typename Operands::Block& made) {
#pragma GCC unroll 8
  for (int first = 0; first < Operands::kVectors; first += kFmaVectors) {
    V x[kFmaVectors], y[kFmaVectors], z[kFmaVectors], out[kFmaVectors];
    operands.load(0, made, first, x);
    operands.load(1, made, first, y);
    operands.load(2, made, first, z);
    make_fma(x, y, z, out);
#pragma GCC unroll 8
    for (int v = 0; v < kFmaVectors; ++v) made[first + v] = out[v];
  }
}

template <class Operands>
HWY_INLINE void check_block(const Operands& operands, const typename Operands::Block& made) {
  const U u;
  const auto exponent = hn::Set(u, 0x7f800000u);
  auto largest = hn::Zero(u);
#pragma GCC unroll 4
  for (int first = 0; first < Operands::kVectors; first += kFewVectors) {
    V x[kFewVectors];
    operands.load(0, made, first, x);
#pragma GCC unroll 4
    for (int v = 0; v < kFewVectors; ++v) largest = hn::Max(largest, hn::And(hn::BitCast(u, x[v]), exponent));
  }
  if (!hn::AllFalse(u, hn::Eq(largest, exponent)))
    *static_cast<std::uint32_t*>(operands.registers[operands.instruction.out]) = 1;
}

template <class Operands>
HWY_INLINE void run_block(const Operands& operands, typename Operands::Block& made) {
  switch (operands.instruction.op) {
#define DGX_UNARY(name, type)           \
  case StripOp::k##name##type:          \
    block1<name##type>(operands, made); \
    break;
#define DGX_BINARY(name, type)          \
  case StripOp::k##name##type:          \
    block2<name##type>(operands, made); \
    break;
#define DGX_COMPARISON(name, type) \
  case StripOp::k##name##type: compare_block<name##type>(operands, made); break;
    DGX_STRIP_BINARY(DGX_BINARY)
    DGX_STRIP_COMPARISONS(DGX_COMPARISON)
    DGX_STRIP_UNARY(DGX_UNARY)
#undef DGX_UNARY
#undef DGX_BINARY
#undef DGX_COMPARISON
    case StripOp::kFmaF: fma_block(operands, made); break;
    case StripOp::kSelectF: select_block(operands, made); break;
    default: return check_block(operands, made);
  }
  if (operands.instruction.stores) operands.store(made);
}

// Out of line: with all blocks in one loop, the compiler would advance dozens of addresses in memory from
// block to block.
template <class Memory>
HWY_NOINLINE void run_blocks(const StripInstruction* first, std::int64_t instructions, void* const* registers,
                             std::int64_t at, std::int64_t count) {
  typename Operands<Memory>::Block made;
#pragma GCC unroll 16
  for (int v = 0; v < Memory::kVectors; ++v) made[v] = hn::Zero(F{});
  for (std::int64_t i = 0; i < instructions; ++i)
    run_block(Operands<Memory>{first[i], registers, at, count}, made);
}

inline void run_chain(const StripInstruction* first, std::int64_t instructions, void* const* registers,
                      std::int64_t count) {
  constexpr std::int64_t kMost = kMostVectors * kLanes;
  constexpr std::int64_t kPart = PartOfBlock::kVectors * kLanes;
  std::int64_t at = 0;
  for (; at + kMost <= count; at += kMost)
    run_blocks<WholeBlock<kMostVectors>>(first, instructions, registers, at, kMost);
  for (; at + kPart <= count; at += kPart)
    run_blocks<WholeBlock<PartOfBlock::kVectors>>(first, instructions, registers, at, kPart);
  if (at < count) run_blocks<PartOfBlock>(first, instructions, registers, at, count - at);
}
