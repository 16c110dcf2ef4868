#include <fmt/format.h>

#include <charconv>

#include "dgx/program/line.h"
#include "line_text.h"

namespace dgx::program {

using kernels::Access;
using kernels::Coordinate;
using kernels::Term;

namespace {

/// Reads a string from left to right; errors name the byte.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[nodiscard]] bool done() const { return at_ == text_.size(); }
  [[nodiscard]] bool looking_at(char letter) const { return !done() && text_[at_] == letter; }
  [[nodiscard]] bool at_digit() const { return !done() && text_[at_] >= '0' && text_[at_] <= '9'; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Status expect(std::string_view token) {
    if (take(token)) return {};
    return fail(fmt::format("expected '{}'", token));
  }
  /// A natural number at most `high`.
  Result<std::int64_t> natural(std::int64_t high) {
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (!at_digit() || error != std::errc{} || value > high)
      return fail(fmt::format("expected a number up to {}", high));
    if (*begin == '0' && end - begin > 1) return fail("a number with a leading zero");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] Error fail(std::string_view what) const {
    return malformed(fmt::format("byte {}: {}", at_, what));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<Term::Symbol> take_symbol(Cursor& in) {
  if (in.take("i")) return Term::Symbol::kIndex;
  if (in.take("k")) return Term::Symbol::kFold;
  if (in.take("$")) return Term::Symbol::kAccess;
  return std::nullopt;
}

/// One signed summand: a term, or the constant.
Status parse_summand(Cursor& in, std::int64_t sign, Coordinate& out, bool& has_constant) {
  std::int64_t factor = 1;
  const bool has_factor = in.at_digit();
  if (has_factor) {
    DGX_TRY(factor, in.natural(kMaxInteger));
    if (!in.take("*")) {
      if (has_constant) return in.fail("a second constant");
      has_constant = true;
      out.constant = sign * factor;
      return {};
    }
  }
  const auto symbol = take_symbol(in);
  if (!symbol) return in.fail("expected i, k, $ or a number");
  DGX_TRY(const std::int64_t index, in.natural(255));
  out.terms.push_back({*symbol, static_cast<std::int32_t>(index), sign * factor});
  if (out.terms.size() > kMaxTerms) return in.fail("too many terms");
  return {};
}

Result<Coordinate> parse_coordinate(Cursor& in) {
  Coordinate out;
  const bool parenthesis = in.take("(");
  bool has_constant = false;
  std::int64_t sign = in.take("-") ? -1 : 1;
  while (true) {
    DGX_CHECK(parse_summand(in, sign, out, has_constant));
    if (in.take("+")) {
      sign = 1;
    } else if (in.take("-")) {
      sign = -1;
    } else {
      break;
    }
  }
  if (parenthesis) DGX_CHECK(in.expect(")"));
  if (in.take("//")) {
    out.division = Coordinate::Division::kFloor;
  } else if (in.take("/")) {
    out.division = Coordinate::Division::kExact;
  }
  if (out.division != Coordinate::Division::kNone) {
    DGX_TRY(out.divisor, in.natural(kMaxInteger));
  }
  return out;
}

Result<Shape> parse_view(Cursor& in) {
  Shape view;
  do {
    DGX_TRY(const std::int64_t dimension, in.natural(kMaxInteger));
    view.push_back(dimension);
    if (view.size() > kMaxRank) return in.fail("more than 8 dimensions");
  } while (in.take("."));
  return view;
}

std::string print_term(const Term& term, bool first) {
  static constexpr char kSymbols[] = {'i', 'k', '$'};
  const std::int64_t size = term.coefficient < 0 ? -term.coefficient : term.coefficient;
  const std::string_view sign = term.coefficient < 0 ? "-" : first ? "" : "+";
  const std::string factor = size == 1 ? "" : fmt::format("{}*", size);
  return fmt::format("{}{}{}{}", sign, factor, kSymbols[static_cast<int>(term.symbol)], term.index);
}

/// A positive constant goes in front of a first term that is negative (`4-i1`), otherwise last.
std::string print_sum(const Coordinate& coordinate) {
  if (coordinate.terms.empty()) return fmt::format("{}", coordinate.constant);
  const bool leading = coordinate.terms[0].coefficient < 0 && coordinate.constant > 0;
  std::string text = leading ? fmt::format("{}", coordinate.constant) : "";
  for (const Term& term : coordinate.terms) text += print_term(term, text.empty());
  if (!leading && coordinate.constant != 0) text += fmt::format("{:+}", coordinate.constant);
  return text;
}

std::string print_coordinate(const Coordinate& coordinate) {
  const std::string sum = print_sum(coordinate);
  if (coordinate.division == Coordinate::Division::kNone) return sum;
  const bool bare =
      coordinate.terms.size() == 1 && coordinate.constant == 0 && coordinate.terms[0].coefficient == 1;
  return fmt::format("{}{}{}", bare ? sum : "(" + sum + ")",
                     coordinate.division == Coordinate::Division::kExact ? "/" : "//", coordinate.divisor);
}

/// Checks the part of the normal form that parsing leaves open: terms are in order, each once and not zero;
/// a division has terms, and a divisor of at least 2.
bool is_normal(const Coordinate& coordinate) {
  const Term* previous = nullptr;
  for (const Term& term : coordinate.terms) {
    if (term.coefficient == 0) return false;
    if (previous && std::pair(previous->symbol, previous->index) >= std::pair(term.symbol, term.index))
      return false;
    previous = &term;
  }
  const bool divides = coordinate.division != Coordinate::Division::kNone;
  return !divides || (coordinate.divisor >= 2 && !coordinate.terms.empty());
}

}  // namespace

Result<Access> parse_access(std::string_view text) {
  Cursor in(text);
  Access access;
  DGX_TRY(const std::int64_t value, in.natural(65535));
  access.value = kernels::ValueIndex(value);
  if (in.take("@")) {
    DGX_TRY(access.view, parse_view(in));
  }
  DGX_CHECK(in.expect("["));
  while (!in.take("]")) {
    if (!access.coordinates.empty()) DGX_CHECK(in.expect(","));
    DGX_TRY(Coordinate coordinate, parse_coordinate(in));
    if (!is_normal(coordinate))
      return in.fail(
          "a coordinate whose terms are out of order, repeated or zero, or whose divisor is below 2");
    access.coordinates.push_back(std::move(coordinate));
    if (access.coordinates.size() > kMaxRank) return in.fail("more than 8 coordinates");
  }
  if (in.take("?")) {
    auto fill = parse_literal(in.rest());
    if (!fill) return in.fail(fill.error().message);
    access.fill = *fill;
  } else if (!in.done()) {
    return in.fail("expected '?' or the end");
  }
  return access;
}

std::string print_access(const Access& access) {
  std::string text = fmt::format("{}", access.value);
  if (access.view) text += fmt::format("@{}", fmt::join(*access.view, "."));
  text += '[';
  for (std::size_t n = 0; n < access.coordinates.size(); ++n) {
    if (n > 0) text += ',';
    text += print_coordinate(access.coordinates[n]);
  }
  text += ']';
  if (access.fill) text += '?' + print_literal(*access.fill);
  return text;
}

}  // namespace dgx::program
