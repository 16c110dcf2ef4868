// Included by strip-inl.h, inside its namespace.
//
// Chains: all instructions pass over one block of a strip after the other. With eight vectors choosing what to do is paid for even
// where, as with AVX2, not all of two operands and what the instruction before made fit the registers.
inline constexpr int kBlockVectors = 8;
using Block = V[kBlockVectors];
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(F{}));
inline constexpr std::int64_t kBlockLength = kBlockVectors * kLanes;

// A block of a strip in memory: whole, or its first `count` elements.
struct WholeBlock {
  static HWY_INLINE V load(const float* from, int v, std::int64_t) { return hn::LoadU(F{}, from + v * kLanes); }
  static HWY_INLINE void store(V value, float* to, int v, std::int64_t) { hn::StoreU(value, F{}, to + v * kLanes); }
};
struct PartOfBlock {
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

HWY_INLINE hn::Vec<I> load_some_integers(const std::int64_t* from, std::int64_t count) {
  HWY_ALIGN std::int64_t lanes[hn::MaxLanes(I{})] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(I{}, lanes);
}

template <class Memory>
struct Operands {
  const StripInstruction& instruction;
  void* const* registers;
  std::int64_t at, count;

  HWY_INLINE void load(int n, const Block& made, Block& out) const {
    const auto* const from = static_cast<const float*>(registers[instruction.in[n]]);
    if ((instruction.held >> n & 1) != 0) {
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) out[v] = made[v];
    } else if ((instruction.uniform >> n & 1) != 0) {
      const V all = hn::Set(F{}, *from);
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) out[v] = all;
    } else {
#pragma GCC unroll 8
      for (int v = 0; v < kBlockVectors; ++v) out[v] = Memory::load(from + at, v, count);
    }
  }
  /// Integers number `part` · lanes and on.
  HWY_INLINE hn::Vec<I> integers(int n, int part) const {
    constexpr auto kLanesI = static_cast<std::int64_t>(hn::MaxLanes(I{}));
    const auto* const from = static_cast<const std::int64_t*>(registers[instruction.in[n]]);
    if ((instruction.uniform >> n & 1) != 0) return hn::Set(I{}, *from);
    const std::int64_t rest = count - part * kLanesI;
    if (rest >= kLanesI) return hn::LoadU(I{}, from + at + part * kLanesI);
    return load_some_integers(from + at + part * kLanesI, rest);
  }
  HWY_INLINE void store(const Block& made) const {
    float* const to = static_cast<float*>(registers[instruction.out]) + at;
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) Memory::store(made[v], to, v, count);
  }
};

template <class Function, class Operands>
HWY_INLINE void block1(const Operands& operands, Block& made) {
  Block x;
  operands.load(0, made, x);
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) made[v] = Function{}(F{}, x[v]);
}

template <class Function, class Operands>
HWY_INLINE void block2(const Operands& operands, Block& made) {
  Block x, y;
  operands.load(0, made, x);
  operands.load(1, made, y);
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) made[v] = Function{}(F{}, x[v], y[v]);
}

template <class Compare, class Operands>
HWY_INLINE void compare_block(const Operands& operands, Block& made) {
  const auto half = [&](int part) HWY_ATTR { return mask_of(I{}, Compare{}(operands.integers(0, part), operands.integers(1, part))); };
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) {
    made[v] = hn::BitCast(F{}, hn::Combine(hn::RebindToSigned<F>{}, half(2 * v + 1), half(2 * v)));
  }
}

template <class Operands>
HWY_INLINE void select_block(const Operands& operands, Block& made) {
  Block mask, x, y;
  operands.load(0, made, mask);
  operands.load(1, made, x);
  operands.load(2, made, y);
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) made[v] = SelectF{}(F{}, mask[v], x[v], y[v]);
}

// Out of line, and with a result of its own: what has an address, or is indexed by a variable, is kept in no register.
HWY_NOINLINE inline void fma_one_by_one(Block (&xyz_out)[4]) {
  for (int v = 0; v < kBlockVectors; ++v) xyz_out[3][v] = FmaF{}(F{}, xyz_out[0][v], xyz_out[1][v], xyz_out[2][v]);
}

template <class Operands>
HWY_INLINE void fma_block(const Operands& operands, Block& made) {
  const U u;
  Block x, y, z;
  operands.load(0, made, x);
  operands.load(1, made, y);
  operands.load(2, made, z);
  auto least = hn::Set(u, 0xffffffffu);  // of what is_subnormal compares
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) {
    least = hn::Min(least, hn::Min(from_one(u, hn::BitCast(u, x[v])), from_one(u, hn::BitCast(u, y[v]))));
  }
  if (HWY_LIKELY(hn::AllFalse(u, hn::Lt(least, hn::Set(u, kSubnormals))))) {
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) made[v] = hn::MulAdd(x[v], y[v], z[v]);
  } else {
    Block operands_and_result[4];
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) {
      operands_and_result[0][v] = x[v];
      operands_and_result[1][v] = y[v];
      operands_and_result[2][v] = z[v];
    }
    fma_one_by_one(operands_and_result);
#pragma GCC unroll 8
    for (int v = 0; v < kBlockVectors; ++v) made[v] = operands_and_result[3][v];
  }
}

template <class Operands>
HWY_INLINE void check_block(const Operands& operands, const Block& made) {
  const U u;
  Block x;
  operands.load(0, made, x);
  const auto exponent = hn::Set(u, 0x7f800000u);
  auto largest = hn::Zero(u);
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) largest = hn::Max(largest, hn::And(hn::BitCast(u, x[v]), exponent));
  if (!hn::AllFalse(u, hn::Eq(largest, exponent))) *static_cast<std::uint32_t*>(operands.registers[operands.instruction.out]) = 1;
}

template <class Operands>
HWY_INLINE void run_block(const Operands& operands, Block& made) {
  switch (operands.instruction.op) {
    case StripOp::kAddF: block2<AddF>(operands, made); break;
    case StripOp::kSubF: block2<SubF>(operands, made); break;
    case StripOp::kMulF: block2<MulF>(operands, made); break;
    case StripOp::kDivF: block2<DivF>(operands, made); break;
    case StripOp::kMaxF: block2<MaxF>(operands, made); break;
    case StripOp::kMinF: block2<MinF>(operands, made); break;
    case StripOp::kEqF: block2<EqF>(operands, made); break;
    case StripOp::kNeF: block2<NeF>(operands, made); break;
    case StripOp::kLtF: block2<LtF>(operands, made); break;
    case StripOp::kLeF: block2<LeF>(operands, made); break;
    case StripOp::kGtF: block2<GtF>(operands, made); break;
    case StripOp::kGeF: block2<GeF>(operands, made); break;
    case StripOp::kEqI: compare_block<EqI>(operands, made); break;
    case StripOp::kNeI: compare_block<NeI>(operands, made); break;
    case StripOp::kLtI: compare_block<LtI>(operands, made); break;
    case StripOp::kLeI: compare_block<LeI>(operands, made); break;
    case StripOp::kGtI: compare_block<GtI>(operands, made); break;
    case StripOp::kGeI: compare_block<GeI>(operands, made); break;
    case StripOp::kAndM: block2<AndM>(operands, made); break;
    case StripOp::kOrM: block2<OrM>(operands, made); break;
    case StripOp::kSqrtF: block1<SqrtF>(operands, made); break;
    case StripOp::kNegF: block1<NegF>(operands, made); break;
    case StripOp::kAbsF: block1<AbsF>(operands, made); break;
    case StripOp::kFloorF: block1<FloorF>(operands, made); break;
    case StripOp::kTruncF: block1<TruncF>(operands, made); break;
    case StripOp::kRintF: block1<RintF>(operands, made); break;
    case StripOp::kNotM: block1<NotM>(operands, made); break;
    case StripOp::kFmaF: fma_block(operands, made); break;
    case StripOp::kSelectF: select_block(operands, made); break;
    default: return check_block(operands, made);
  }
  if (operands.instruction.stores) operands.store(made);
}

template <class Memory>
HWY_INLINE void run_blocks(const StripInstruction* first, std::int64_t instructions, void* const* registers, std::int64_t at,
                           std::int64_t count) {
  Block made;
#pragma GCC unroll 8
  for (int v = 0; v < kBlockVectors; ++v) made[v] = hn::Zero(F{});
  for (std::int64_t i = 0; i < instructions; ++i) run_block(Operands<Memory>{first[i], registers, at, count}, made);
}

inline void run_chain(const StripInstruction* first, std::int64_t instructions, void* const* registers, std::int64_t count) {
  std::int64_t at = 0;
  for (; at + kBlockLength <= count; at += kBlockLength) run_blocks<WholeBlock>(first, instructions, registers, at, kBlockLength);
  if (at < count) run_blocks<PartOfBlock>(first, instructions, registers, at, count - at);
}
