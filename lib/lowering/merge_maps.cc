#include "merge_maps.h"

#include <algorithm>

#include "builder.h"
#include "dgx/program/leaves.h"
#include "dgx/program/line.h"
#include "line_writer.h"
#include "tensor_form.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::ValueIndex;
using program::Program;

namespace {

bool reads_by_access(const Primitive& line) {
  for (const Access& access : line.accesses) {
    for (const auto& coordinate : access.coordinates) {
      for (const auto& term : coordinate.terms) {
        if (term.symbol == kernels::Term::Symbol::kAccess) return true;
      }
    }
  }
  return false;
}

/// True if `access` is the whole of a value of `shape`, at the reader's own index.
bool is_own_element(const Access& access, const Shape& shape) {
  if (access.view || access.fill || access.coordinates.size() != shape.size()) return false;
  for (std::size_t n = 0; n < shape.size(); ++n) {
    const bool single = shape[n] == 1 && access.coordinates[n] == constant_index(0);
    if (!single && access.coordinates[n] != output_index(n)) return false;
  }
  return true;
}

std::int32_t add_access(Primitive& line, const Access& access) {
  const auto known = std::find(line.accesses.begin(), line.accesses.end(), access);
  const auto n = static_cast<std::int32_t>(known - line.accesses.begin());
  if (known == line.accesses.end()) line.accesses.push_back(access);
  return n;
}

/// `consumer` with access n replaced by the expression of `producer`.
Primitive inlined(const Primitive& consumer, std::size_t n, const Primitive& producer) {
  Primitive result = consumer;
  const auto moved = [&](Operand operand, std::int32_t first_step) {
    if (operand.kind == Operand::Kind::kAccess)
      operand.index = add_access(result, producer.accesses[static_cast<std::size_t>(operand.index)]);
    if (operand.kind == Operand::Kind::kStep) operand.index += first_step;
    return operand;
  };
  std::vector<Step> steps;
  for (Step step : producer.steps) {
    for (Operand& operand : step.operands) operand = moved(operand, 0);
    steps.push_back(step);
  }
  const auto offset = static_cast<std::int32_t>(steps.size());
  for (Step step : consumer.steps) {
    for (Operand& operand : step.operands) {
      if (operand.kind == Operand::Kind::kStep) operand.index += offset;
      if (operand == Operand::access(static_cast<int>(n))) operand = Operand::step(offset - 1);
    }
    steps.push_back(step);
  }
  result.steps = std::move(steps);
  arrange(result);
  return result;
}

class Merger {
 public:
  Merger(const Program& program, std::size_t outputs, bool (*stays)(const Primitive&))
      : values_(program.values), outputs_(outputs), stays_(stays), readers_(values_.size(), 0) {
    for (const Primitive& line : values_) {
      for (const Access& access : line.accesses) ++readers_[access.value];
      if (line.next) readers_[*line.next] += 2;  // must stay
    }
    for (const ValueIndex v : values_.indices(ValueIndex(values_.size() - outputs))) readers_[v] += 2;
  }

  Program run() {
    for (Primitive& line : values_) {
      while (merge_one(line)) {
      }
    }
    Builder builder;
    kernels::ByValue<ValueIndex> number;
    for (const Primitive& line : values_) number.push_back(append(builder, line, number));
    for (const ValueIndex v : values_.indices()) {
      if (values_[v].next) builder.set_next(number[v], number[*values_[v].next]);
    }
    return builder.finish(
        std::vector<ValueIndex>(number.end() - static_cast<std::ptrdiff_t>(outputs_), number.end()));
  }

 private:
  static ValueIndex append(Builder& builder, Primitive line, const kernels::ByValue<ValueIndex>& number) {
    for (Access& access : line.accesses) access.value = number[access.value];
    line.next.reset();
    return builder.append(std::move(line));
  }

  bool merge_one(Primitive& line) {
    if (line.kind != Kind::kMap || line.iteration || line.steps.empty() || reads_by_access(line))
      return false;
    for (std::size_t n = 0; n < line.accesses.size(); ++n) {
      const ValueIndex value = line.accesses[n].value;
      const Primitive& producer = values_[value];
      const bool stays = stays_ != nullptr && stays_(producer);
      const bool fits = !stays && producer.kind == Kind::kMap && producer.dtype == DType::kF32 &&
                        readers_[value] == 1 && !producer.iteration && !producer.steps.empty() &&
                        !reads_by_access(producer) && producer.shape == line.shape &&
                        is_own_element(line.accesses[n], producer.shape);
      if (!fits) continue;
      Primitive merged = inlined(line, n, producer);
      if (!is_within_caps(merged)) continue;
      account(line, -1);
      account(producer, -1);
      account(merged, 1);
      line = std::move(merged);
      return true;
    }
    return false;
  }

  [[nodiscard]] bool is_within_caps(const Primitive& line) const {
    const auto byte_size = [&](ValueIndex value) {
      const Primitive& read = values_[value];
      auto count = element_count(read.shape);
      return (count ? *count : 0) * static_cast<std::int64_t>(size_of(read.dtype));
    };
    return line.steps.size() <= program::kMaxSteps && line.accesses.size() <= program::kMaxAccesses &&
           program::check_leaves(line, byte_size).ok() &&
           program::print_line(line, ValueIndex{65535}).size() <= program::kMaxLineBytes - 64;
  }

  void account(const Primitive& line, int change) {
    for (const Access& access : line.accesses) readers_[access.value] += change;
  }

  kernels::ByValue<Primitive> values_;
  std::size_t outputs_;
  bool (*stays_)(const Primitive&);
  kernels::ByValue<int> readers_;
};

}  // namespace

Program merge_maps(const Program& program, std::size_t outputs, bool (*stays)(const Primitive&)) {
  return Merger(program, outputs, stays).run();
}

}  // namespace dgx::lowering
