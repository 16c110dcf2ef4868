#include "slices.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLeastSlices = 8;  // per thread: with fewer, threads would wait for the last
// Cycles of all tasks below which slices cost more than they save.
constexpr double kLeastCost = 200000;
// Largest operand that is only read: no cache holds a larger one.
constexpr std::int64_t kMostSliceBytes = std::int64_t{4} << 20U;
// Bytes of a slice that one task uses: they should fit the L2 cache.
constexpr std::int64_t kNearBytes = std::int64_t{1} << 20U;
// Size of the chunks that small slices are grouped into.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 19U;

class Slicer {
 public:
  explicit Slicer(const SliceQuestion& question) : q_(question) {
    for (const auto& value : q_.program.values) {
      if (value.next) becomes_state_.insert(*value.next);
    }
  }

  std::vector<SlicedTasks> cut() {
    std::vector<SlicedTasks> out;
    for (std::size_t t = 0; t < q_.plan.tasks.size();) {
      auto best = best_from(t);
      t = best ? best->end : t + 1;
      if (best) out.push_back(std::move(*best));
    }
    return out;
  }

 private:
  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const {
    return q_.plan.compiled[static_cast<std::size_t>(v)];
  }
  [[nodiscard]] std::int64_t bytes(ValueIndex v) const {
    return bytes_of(q_.program.values[static_cast<std::size_t>(v)]);
  }

  /// Finds the number of slices that keeps most bytes in caches, preferring those whose slices fit the
  /// second-level cache; of equals the one with the smallest slices, since these are grouped into chunks.
  std::optional<SlicedTasks> best_from(std::size_t begin) {
    std::optional<SlicedTasks> best;
    std::pair<bool, std::int64_t> most{false, 1};
    std::int64_t slices = 1;
    for (const std::int64_t extent : compiled(q_.members[begin].front()).iteration) {
      slices *= extent;
      if (extent == 1 || slices < kLeastSlices * q_.threads) continue;
      SlicedTasks run{begin, begin, slices, 1, {}};
      while (run.end < q_.plan.tasks.size() && fits(run, run.end)) ++run.end;
      if (run.end < run.begin + 2) continue;
      find_inside(run);
      const std::pair<bool, std::int64_t> saved{bytes_at_hand(run) <= kNearBytes, bytes_near(run)};
      if (saved >= most && is_worth_it(run)) {
        most = saved;
        best = std::move(run);
      }
    }
    return best;
  }

  /// Bytes that stay in caches: what the tasks read of each other, and what need not be written to memory at
  /// all.
  [[nodiscard]] std::int64_t bytes_near(const SlicedTasks& run) const {
    std::set<ValueIndex> made;
    std::int64_t sum = 0;
    for (std::size_t t = run.begin; t < run.end; ++t) {
      const std::set<ValueIndex> reads(q_.plan.tasks[t].reads.begin(), q_.plan.tasks[t].reads.end());
      for (const ValueIndex v : reads) sum += made.contains(v) ? bytes(v) : 0;
      made.insert(q_.plan.tasks[t].writes.begin(), q_.plan.tasks[t].writes.end());
    }
    for (const ValueIndex v : run.inside) sum += bytes(v);
    return sum;
  }

  /// Bytes of one slice that a task writes or reads from the run's tasks; of the task that has most.
  [[nodiscard]] std::int64_t bytes_at_hand(const SlicedTasks& run) const {
    std::set<ValueIndex> made;
    std::int64_t most = 0;
    for (std::size_t t = run.begin; t < run.end; ++t) {
      const Task& task = q_.plan.tasks[t];
      std::set<ValueIndex> touched(task.writes.begin(), task.writes.end());
      made.insert(touched.begin(), touched.end());
      for (const ValueIndex v : task.reads) {
        if (made.contains(v)) touched.insert(v);
      }
      std::int64_t sum = 0;
      for (const ValueIndex v : touched) sum += bytes(v);
      most = std::max(most, sum / run.slices);
    }
    return most;
  }

  [[nodiscard]] bool is_worth_it(SlicedTasks& run) const {
    double cost = 0;
    std::int64_t inside = 0;
    std::int64_t made = 0;
    for (std::size_t t = run.begin; t < run.end; ++t) {
      cost += q_.plan.tasks[t].cost;
      for (const ValueIndex v : q_.plan.tasks[t].writes) made += bytes(v);
    }
    for (const ValueIndex v : run.inside) inside += bytes(v);
    run.chunk = std::clamp(kChunkBytes * run.slices / std::max<std::int64_t>(made, 1), std::int64_t{1},
                           run.slices / (kLeastSlices * q_.threads));
    return cost >= kLeastCost && inside / run.slices <= kMostSliceBytes;
  }

  /// Finds the values that no other task reads: they live as long as their slice.
  void find_inside(SlicedTasks& run) const {
    std::set<ValueIndex> made;
    for (std::size_t t = run.begin; t < run.end; ++t)
      made.insert(q_.plan.tasks[t].writes.begin(), q_.plan.tasks[t].writes.end());
    for (std::size_t t = 0; t < q_.plan.tasks.size(); ++t) {
      if (t >= run.begin && t < run.end) continue;
      for (const ValueIndex v : q_.plan.tasks[t].reads) made.erase(v);
    }
    for (const ValueIndex v : q_.keep) made.erase(v);
    run.inside.assign(made.begin(), made.end());
  }

  bool fits(const SlicedTasks& run, std::size_t t) const {
    const Task& task = q_.plan.tasks[t];
    if (!runs_by_slices(task, t, run.slices)) return false;
    return std::all_of(q_.members[t].begin(), q_.members[t].end(),
                       [&](ValueIndex v) { return reads_own_slice(run, t, v); });
  }

  /// True if a slice of the task's outputs can be computed alone, and none of them becomes state: an update
  /// in place may not run ahead.
  bool runs_by_slices(const Task& task, std::size_t t, std::int64_t slices) const {
    for (const ValueIndex v : q_.members[t]) {
      if (!prefix(compiled(v).iteration, slices) || becomes_state_.contains(v)) return false;
      if (q_.plan.layouts[static_cast<std::size_t>(v)] != Layout::kRows) return false;
    }
    const std::int64_t size = compiled(q_.members[t].front()).count / slices;
    if (const auto* map = std::get_if<MapTask>(&task.work)) {
      const std::int64_t inner = map->program.nest.inner_extent();
      return !map->strips && (size % inner == 0 || map->program.nest.rows() == 1);
    }
    if (const auto* fold = std::get_if<FoldTask>(&task.work)) return fold->along == FoldTask::Along::kFold;
    const auto* product = std::get_if<MatmulTask>(&task.work);
    return product != nullptr && lies_batch_after_batch(*product, slices);
  }

  static bool lies_batch_after_batch(const MatmulTask& product, std::int64_t slices) {
    const std::int64_t inner = product.batch.inner_extent();
    const std::int64_t batches = product.batch.rows() * inner;
    if (batches % slices != 0 || product.out_row != product.shape.columns || product.b_packed ||
        product.out_packed)
      return false;
    for (std::int64_t b = 0; b < batches; ++b) {
      const std::int64_t at =
          product.batch.row_offset(2, b / inner) + b % inner * product.batch.strides[2].back();
      if (at != b * product.shape.rows * product.shape.columns) return false;
    }
    return true;
  }

  /// The number of leading dimensions whose product is `slices`.
  static std::optional<std::size_t> prefix(const Shape& shape, std::int64_t slices) {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      product *= shape[d];
      if (product == slices) return d + 1;
    }
    return std::nullopt;
  }

  bool is_made_by(const SlicedTasks& run, std::size_t last, ValueIndex v) const {
    for (std::size_t t = run.begin; t <= last; ++t) {
      if (std::find(q_.members[t].begin(), q_.members[t].end(), v) != q_.members[t].end()) return true;
    }
    return false;
  }

  /// True if all that value v, made by task t, reads of the run's values lies in v's own slice.
  bool reads_own_slice(const SlicedTasks& run, std::size_t t, ValueIndex v) const {
    const auto& accesses = q_.accesses[static_cast<std::size_t>(v)];
    if (!accesses) return false;
    return std::all_of(accesses->begin(), accesses->end(), [&](const StripAccess& access) {
      if (!is_made_by(run, t, access.plain.value)) return true;
      return access.guarded.empty() && stays_in_slice(access.plain, compiled(v), run.slices);
    });
  }

  bool stays_in_slice(const LinearAccess& access, const CompiledPrimitive& reader,
                      std::int64_t slices) const {
    const std::int64_t size = compiled(access.value).count / slices;
    const std::size_t leading = *prefix(reader.iteration, slices);
    std::int64_t stride = size;
    for (std::size_t d = leading; d-- > 0; stride *= reader.iteration[d]) {
      if (reader.iteration[d] > 1 && access.iteration[d] != stride) return false;
    }
    std::int64_t least = access.base;
    std::int64_t most = access.base;
    const auto widen = [&](std::int64_t step, std::int64_t extent) {
      (step < 0 ? least : most) += step * (extent - 1);
    };
    for (std::size_t d = leading; d < reader.iteration.size(); ++d)
      widen(access.iteration[d], reader.iteration[d]);
    for (std::size_t d = 0; d < reader.fold.size(); ++d) widen(access.fold[d], reader.fold[d]);
    return least >= 0 && most < size;
  }

  const SliceQuestion& q_;
  std::set<ValueIndex> becomes_state_;
};

}  // namespace

std::vector<SlicedTasks> cut_slices(const SliceQuestion& question) { return Slicer(question).cut(); }

}  // namespace dgx::exec
