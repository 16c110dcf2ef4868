// The pieces of a pipeline's stage, their plans, and the memory of what passes between them.
#include <algorithm>
#include <utility>

#include "cpu/parts_by_stages.h"
#include "rewrite/channels_last.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using program::PieceLine;
using program::SampleClass;

namespace {

bool is_state(const Primitive& line) {
  return line.kind == Kind::kInput && line.source.kind == Source::Kind::kState;
}

/// A piece whose batch is one part reads what it makes, and nothing is gathered.
void read_as_made(program::Piece& piece, const program::Program& program) {
  kernels::ByValue<ValueIndex> instead;
  std::map<ValueIndex, ValueIndex> made;  // by value of the step
  for (const ValueIndex line : piece.origins.indices()) {
    const auto& [v, as] = piece.origins[line];
    if (as == PieceLine::As::kMade) made[v] = line;
    const bool is_gathered = as == PieceLine::As::kWhole && program.values[v].kind != Kind::kInput;
    instead.push_back(is_gathered ? made.at(v) : line);
  }
  for (Primitive& line : piece.program.values) {
    for (kernels::Access& access : line.accesses) access.value = instead[access.value];
  }
}

/// The lines that make values of the step, by these.
std::map<ValueIndex, ValueIndex> lines_making(const program::Piece& local) {
  std::map<ValueIndex, ValueIndex> out;
  for (const ValueIndex line : local.origins.indices()) {
    const auto& [v, as] = local.origins[line];
    if (as == PieceLine::As::kMade && v != kernels::kNoValue) out[v] = line;
  }
  return out;
}

Primitive given_value(const Primitive& like, ValueIndex v) {
  Primitive input;
  input.kind = Kind::kInput;
  input.dtype = like.dtype;
  input.shape = like.shape;
  input.source = {Source::Kind::kState, program::value_name(v), {}};
  return input;
}

}  // namespace

bool PartsExecutor::ByStages::is_entry(ValueIndex v) const { return is_state(at(v)); }

bool PartsExecutor::ByStages::is_sharded(ValueIndex v) const {
  return classes.of[v] == SampleClass::kSharded && at(v).kind != Kind::kInput;
}

bool PartsExecutor::ByStages::is_shared(ValueIndex v) const {
  return std::ranges::binary_search(own().shared, v);
}

bool PartsExecutor::ByStages::lies_whole(ValueIndex v) const {
  return !is_sharded(v) || pipelines() == 1 || is_shared(v);
}

std::int64_t PartsExecutor::ByStages::bytes_of_home(ValueIndex v) const {
  const std::int64_t each = bytes_of(at(v)) / classes.slices;
  return lies_whole(v) ? bytes_of(at(v)) : each * (own_slices_.slices.end - own_slices_.slices.begin);
}

Range PartsExecutor::ByStages::range_of(ValueIndex v, program::SliceRange slices) const {
  if (!is_sharded(v)) return {0, bytes_of(at(v))};
  const std::int64_t each = bytes_of(at(v)) / classes.slices;
  const std::int64_t first = lies_whole(v) ? 0 : own_slices_.slices.begin;
  return {each * (slices.begin - first), each * (slices.end - first)};
}

/// Keeps the parts of this rank's pipeline.
Status PartsExecutor::ByStages::take_parts() {
  const auto count = static_cast<std::size_t>(pipelines());
  if (ranks_.ranks() % stages() != 0 || parts.size() % count != 0)
    return internal_error("pipelines with another number of stages than ranks, or of unequally many parts");
  const std::size_t each = parts.size() / count;
  for (std::size_t first = 0; first < parts.size(); first += each)
    slices_.push_back({parts[first].slices.begin, parts[first + each - 1].slices.end});
  const auto own = static_cast<std::size_t>(pipeline());
  own_slices_ = {slices_[own]};
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>((own + 1) * each), parts.end());
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(own * each));
  return {};
}

std::vector<std::int64_t> PartsExecutor::ByStages::carry_bounds() const {
  if (pipelines() == 1) return Impl::carry_bounds();
  std::vector<std::int64_t> out{0};
  for (const program::SliceRange& slices : slices_) out.push_back(slices.end);
  return out;
}

/// The stage's tail: its entries, and the lines of its last piece. What others make, or its earlier pieces,
/// is given to it.
program::Piece PartsExecutor::ByStages::last_piece(const program::Piece& of_tail) const {
  const std::size_t count = of_tail.origins.size();
  kernels::ByValue<bool> made(count, false), needed(count, false);
  std::map<ValueIndex, ValueIndex> line_of;  // by value of the step
  for (const ValueIndex line : of_tail.origins.indices()) line_of[of_tail.origins[line].value] = line;
  for (const ValueIndex v : own().last) made[line_of.at(v)] = true;
  const auto is_own_entry = [&](ValueIndex line) {
    const auto& [v, as] = of_tail.origins[line];
    return as == PieceLine::As::kMade && is_entry(v) && is_here(v);
  };
  const auto need = [&](ValueIndex line) {
    needed[line] = true;
    const ValueIndex v = of_tail.origins[line].value;
    if (of_tail.program.values[line].kind != Kind::kInput && is_free_of_tail(v)) made[line] = true;
  };
  for (const ValueIndex line : of_tail.origins.indices()) {
    if (is_own_entry(line) && of_tail.program.values[line].next) need(*of_tail.program.values[line].next);
  }
  for (std::size_t n = count; n-- > 0;) {
    const auto line = static_cast<ValueIndex>(n);
    if (!made[line]) continue;
    for (const kernels::Access& access : of_tail.program.values[line].accesses) need(access.value);
  }
  program::Piece out;
  kernels::ByValue<ValueIndex> number(count, kernels::kNoValue);
  for (const ValueIndex line : of_tail.origins.indices()) {
    const PieceLine& origin = of_tail.origins[line];
    Primitive copy = of_tail.program.values[line];
    const bool is_own = made[line] || is_own_entry(line);
    if (!is_own && !needed[line]) continue;
    const bool is_copied = is_own || (copy.kind == Kind::kInput && !is_state(copy));
    number[line] = out.program.values.next();
    for (kernels::Access& access : copy.accesses) access.value = number[access.value];
    out.program.values.push_back(is_copied ? std::move(copy) : given_value(copy, origin.value));
    out.origins.push_back({origin.value, is_copied ? origin.as : PieceLine::As::kWhole});
  }
  for (Primitive& line : out.program.values) {
    if (line.next) line.next = number[*line.next];
  }
  return out;
}

Result<Plan> PartsExecutor::ByStages::plan_tail() {
  DGX_CHECK(take_parts());
  DGX_TRY(stages_, program::stages_of(*program, classes, cut()));
  DGX_TRY(whole_tail_, program::tail_of_stages(*program, classes, stages_));
  tail_piece = last_piece(whole_tail_);
  for (Primitive& line : whole_tail_.program.values) line.next.reset();
  for (PieceLine& origin : whole_tail_.origins) origin.as = PieceLine::As::kMade;
  const auto find_bits = [&](ValueIndex v) {
    if (const auto bits = program::code_bits(*program, classes, v)) code_bits_[v] = *bits;
  };
  for (const program::Move& move : stages_.moves) find_bits(move.value);
  std::ranges::for_each(own().shared, find_bits);
  return plan_tail_piece(stage() == 0 ? inputs.watched : std::vector<ValueIndex>());
}

/// Finds the values that lie whole, or their pipeline's slices: what passes between stages, what the tail and
/// the column's lines read of the body, and pieces of the tail of each other.
void PartsExecutor::ByStages::find_homes() {
  for (const program::Move& move : stages_.moves) {
    if (move.to == stage()) homes_.insert(move.value);
    if (move.from == stage() && !is_entry(move.value)) homes_.insert(move.value);
  }
  for (const auto& [v, memory] : given) {
    if (is_here(v) && !is_entry(v)) homes_.insert(v);
  }
  const auto add_reads = [&](ValueIndex reader, std::size_t piece) {
    for (const ValueIndex read : program::reads_of(*program, classes, reader, cut().has_head())) {
      const bool is_line = at(read).kind != Kind::kInput && is_here(read);
      if (!is_line) continue;
      if (classes.body[read] || stages_.piece[read] != static_cast<int>(piece)) homes_.insert(read);
    }
  };
  for (std::size_t n = 0; n < own().early.size(); ++n) {
    for (const ValueIndex v : own().early[n]) add_reads(v, n);
  }
  for (const ValueIndex v : own().last) add_reads(v, own().early.size());
  for (const ValueIndex v : own().sums) add_reads(v, 0);
  std::erase_if(homes_, [&](ValueIndex v) {
    return stages_.of[v] == stage() && classes.of[v] == SampleClass::kCarried;
  });
}

/// Finds what the piece receives before it runs, and sends behind it.
void PartsExecutor::ByStages::find_messages(StagePiece& piece) const {
  Values read, made;
  for (const ValueIndex line : piece.phase.origin.indices()) {
    const auto& [v, as] = piece.phase.piece.origins[line];
    if (v == kernels::kNoValue || as != PieceLine::As::kMade) continue;  // whole values are the head's
    const bool is_input = piece.phase.piece.program.values[line].kind == Kind::kInput;
    (is_input ? read : made).insert(v);
  }
  for (const program::Move& move : stages_.moves) {
    if (move.to == stage() && read.contains(move.value)) piece.received.push_back(move.value);
    if (move.from == stage() && made.contains(move.value) &&
        std::ranges::find(piece.sent, move.value) == piece.sent.end())
      piece.sent.push_back(move.value);
  }
}

/// Plans a piece of a part, or of the tail: what others read is kept, and dots of class C are resumed.
Status PartsExecutor::ByStages::plan_piece(StagePiece& piece, Of of) {
  find_messages(piece);
  std::vector<ValueIndex> keep;
  for (const ValueIndex line : piece.phase.origin.indices()) {
    const ValueIndex v = piece.phase.piece.origins[line].value;
    const bool is_made =
        piece.phase.piece.program.values[line].kind != Kind::kInput && v != kernels::kNoValue;
    if (is_made && !is_free(v) && (homes_.contains(v) || kept_bytes_.contains(v))) keep.push_back(line);
  }
  piece.body.piece = piece.phase.piece;
  const bool of_body = of == Of::kPart;
  piece.body.of_part = of_body;
  DGX_TRY(piece.body.plan, make_plan(std::make_shared<program::Program>(piece.phase.piece.program),
                                     Fusion::kFused, tail->team->size(), keep,
                                     of_body ? resumed_lines(piece.phase.piece) : std::vector<ValueIndex>(),
                                     of_body ? Channels::kLieRight : Channels::kMayMove));
  return {};
}

/// The local program of these slices, with images as they lie; homes are in rows.
Result<program::Piece> PartsExecutor::ByStages::local_piece(program::SliceRange slices) const {
  DGX_TRY(program::Piece local, program::local_program(*program, classes, slices));
  if (!cut().has_head()) read_as_made(local, *program);
  local = with_products(local, classes);
  std::vector<ValueIndex> seen;
  for (const ValueIndex line : local.origins.indices()) {
    const auto& [v, as] = local.origins[line];
    if (as == PieceLine::As::kMade && v != kernels::kNoValue && homes_.contains(v)) seen.push_back(line);
  }
  local.program = *with_channels_last(std::make_shared<program::Program>(local.program), seen);
  return local;
}

/// Plans the body's pieces of each local program.
Status PartsExecutor::ByStages::plan_pieces() {
  for (const Part& part : parts) {
    if (part.body != pieces_.size()) continue;
    DGX_TRY(const program::Piece local, local_piece(part.slices));
    const std::map<ValueIndex, ValueIndex> line_of = lines_making(local);
    const auto may_make = [&](ValueIndex line) { return is_free(local.origins[line].value); };
    auto& pieces = pieces_.emplace_back(own().pieces.size());
    for (std::size_t n = 0; n < pieces.size(); ++n) {
      std::vector<ValueIndex> lines;
      for (const ValueIndex v : own().pieces[n]) lines.push_back(line_of.at(v));
      pieces[n].phase = phase_making(local, lines, may_make);
      const Phase& phase = pieces[n].phase;
      for (const ValueIndex line : phase.origin.indices()) {
        const ValueIndex of = phase.origin[line], v = phase.piece.origins[line].value;
        const bool is_read = phase.piece.program.values[line].kind == Kind::kInput &&
                             local.program.values[of].kind != Kind::kInput;
        if (!is_read || homes_.contains(v)) continue;
        std::int64_t& most = kept_bytes_[v];
        most = std::max(most, bytes_of(local.program.values[of]));
      }
    }
    for (StagePiece& piece : pieces) DGX_CHECK(plan_piece(piece, Of::kPart));
  }
  return {};
}

/// Plans the lines of class C that the column makes in turn.
Status PartsExecutor::ByStages::plan_sums() {
  if (own().sums.empty()) return {};
  DGX_TRY(const program::Piece local, local_piece(own_slices_.slices));
  const std::map<ValueIndex, ValueIndex> line_of = lines_making(local);
  std::vector<ValueIndex> lines;
  for (const ValueIndex v : own().sums) lines.push_back(line_of.at(v));
  sums_.phase =
      phase_making(local, lines, [&](ValueIndex line) { return is_free(local.origins[line].value); });
  return plan_piece(sums_, Of::kPart);
}

Status PartsExecutor::ByStages::plan_early() {
  std::map<ValueIndex, ValueIndex> line_of;
  for (const ValueIndex line : whole_tail_.origins.indices()) line_of[whole_tail_.origins[line].value] = line;
  const auto may_make = [&](ValueIndex line) { return is_free_of_tail(whole_tail_.origins[line].value); };
  for (const auto& values : own().early) {
    std::vector<ValueIndex> lines;
    for (const ValueIndex v : values) lines.push_back(line_of.at(v));
    StagePiece& piece = early_.emplace_back();
    piece.phase = phase_making(whole_tail_, lines, may_make);
    DGX_CHECK(plan_piece(piece, Of::kTail));
  }
  return {};
}

Status PartsExecutor::ByStages::plan_bodies() {
  DGX_CHECK(find_bodies());
  cells_ = program::cells_of(stages_, std::ssize(parts))[static_cast<std::size_t>(stage())];
  slots_ = static_cast<std::size_t>(std::max<std::int64_t>(1, program::parts_in_flight(own(), cells_)));
  find_homes();
  DGX_CHECK(plan_pieces());
  DGX_CHECK(plan_sums());
  DGX_CHECK(plan_early());
  bool reads_head = false;
  const auto look = [&](const StagePiece& piece) {
    for (const auto& [v, as] : piece.phase.piece.origins)
      reads_head = reads_head || (as == PieceLine::As::kWhole && at(v).kind != Kind::kInput);
  };
  look(sums_);
  for (const auto& pieces : pieces_) std::ranges::for_each(pieces, look);
  return reads_head ? plan_head() : Status();
}

std::vector<Body*> PartsExecutor::ByStages::bodies_of_step() {
  std::vector<Body*> out;
  if (!head.piece.program.values.empty()) out.push_back(&head);
  for (auto& pieces : pieces_) {
    for (StagePiece& piece : pieces) out.push_back(&piece.body);
  }
  if (!own().sums.empty()) out.push_back(&sums_.body);
  for (StagePiece& piece : early_) out.push_back(&piece.body);
  return out;
}

double PartsExecutor::ByStages::runs_of(const Body& body) const {
  for (std::size_t n = 0; n < pieces_.size(); ++n) {
    for (const StagePiece& piece : pieces_[n]) {
      if (&piece.body == &body) return static_cast<double>(std::ranges::count(parts, n, &Part::body));
    }
  }
  return 1;
}

std::int64_t PartsExecutor::ByStages::own_bytes() const {
  std::int64_t bytes = 0;
  for (const ValueIndex v : homes_) bytes += given.contains(v) ? 0 : bytes_of_home(v);
  for (const auto& [v, most] : kept_bytes_) bytes += most * static_cast<std::int64_t>(slots_);
  for (const auto& [v, bits] : code_bits_) {
    if (!homes_.contains(v)) continue;
    bytes += range_of(v, own_slices_.slices).size();  // the packed texts of all parts
    if (is_shared(v)) bytes += bytes_of(at(v));       // and of all pipelines
  }
  for (const ValueIndex v : program::state_inputs(*program)) {
    if (stage() == 0 || is_here(v)) bytes += bytes_of(at(v));  // a state that is loaded, or brought together
  }
  return bytes;
}

Status PartsExecutor::ByStages::take_own_memory() {
  for (const ValueIndex v : homes_) {
    if (given.contains(v)) continue;
    apart_.emplace(
        v, lies_whole(v) ? Tensor(at(v).dtype, at(v).shape) : Tensor(DType::kU8, Shape{bytes_of_home(v)}));
  }
  for (const auto& [v, most] : kept_bytes_) {
    for (std::size_t n = 0; n < slots_; ++n) kept_[v].emplace_back(DType::kU8, Shape{most});
  }
  for (Body* const body : bodies_of_step()) body->machine->call_between([this] { ranks_.progress(); });
  if (own().sums.empty()) return {};
  return surround_carried(neighbours(), sums_.body, own_slices_);
}

}  // namespace dgx::exec
