#include "dgx/lowering/workers.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "dgx/program/classes.h"
#include "worker_folds.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;
using program::Program;

namespace {

/// A program while its lines are divided.
class Division {
 public:
  explicit Division(std::int64_t workers) : workers_(workers) {}

  /// Appends the line, and before it, if it is `cut`, the folds of the workers, of which it becomes the sum.
  void append(Primitive line, bool is_cut) {
    if (line.kind != Kind::kInput && !one_) one_ = push(constant_one());
    for (Access& access : line.accesses) access.value = number_[access.value];
    if (auto folds = is_cut ? folds_of_workers(line, workers_) : std::nullopt)
      line = sum_of(line, push(*std::move(folds)));
    if (line == constant_one()) one_ = out_.values.next();
    number_.push_back(push(std::move(line)));
  }

  Program finish() {
    for (Primitive& line : out_.values) {
      if (line.next) line.next = number_[*line.next];
    }
    return std::move(out_);
  }

 private:
  ValueIndex push(Primitive line) {
    out_.values.push_back(std::move(line));
    return out_.values.last();
  }

  [[nodiscard]] Primitive sum_of(const Primitive& line, ValueIndex folds) const {
    Primitive sum = sum_of_rows(*one_, folds, workers_, line.shape);
    sum.provenance = line.provenance;
    return sum;
  }

  std::int64_t workers_;
  Program out_;
  kernels::ByValue<ValueIndex> number_;  // of the program's lines
  std::optional<ValueIndex> one_;
};

}  // namespace

Result<Program> divide_among_workers(const Program& program, std::int64_t workers) {
  DGX_TRY(const std::int64_t samples, program::batch_samples(program));
  if (workers < 1 || samples % workers != 0)
    return usage_error(fmt::format("{} workers do not divide a batch of {}", workers, samples));
  DGX_TRY(const program::Classes classes, program::classify(program, samples));
  Division division(workers);
  for (const ValueIndex v : program.values.indices())
    division.append(program.values[v], classes.of[v] == program::SampleClass::kCarried);
  return division.finish();
}

}  // namespace dgx::lowering
