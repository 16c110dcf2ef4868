#include "rewrite/read_through.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "plan/concatenation.h"
#include "plan/linear.h"
#include "plan/recognise.h"

namespace dgx::exec {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Primitive;
using kernels::Term;
using kernels::ValueIndex;

namespace {

constexpr std::size_t kMostDimensions = 8;  // of an iteration, and of a fold: dgx-program(5)

using Symbol = std::pair<Term::Symbol, std::int32_t>;

/// constant + Σ coefficient · symbol, where a symbol is an iteration or a fold index.
struct Linear {
  std::map<Symbol, std::int64_t> coefficients;
  std::int64_t constant = 0;
};

/// True for an affine coordinate, and for an access of such coordinates that is always inside.
bool is_plain(const Coordinate& coordinate) {
  const bool reads = std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                                 [](const Term& term) { return term.symbol == Term::Symbol::kAccess; });
  return !reads && coordinate.division == Coordinate::Division::kNone;
}

bool is_plain(const Access& access) {
  return !access.fill && std::all_of(access.coordinates.begin(), access.coordinates.end(),
                                     [](const auto& c) { return is_plain(c); });
}

/// The flat element that a plain access reads.
Linear flat_element(const Access& access, const Shape& shape) {
  const auto strides = row_major_strides(access.view ? *access.view : shape);
  Linear flat;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    flat.constant += strides[d] * access.coordinates[d].constant;
    for (const Term& term : access.coordinates[d].terms)
      flat.coefficients[{term.symbol, term.index}] += strides[d] * term.coefficient;
  }
  return flat;
}

/// A primitive's dimensions, each split into one or more parts, outermost first.
class Split {
 public:
  explicit Split(const Primitive& line) {
    const Shape& iteration = line.iteration_shape();
    for (std::size_t d = 0; d < iteration.size(); ++d)
      parts_[{Term::Symbol::kIndex, static_cast<std::int32_t>(d)}] = {iteration[d]};
    for (std::size_t d = 0; d < line.fold.size(); ++d)
      parts_[{Term::Symbol::kFold, static_cast<std::int32_t>(d)}] = {line.fold[d]};
  }

  [[nodiscard]] const Shape& parts(Symbol symbol) const { return parts_.at(symbol); }

  /// Splits `symbol` once, into parts of which the inner one has extent `inner`. False if that is impossible,
  /// or it is already split otherwise.
  bool cut(Symbol symbol, std::int64_t inner) {
    Shape& parts = parts_.at(symbol);
    if (parts.size() == 1 && parts[0] % inner == 0) parts = {parts[0] / inner, inner};
    return parts.size() == 2 && parts[1] == inner;
  }

  /// The extents of all parts of one kind of symbol, and the number of a symbol's first part among these.
  [[nodiscard]] Shape extents(Term::Symbol kind) const {
    Shape all;
    for (const auto& [symbol, parts] : parts_) {
      if (symbol.first == kind) all.insert(all.end(), parts.begin(), parts.end());
    }
    return all;
  }
  [[nodiscard]] std::int32_t first_part(Symbol of) const {
    std::size_t first = 0;
    for (const auto& [symbol, parts] : parts_)
      first += symbol.first == of.first && symbol.second < of.second ? parts.size() : 0;
    return static_cast<std::int32_t>(first);
  }

 private:
  std::map<Symbol, Shape> parts_;
};

/// The digits of a number in mixed radix: digit d is constants[d] + Σ coefficient · part, over its uses.
struct Digits {
  struct Use {
    std::size_t digit;
    Symbol symbol;
    std::size_t part;  ///< counted from the innermost
    std::int64_t coefficient;
  };
  std::vector<Use> uses;
  std::vector<std::int64_t> constants;
};

/// The digits of a flat element in the mixed radix `extents`: from these the copy's indices can be read off.
/// A symbol that spans two digits is split, so that each part moves one. Nullopt if the digits might carry.
std::optional<Digits> digits_of(const Linear& flat, const Shape& extents, Split& split) {
  const auto strides = row_major_strides(extents);
  Digits out;
  std::vector<std::int64_t> most;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    out.constants.push_back(flat.constant / strides[d] % extents[d]);
    most.push_back(out.constants.back());
  }
  if (flat.constant < 0) return std::nullopt;
  for (const auto& [symbol, all] : flat.coefficients) {
    std::int64_t extent = std::accumulate(split.parts(symbol).begin(), split.parts(symbol).end(),
                                          std::int64_t{1}, std::multiplies<>());
    std::int64_t coefficient = all;
    for (std::size_t part = 0; coefficient != 0 && extent > 1; ++part) {
      std::size_t d = 0;
      while (d < extents.size() && (strides[d] > coefficient || extents[d] == 1)) ++d;
      if (d == extents.size() || coefficient % strides[d] != 0) return std::nullopt;
      const std::int64_t step = coefficient / strides[d];
      if (step * (extent - 1) < extents[d]) {
        out.uses.push_back({d, symbol, part, step});
        most[d] += step * (extent - 1);
        break;
      }
      if (extents[d] % step != 0 || part > 0) return std::nullopt;
      const std::int64_t inner = extents[d] / step;
      if (extent % inner != 0 || !split.cut(symbol, inner)) return std::nullopt;
      out.uses.push_back({d, symbol, part, step});
      most[d] += step * (inner - 1);
      coefficient *= inner;
      extent /= inner;
    }
  }
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (most[d] >= extents[d]) return std::nullopt;
  }
  return out;
}

/// A coordinate of a primitive, rewritten for its split dimensions.
Coordinate split_coordinate(const Coordinate& coordinate, const Split& split) {
  Coordinate out = coordinate;
  out.terms.clear();
  for (const Term& term : coordinate.terms) {
    const Symbol symbol{term.symbol, term.index};
    const Shape& parts = split.parts(symbol);
    const auto weights = row_major_strides(parts);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      out.terms.push_back({term.symbol, split.first_part(symbol) + static_cast<std::int32_t>(p),
                           term.coefficient * weights[p]});
    }
  }
  return out;
}

/// A coordinate of a copy's access, rewritten for the reader: the copy's indices are the digits that the
/// reader names.
Coordinate copied_coordinate(const Coordinate& coordinate, const Digits& digits, const Split& split) {
  Coordinate out;
  out.constant = coordinate.constant;
  for (const Term& term : coordinate.terms) {
    const auto digit = static_cast<std::size_t>(term.index);
    out.constant += term.coefficient * digits.constants[digit];
    for (const Digits::Use& use : digits.uses) {
      if (use.digit != digit) continue;
      const auto last = static_cast<std::int32_t>(split.parts(use.symbol).size()) - 1;
      const std::int32_t part = split.first_part(use.symbol) + last - static_cast<std::int32_t>(use.part);
      out.terms.push_back({use.symbol.first, part, term.coefficient * use.coefficient});
    }
  }
  return out;
}

/// The coordinate with `by` added to the iteration index `index`.
Coordinate shifted(Coordinate coordinate, std::int32_t index, std::int64_t by) {
  for (const Term& term : coordinate.terms) {
    if (term.symbol == Term::Symbol::kIndex && term.index == index)
      coordinate.constant += by * term.coefficient;
  }
  return coordinate;
}

/// Goes through the copies in the order of the program. Each is passed by for all its readers, or for none.
class ReadThrough {
 public:
  explicit ReadThrough(const program::Program& program) : program_(program) {
    for (const Primitive& value : program_.values) types_.push_back({value.dtype, value.shape});
    readers_.resize(program_.values.size());
    for (const ValueIndex v : program_.values.indices()) {
      for (const Access& access : program_.values[v].accesses) readers_[access.value].push_back(v);
      if (program_.values[v].next) becomes_state_.push_back(*program_.values[v].next);
    }
  }

  program::Program run() {
    for (const ValueIndex v : program_.values.indices()) {
      if (is_copy(v)) pass_by(v);
    }
    return std::move(program_);
  }

 private:
  /// True for a map that only copies f32 elements, and that no state entry becomes.
  [[nodiscard]] bool is_copy(ValueIndex v) const {
    const Primitive& value = program_.values[v];
    if (std::find(value.shape.begin(), value.shape.end(), 0) != value.shape.end()) return false;
    return value.kind == Kind::kMap && value.steps.empty() && value.dtype == DType::kF32 &&
           value.accesses.size() == 1 && is_plain(value.accesses[0]) &&
           types_[value.accesses[0].value].dtype == DType::kF32 &&
           std::find(becomes_state_.begin(), becomes_state_.end(), v) == becomes_state_.end();
  }

  void pass_by(ValueIndex copy) {
    std::vector<std::pair<ValueIndex, Primitive>> changed;
    for (const ValueIndex reader : readers_[copy]) {
      const auto whole = concatenation_of(program_.values[reader]);
      auto line = whole ? concatenating_through(program_.values[reader], *whole, copy)
                        : reading_through(program_.values[reader], copy);
      if (!line) return;
      changed.emplace_back(reader, std::move(*line));
    }
    const ValueIndex source = program_.values[copy].accesses[0].value;
    for (auto& [reader, line] : changed) {
      program_.values[reader] = std::move(line);
      readers_[source].push_back(reader);
    }
  }

  /// A product that reads the copy, rewritten to read the copied value.
  std::optional<Primitive> reading_through(const Primitive& line, ValueIndex copy) const {
    if (line.kind != Kind::kDot ||
        !std::all_of(line.accesses.begin(), line.accesses.end(), [](const auto& a) { return is_plain(a); })) {
      return std::nullopt;
    }
    const Primitive& from = program_.values[copy];
    Split split(line);
    std::vector<std::optional<Digits>> digits;
    for (const Access& access : line.accesses) {
      digits.emplace_back();
      if (access.value != copy) continue;
      digits.back() = digits_of(flat_element(access, from.shape), from.iteration_shape(), split);
      if (!digits.back()) return std::nullopt;
    }
    Primitive changed = line;
    changed.iteration = split.extents(Term::Symbol::kIndex);
    changed.fold = split.extents(Term::Symbol::kFold);
    if (changed.iteration->size() > kMostDimensions || changed.fold.size() > kMostDimensions)
      return std::nullopt;
    for (std::size_t n = 0; n < line.accesses.size(); ++n) {
      Access& access = changed.accesses[n];
      if (digits[n]) access = from.accesses[0];
      for (Coordinate& coordinate : access.coordinates) {
        coordinate = digits[n] ? copied_coordinate(coordinate, *digits[n], split)
                               : split_coordinate(coordinate, split);
      }
    }
    if (!is_better(line, changed)) return std::nullopt;
    return changed;
  }

  /// A concatenation that takes one piece from a copy, rewritten to take it from the copied value.
  std::optional<Primitive> concatenating_through(const Primitive& line, const ConcatenationForm& whole,
                                                 ValueIndex copy) const {
    const auto reads_copy = [&](const ConcatenationForm::Piece& piece) {
      return line.accesses[piece.access].value == copy;
    };
    const bool divides = std::any_of(line.accesses.begin(), line.accesses.end(), [](const Access& access) {
      return std::any_of(access.coordinates.begin(), access.coordinates.end(),
                         [](const auto& c) { return !is_plain(c); });
    });
    if (divides || std::count_if(whole.pieces.begin(), whole.pieces.end(), reads_copy) != 1)
      return std::nullopt;
    // Every piece must lie inside its source: an index beyond a row of the copy, which gives the fill, would
    // otherwise be taken for an element of the next row.
    if (!recognise_concatenation({}, line, types_)) return std::nullopt;
    const auto piece = *std::find_if(whole.pieces.begin(), whole.pieces.end(), reads_copy);
    const Primitive alone = line_of_piece(line, whole, piece);
    const Primitive& from = program_.values[copy];
    Split of_piece(alone);
    const auto digits =
        digits_of(flat_element(alone.accesses[0], from.shape), from.iteration_shape(), of_piece);
    if (!digits) return std::nullopt;
    Split split(line);
    const Symbol along{Term::Symbol::kIndex, static_cast<std::int32_t>(whole.dimension)};
    for (std::int32_t d = 0; d < static_cast<std::int32_t>(alone.shape.size()); ++d) {
      const Shape& parts = of_piece.parts({Term::Symbol::kIndex, d});
      if (parts.size() > 1 && !split.cut({Term::Symbol::kIndex, d}, parts.back())) return std::nullopt;
    }
    // If the dimension is split, the constants that it is compared with must fall between outer parts.
    const std::int64_t inner = split.parts(along).size() > 1 ? split.parts(along).back() : 1;
    const bool falls_between = std::any_of(whole.pieces.begin(), whole.pieces.end(),
                                           [&](const auto& p) { return p.begin % inner != 0; });
    Primitive changed = line;
    changed.iteration = split.extents(Term::Symbol::kIndex);
    if (falls_between || changed.iteration->size() > kMostDimensions) return std::nullopt;
    for (std::size_t n = 0; n < line.accesses.size(); ++n) {
      Access& access = changed.accesses[n];
      if (n == piece.access) access = from.accesses[0];
      for (Coordinate& coordinate : access.coordinates) {
        coordinate = n == piece.access ? shifted(copied_coordinate(coordinate, *digits, split),
                                                 split.first_part(along), -piece.begin / inner)
                                       : split_coordinate(coordinate, split);
      }
    }
    changed.accesses[piece.access].fill = line.accesses[piece.access].fill;
    for (kernels::Step& step : changed.steps) {
      if (step.op != kernels::ScalarOp::kLt) continue;  // the others are selects
      step.operands[0].index = split.first_part(along);
      step.operands[1].integer /= inner;
    }
    if (!recognise_concatenation({}, changed, types_)) return std::nullopt;
    return changed;
  }

  /// True if both lines are products, the new one is more than a vector times a matrix, and each of its sides
  /// has elements that are neighbours in memory along one of its dimensions.
  [[nodiscard]] bool is_better(const Primitive& before, const Primitive& after) const {
    const auto old_form = product_of(before);
    const auto new_form = product_of(after);
    if (!old_form || !new_form || new_form->shape.rows == 1 || new_form->shape.columns == 1) return false;
    return (new_form->a_row == 1 || new_form->a_depth == 1) &&
           (new_form->b_depth == 1 || new_form->b_column == 1);
  }

  [[nodiscard]] std::optional<Matmul> product_of(const Primitive& line) const {
    const auto compiled = kernels::compile(line, types_);
    if (!compiled.ok()) return std::nullopt;
    const auto accesses = linear_accesses(*compiled);
    return accesses ? recognise_matmul({}, *compiled, *accesses) : std::nullopt;
  }

  program::Program program_;
  kernels::ByValue<kernels::ValueType> types_;
  kernels::ByValue<std::vector<ValueIndex>> readers_;
  std::vector<ValueIndex> becomes_state_;
};

}  // namespace

std::shared_ptr<const program::Program> read_through_copies(
    const std::shared_ptr<const program::Program>& program) {
  return std::make_shared<const program::Program>(ReadThrough(*program).run());
}

}  // namespace dgx::exec
