#include "in_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "dgx/kernels/dot_state.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/scalar.h"
#include "dgx/program/experts.h"
#include "dgx/program/line.h"

namespace dgx::test {

using kernels::ByValue;
using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;
using program::Piece;
using program::PieceLine;
using program::Program;
using program::SampleClass;

namespace {

/// A program whose lines are computed one after another.
class Lines {
 public:
  explicit Lines(const Program& program) : program_(program) {}

  [[nodiscard]] ValueIndex next() const { return values_.next(); }
  [[nodiscard]] bool done() const { return values_.size() == program_.values.size(); }
  [[nodiscard]] const Primitive& line() const { return program_.values[next()]; }
  [[nodiscard]] const Tensor& last() const { return values_.back(); }
  [[nodiscard]] const ByValue<Tensor>& values() const { return values_; }

  void give(const Tensor& value) {
    types_.push_back({value.dtype(), value.shape()});
    views_.push_back({});
    values_.push_back(value);
    views_.back() = values_.back().view();
  }
  Status compute() {
    DGX_TRY(const auto compiled, kernels::compile(line(), types_));
    Tensor value(line().dtype, line().shape);
    DGX_CHECK(kernels::evaluate_all(compiled, views_, value, 0, value.count()));
    give(value);
    return {};
  }
  /// Goes on with a dot of which a part's positions are the next; the line's own value stays zero.
  Status resume(std::vector<kernels::DotState>& states) {
    DGX_TRY(const auto compiled, kernels::compile(line(), types_));
    states.resize(static_cast<std::size_t>(compiled.count));
    DGX_CHECK(kernels::resume_dots(compiled, views_, states, 0, compiled.count));
    for (kernels::DotState& state : states) {  // only the words that exist go on
      const kernels::DotWords words = kernels::dot_words_at(state.position);
      if (!words.block) state.block = 0;
      if (!words.group) state.group = 0;
      if (!words.total) state.total = 0;
    }
    give(Tensor(line().dtype, line().shape));
    return {};
  }

 private:
  const Program& program_;
  ByValue<Tensor> values_;
  ByValue<TensorView> views_;
  ByValue<kernels::ValueType> types_;
};

Tensor slices_of(const Tensor& whole, std::int64_t begin, std::int64_t end, std::int64_t slices) {
  Shape shape = whole.shape();
  shape[0] = shape[0] / slices * (end - begin);
  const std::size_t size = whole.bytes().size() / static_cast<std::size_t>(slices);
  return Tensor(TensorView{whole.dtype(), shape,
                           whole.bytes().subspan(static_cast<std::size_t>(begin) * size,
                                                 static_cast<std::size_t>(end - begin) * size)});
}

/// A step while its parts are computed, line by line.
struct CutStep {
  const Program& program;
  const program::Classes& classes;
  std::vector<std::int64_t> bounds;
  const ByValue<Tensor>& inputs;
  std::vector<Piece> pieces = {};
  std::vector<Lines> parts = {};
  ByValue<Tensor> whole = {};
  std::map<ValueIndex, std::vector<kernels::DotState>> dots = {};
  std::map<ValueIndex, Tensor> chains = {};
  std::map<ValueIndex, int> made_by = {};  // how many parts

  [[nodiscard]] bool at(std::size_t q, ValueIndex v, PieceLine::As as) const {
    return !parts[q].done() && pieces[q].origins[parts[q].next()] == PieceLine{v, as};
  }

  Status make(std::size_t q, ValueIndex v) {
    Lines& part = parts[q];
    if (at(q, v, PieceLine::As::kCarry)) {
      const Primitive& carry = part.line();
      part.give(chains.contains(v) ? chains.at(v) : Tensor(carry.dtype, carry.shape));
    }
    if (!at(q, v, PieceLine::As::kMade)) return {};
    ++made_by[v];
    const bool sharded = classes.of[v] == SampleClass::kSharded;
    if (part.line().kind == Kind::kInput) {
      part.give(sharded ? slices_of(inputs[v], bounds[q], bounds[q + 1], classes.slices) : inputs[v]);
      return {};
    }
    if (classes.of[v] != SampleClass::kCarried) return part.compute();
    if (part.line().kind == Kind::kDot) return part.resume(dots[v]);
    DGX_CHECK(part.compute());
    chains[v] = part.last();
    return {};
  }

  /// The value from what all parts have made of it.
  Result<Tensor> assembled(ValueIndex v) {
    const Primitive& line = program.values[v];
    if (line.kind == Kind::kInput) return inputs[v];
    if (const int home = classes.home_of(v); home != program::Classes::kEveryRank) {
      if (made_by[v] != 1) return internal_error(fmt::format("value {} is made {} times", v, made_by[v]));
      return parts[static_cast<std::size_t>(home)].last();
    }
    if (classes.of[v] == SampleClass::kCarried && line.kind == Kind::kChain) return chains.at(v);
    Tensor value(line.dtype, line.shape);
    if (classes.of[v] == SampleClass::kCarried) {
      std::ranges::transform(dots.at(v), value.as<float>().begin(), [](const kernels::DotState& state) {
        return kernels::canonical_nan(state.end());
      });
      return value;
    }
    std::size_t at = 0;
    for (const Lines& part : parts) {
      const ByteView made = part.last().bytes();
      if (classes.of[v] == SampleClass::kWhole) at = 0;
      if (at + made.size() > value.bytes().size()) return internal_error("parts make too many elements");
      if (classes.of[v] == SampleClass::kWhole && &part != parts.data() &&
          !std::ranges::equal(made, value.bytes()))
        return internal_error(fmt::format("parts make different numbers of value {}", v));
      std::ranges::copy(made, value.bytes().begin() + static_cast<std::ptrdiff_t>(at));
      at += made.size();
    }
    if (at != value.bytes().size()) return internal_error(fmt::format("parts leave out some of value {}", v));
    return value;
  }

  Status run_body() {
    for (std::size_t q = 0; q + 1 < bounds.size(); ++q) {
      DGX_TRY(Piece piece, local_program(program, classes, {bounds[q], bounds[q + 1]}, static_cast<int>(q)));
      pieces.push_back(std::move(piece));
    }
    for (const Piece& piece : pieces) parts.emplace_back(piece.program);
    for (const ValueIndex v : program.values.indices()) {
      for (std::size_t q = 0; q < parts.size(); ++q) DGX_CHECK(make(q, v));
      if (!classes.body[v] || program.values[v].kind == Kind::kInput) {
        whole.push_back(inputs[v]);
      } else {
        DGX_TRY(Tensor value, assembled(v));
        whole.push_back(std::move(value));
      }
      for (std::size_t q = 0; q < parts.size(); ++q) {
        if (at(q, v, PieceLine::As::kWhole)) parts[q].give(whole[v]);
        if (at(q, v, PieceLine::As::kSlices))
          parts[q].give(slices_of(whole[v], bounds[q], bounds[q + 1], classes.slices));
      }
    }
    const bool all = std::ranges::all_of(parts, &Lines::done);
    return all ? Status() : internal_error("a part has lines that nothing made");
  }

  Status run_tails() {
    const std::size_t tails = classes.home.empty() ? 1 : parts.size();
    for (std::size_t q = 0; q < tails; ++q) DGX_CHECK(run_tail(static_cast<int>(q)));
    return {};
  }

  Status run_tail(int rank) {
    DGX_TRY(const Piece piece, tail_program(program, classes, rank));
    const auto given = given_by_homes(program, classes, {});
    Lines lines(piece.program);
    while (!lines.done()) {
      const PieceLine origin = piece.origins[lines.next()];
      if (lines.line().kind == Kind::kInput) {
        const bool is_there =
            classes.is_on(origin.value, rank) || std::ranges::binary_search(given, origin.value);
        if (!is_there) return internal_error(fmt::format("nobody gives value {}", origin.value));
        lines.give(whole[origin.value]);
        continue;
      }
      DGX_CHECK(lines.compute());
      whole[origin.value] = lines.last();
    }
    return {};
  }
};

}  // namespace

ByValue<Tensor> invented_inputs(const Program& program, std::uint64_t seed) {
  ByValue<Tensor> inputs;
  std::uint64_t state = seed;
  const auto draw = [&] {
    std::uint64_t z = state += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  };
  for (const Primitive& line : program.values) {
    if (line.kind != Kind::kInput) {
      inputs.push_back({});
      continue;
    }
    Tensor value(line.dtype, line.shape);
    const std::string& name = line.source.name;
    const bool constant = line.source.kind == Source::Kind::kConstant;
    const bool positive = line.source.kind == Source::Kind::kUniform || name.find("var") != name.npos ||
                          name.find("sq") != name.npos || name.find("sum") != name.npos;
    for (std::int64_t e = 0; e < value.count(); ++e) {
      const auto n = static_cast<std::size_t>(e);
      const auto number =
          constant ? program::parse_literal(line.source.of[n]) : Result<kernels::Literal>(std::int64_t{0});
      const std::uint64_t bits = draw();
      const float unit = static_cast<float>(bits >> 40) * 0x1p-24F;
      if (line.dtype == DType::kF32)
        value.as<float>()[n] = constant ? std::get<float>(*number) : positive ? unit : (unit - 0.5F) * 0.5F;
      if (line.dtype == DType::kF32) continue;
      const std::int64_t integer =
          constant ? std::get<std::int64_t>(*number)
                   : static_cast<std::int64_t>(bits % (line.dtype == DType::kU8 ? 256 : 8));
      if (line.dtype == DType::kI64) value.as<std::int64_t>()[n] = integer;
      if (line.dtype == DType::kU8) value.bytes()[n] = static_cast<std::uint8_t>(integer);
    }
    inputs.push_back(std::move(value));
  }
  return inputs;
}

Result<ByValue<Tensor>> evaluate_whole(const Program& program, const ByValue<Tensor>& inputs) {
  Lines lines(program);
  while (!lines.done()) {
    if (lines.line().kind == Kind::kInput) {
      lines.give(inputs[lines.next()]);
    } else {
      DGX_CHECK(lines.compute());
    }
  }
  return lines.values();
}

Result<ByValue<Tensor>> evaluate_in_parts(const Program& program, const program::Classes& classes,
                                          const std::vector<std::int64_t>& bounds,
                                          const ByValue<Tensor>& inputs) {
  CutStep step{program, classes, bounds, inputs};
  DGX_CHECK(step.run_body());
  DGX_CHECK(step.run_tails());
  return std::move(step.whole);
}

ValueIndex first_difference(const ByValue<Tensor>& a, const ByValue<Tensor>& b) {
  for (const ValueIndex v : a.indices()) {
    if (!b.contains(v) || !std::ranges::equal(a[v].bytes(), b[v].bytes())) return v;
  }
  return kernels::kNoValue;
}

}  // namespace dgx::test
