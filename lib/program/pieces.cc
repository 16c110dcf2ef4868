#include "dgx/program/pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/program/check.h"
#include "dgx/program/line.h"
#include "piece_lines.h"

namespace dgx::program {

using kernels::Access;
using kernels::ByValue;
using kernels::Kind;
using kernels::kNoValue;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

namespace {

constexpr const char* kWithoutParts = "leave --parts out";

/// A piece while its lines are appended.
class PieceWriter {
 public:
  explicit PieceWriter(std::size_t lines) : made_(lines, kNoValue), whole_(lines, kNoValue) {}

  /// kUsage if the line exceeds a cap that its text has, or the piece has too many.
  Status append(Primitive line, const PieceLine& origin) {
    const ValueIndex at = piece_.program.values.next();
    const auto refused = [&](const std::string& why) {
      return usage_error(fmt::format("line {} of the program cannot be cut, since {}", origin.value, why),
                         kWithoutParts);
    };
    if (piece_.program.values.size() == kMaxLines)
      return refused(fmt::format("the part has {} lines before it, the most that it may have", kMaxLines));
    if (line.steps.size() > kMaxSteps || line.when.size() > kMaxSteps)
      return refused(fmt::format("it would have more than {} steps in a part", kMaxSteps));
    if (line.accesses.size() > kMaxAccesses)
      return refused(fmt::format("it would have more than {} accesses in a part", kMaxAccesses));
    if (print_line(line, at).size() > kMaxLineBytes)
      return refused(fmt::format("it would have more than {} bytes in a part", kMaxLineBytes));
    piece_.program.values.push_back(std::move(line));
    piece_.origins.push_back(origin);
    if (origin.as == PieceLine::As::kMade || origin.as == PieceLine::As::kSlices) made_[origin.value] = at;
    if (origin.as == PieceLine::As::kWhole) whole_[origin.value] = at;
    return {};
  }
  Status append_state(std::string name, const Primitive& like, const PieceLine& origin) {
    Primitive input;
    input.kind = Kind::kInput;
    input.dtype = like.dtype;
    input.shape = like.shape;
    input.source = {Source::Kind::kState, std::move(name), {}};
    return append(std::move(input), origin);
  }

  /// The piece's line that is `value` as the part makes it, or else whole.
  [[nodiscard]] ValueIndex made(ValueIndex value) const { return made_[value]; }
  [[nodiscard]] ValueIndex whole(ValueIndex value) const { return whole_[value]; }
  /// The piece's line that stands for `value` in a tail.
  [[nodiscard]] ValueIndex any(ValueIndex value) const {
    return made_[value] == kNoValue ? whole_[value] : made_[value];
  }
  [[nodiscard]] Piece& piece() { return piece_; }

 private:
  Piece piece_;
  ByValue<ValueIndex> made_, whole_;  // kNoValue: not there
};

Result<Piece> checked(Piece piece) {
  if (Status status = check_program(piece.program, ProgramRole::kPiece); !status.ok())
    return within("a piece of the program", status.error());
  return piece;
}

/// The values that some line of a rank's body reads: of class S slice by slice or whole, others in `slices`.
struct Reads {
  ByValue<bool> slices, whole;
};

Reads reads_of_body(const Program& program, const Classes& classes, int rank) {
  Reads reads{ByValue<bool>(program.values.size(), false), ByValue<bool>(program.values.size(), false)};
  for (const ValueIndex v : program.values.indices()) {
    if (!classes.body[v] || !classes.is_on(v, rank)) continue;
    const auto& accesses = program.values[v].accesses;
    for (std::size_t n = 0; n < accesses.size(); ++n)
      (needs_whole(program, classes, v, n) ? reads.whole : reads.slices)[accesses[n].value] = true;
  }
  return reads;
}

/// The input as a part sees it.
Primitive local_input(const Primitive& input, SampleClass of, const Cut& cut) {
  Primitive local = input;
  local.next.reset();
  if (of == SampleClass::kSharded) local.shape[0] = cut.share(local.shape[0]);
  return local;
}

/// A part, and the rank that makes it.
struct Place {
  Cut cut;
  int rank = 0;
};

/// The line as a part computes it; `lines` has what it reads.
Primitive local_line(const Program& program, const Classes& classes, ValueIndex v, const Place& place,
                     const PieceWriter& lines) {
  std::vector<Reading> readings;
  const Primitive& line = program.values[v];
  for (std::size_t n = 0; n < line.accesses.size(); ++n) {
    const ValueIndex read = line.accesses[n].value;
    const bool whole = needs_whole(program, classes, v, n);
    const bool is_cut = classes.of[read] == SampleClass::kSharded || !classes.is_on(read, place.rank);
    readings.push_back({whole ? lines.whole(read) : lines.made(read), !whole && is_cut});
  }
  return cut_line(line, classes.of[v], place.cut, readings);
}

/// Appends the line, and before one of class C its carry, which it becomes.
Status append_local(const Program& program, const Classes& classes, ValueIndex v, const Place& place,
                    PieceWriter& lines) {
  const Primitive& line = program.values[v];
  Primitive local = local_line(program, classes, v, place, lines);
  if (classes.of[v] == SampleClass::kCarried) {
    const ValueIndex carry = lines.piece().program.values.next();
    DGX_CHECK(lines.append_state(carry_name(v), line, {v, PieceLine::As::kCarry}));
    lines.piece().program.values[carry].next = lines.piece().program.values.next();
    if (line.kind == Kind::kChain && place.cut.begin > 0) begin_at(local, carry);
  }
  return lines.append(std::move(local), {v, PieceLine::As::kMade});
}

/// Appends the part's slices of what another rank makes.
Status append_slices(const Program& program, ValueIndex v, const Cut& cut, PieceWriter& lines) {
  Primitive slices = program.values[v];
  slices.shape[0] = cut.share(slices.shape[0]);
  return lines.append_state(value_name(v), slices, {v, PieceLine::As::kSlices});
}

bool is_divided(const Program& program, const Classes& classes, ValueIndex v) {
  const Primitive& line = program.values[v];
  return line.kind == Kind::kInput && line.source.kind == Source::Kind::kState &&
         classes.of[v] == SampleClass::kSharded;
}

/// The values that a rank's tail reads, or that become an entry which is not divided.
ByValue<bool> reads_of_tail(const Program& program, const Classes& classes, int rank) {
  ByValue<bool> reads(program.values.size(), false);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (!classes.is_on(v, rank)) continue;
    if (line.next && !is_divided(program, classes, v)) reads[*line.next] = true;
    if (classes.body[v] || line.kind == Kind::kInput) continue;
    for (const Access& access : line.accesses) reads[access.value] = true;
  }
  return reads;
}

/// The values that the body gathers, and all that these depend on.
ByValue<bool> needs_of_gathers(const Program& program, const Classes& classes) {
  ByValue<bool> needed(program.values.size(), false);
  for (const Gather& gather : classes.gathers) {
    if (classes.body[gather.reader]) needed[gather.value] = true;
  }
  for (std::size_t n = needed.size(); n-- > 0;) {
    if (!needed[static_cast<ValueIndex>(n)]) continue;
    for (const Access& access : program.values[static_cast<ValueIndex>(n)].accesses)
      needed[access.value] = true;
  }
  return needed;
}

}  // namespace

std::string value_name(ValueIndex value) { return fmt::format("value/{}", value); }
std::string carry_name(ValueIndex value) { return fmt::format("carry/{}", value); }

Result<Piece> local_program(const Program& program, const Classes& classes, SliceRange part, int rank) {
  if (part.begin < 0 || part.begin >= part.end || part.end > classes.slices)
    return internal_error(fmt::format("no slices {} to {} in {}", part.begin, part.end, classes.slices));
  if (std::ranges::find(classes.body, true) == classes.body.end())
    return usage_error("program: no line can be cut, since none works sample by sample", kWithoutParts);
  const Cut cut{part.begin, part.end - part.begin, classes.slices};
  const Reads reads = reads_of_body(program, classes, rank);
  PieceWriter lines(program.values.size());
  for (const ValueIndex v : program.values.indices()) {
    if (!classes.body[v]) continue;
    const Primitive& line = program.values[v];
    const bool is_input = line.kind == Kind::kInput;
    if (!classes.is_on(v, rank)) {
      if (!is_input && reads.slices[v]) DGX_CHECK(append_slices(program, v, cut, lines));
      continue;
    }
    if (!is_input) DGX_CHECK(append_local(program, classes, v, {cut, rank}, lines));
    if (is_input && reads.slices[v])
      DGX_CHECK(lines.append(local_input(line, classes.of[v], cut), {v, PieceLine::As::kMade}));
    if (reads.whole[v]) DGX_CHECK(lines.append_state(value_name(v), line, {v, PieceLine::As::kWhole}));
  }
  return checked(std::move(lines.piece()));
}

Result<Piece> tail_program(const Program& program, const Classes& classes, int rank) {
  const ByValue<bool> reads = reads_of_tail(program, classes, rank);
  PieceWriter lines(program.values.size());
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    const bool is_input = line.kind == Kind::kInput, of_body = !is_input && classes.body[v];
    if (is_divided(program, classes, v) || (!of_body && !classes.is_on(v, rank))) continue;
    const bool is_state = is_input && line.source.kind == Source::Kind::kState;
    if (is_state || (is_input && reads[v])) {
      DGX_CHECK(lines.append(line, {v, PieceLine::As::kMade}));
    } else if (!is_input && !of_body) {
      Primitive local = line;
      for (Access& access : local.accesses) access.value = lines.any(access.value);
      DGX_CHECK(lines.append(std::move(local), {v, PieceLine::As::kMade}));
    } else if (of_body && reads[v]) {
      DGX_CHECK(lines.append_state(value_name(v), line, {v, PieceLine::As::kWhole}));
    }
  }
  for (Primitive& line : lines.piece().program.values) {
    if (line.next) line.next = lines.any(*line.next);
  }
  return checked(std::move(lines.piece()));
}

std::optional<Gather> first_obstacle(const Program& program, const Classes& classes) {
  ByValue<bool> by_state(program.values.size(), false);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    by_state[v] = line.kind == Kind::kInput && line.source.kind == Source::Kind::kState;
    for (const Access& access : line.accesses) {
      if (by_state[access.value]) by_state[v] = true;
    }
  }
  for (const Gather& gather : classes.gathers) {
    if (classes.body[gather.reader] && by_state[gather.value]) return gather;
  }
  return std::nullopt;
}

Result<Piece> head_program(const Program& program, const Classes& classes) {
  if (first_obstacle(program, classes)) return internal_error("a head cannot depend on the state");
  const ByValue<bool> needed = needs_of_gathers(program, classes);
  PieceWriter lines(program.values.size());
  for (const ValueIndex v : program.values.indices()) {
    if (!needed[v]) continue;
    Primitive line = program.values[v];
    for (Access& access : line.accesses) access.value = lines.made(access.value);
    DGX_CHECK(lines.append(std::move(line), {v, PieceLine::As::kMade}));
  }
  if (lines.piece().program.values.empty()) return std::move(lines.piece());
  return checked(std::move(lines.piece()));
}

}  // namespace dgx::program
