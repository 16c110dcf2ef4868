#include <algorithm>
#include <set>
#include <utility>

#include "plan/operation_graph.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLeastSlices = 8;  // per thread: with fewer, threads would wait for the last
// Cycles of all operations below which slices cost more than they save.
constexpr double kLeastCost = 200000;
// Most bytes of a slice's values that only the run reads: no cache would hold more.
constexpr std::int64_t kMostSliceBytes = std::int64_t{4} << 20U;
// Bytes of a slice that one operation uses: they should fit the L2 cache.
constexpr std::int64_t kNearBytes = std::int64_t{1} << 20U;
// Bytes written in a chunk, into which small slices are grouped.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 19U;

/// Finds the runs of operations to cut, from the first operation on: of the runs that begin with one
/// operation it takes the best, and continues after its end.
///
/// A number of slices is the product of some leading extents of the first operation's iteration: batch, batch
/// and heads, or down to rows. More slices are smaller and fit nearer caches, but fewer operations can be cut
/// so finely, since each must divide into as many slices and read only its own of all that the run makes. So
/// every number is tried with the longest run that it allows, and the one wins that keeps most bytes near.
///
/// The elements of a slice are then neighbours in memory, and a value that only the run reads needs room for
/// one chunk of slices per thread. Updates are never cut: one that is written in place would overwrite what
/// other slices have yet to read.
class Slicer {
 public:
  explicit Slicer(const OperationGraph& graph) : graph_(graph), plan_(graph.plan) {
    for (const Operation& operation : plan_.operations) values_.push_back(values_of(operation));
  }

  std::vector<SlicedOperations> cut() {
    std::vector<SlicedOperations> out;
    for (std::size_t o = 0; o < plan_.operations.size();) {
      auto best = best_from(o);
      o = best ? best->end : o + 1;
      if (best) out.push_back(std::move(*best));
    }
    return out;
  }

 private:
  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const { return plan_.compiled[v]; }
  [[nodiscard]] std::int64_t bytes(ValueIndex v) const { return bytes_of(graph_.at(v)); }

  /// Finds the number of slices that keeps most bytes in caches, preferring those whose slices fit the
  /// second-level cache; of equals the one with the smallest slices, since these are grouped into chunks.
  std::optional<SlicedOperations> best_from(std::size_t begin) {
    std::optional<SlicedOperations> best;
    std::pair<bool, std::int64_t> most{false, 1};
    std::int64_t slices = 1;
    for (const std::int64_t extent : compiled(values_[begin].front()).iteration) {
      slices *= extent;
      if (extent == 1 || slices < kLeastSlices * graph_.threads) continue;
      SlicedOperations run{begin, begin, slices, 1, {}};
      while (run.end < plan_.operations.size() && fits(run, run.end)) ++run.end;
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

  /// Bytes that stay in caches: what the operations read of each other, and what need not be written to
  /// memory at all.
  [[nodiscard]] std::int64_t bytes_near(const SlicedOperations& run) const {
    std::set<ValueIndex> made;
    std::int64_t sum = 0;
    for (std::size_t o = run.begin; o < run.end; ++o) {
      const std::set<ValueIndex> reads(plan_.operations[o].reads.begin(), plan_.operations[o].reads.end());
      for (const ValueIndex v : reads) sum += made.contains(v) ? bytes(v) : 0;
      made.insert(plan_.operations[o].writes.begin(), plan_.operations[o].writes.end());
    }
    for (const ValueIndex v : run.inside) sum += bytes(v);
    return sum;
  }

  /// Bytes of one slice that an operation writes, or reads of what the run made; those of the operation with
  /// most.
  [[nodiscard]] std::int64_t bytes_at_hand(const SlicedOperations& run) const {
    std::set<ValueIndex> made;
    std::int64_t most = 0;
    for (std::size_t o = run.begin; o < run.end; ++o) {
      const Operation& operation = plan_.operations[o];
      std::set<ValueIndex> touched(operation.writes.begin(), operation.writes.end());
      made.insert(touched.begin(), touched.end());
      for (const ValueIndex v : operation.reads) {
        if (made.contains(v)) touched.insert(v);
      }
      std::int64_t sum = 0;
      for (const ValueIndex v : touched) sum += bytes(v);
      most = std::max(most, sum / run.slices);
    }
    return most;
  }

  /// Sets the run's chunk. True if the run costs enough, and the values inside a slice fit a cache.
  [[nodiscard]] bool is_worth_it(SlicedOperations& run) const {
    double cost = 0;
    std::int64_t inside = 0;
    std::int64_t made = 0;
    for (std::size_t o = run.begin; o < run.end; ++o) {
      cost += plan_.operations[o].cost;
      for (const ValueIndex v : plan_.operations[o].writes) made += bytes(v);
    }
    for (const ValueIndex v : run.inside) inside += bytes(v);
    run.chunk = std::clamp(kChunkBytes * run.slices / std::max<std::int64_t>(made, 1), std::int64_t{1},
                           run.slices / (kLeastSlices * graph_.threads));
    return cost >= kLeastCost && inside / run.slices <= kMostSliceBytes;
  }

  /// Finds the values that no other operation reads: they live as long as their slice.
  void find_inside(SlicedOperations& run) const {
    std::set<ValueIndex> made;
    for (std::size_t o = run.begin; o < run.end; ++o)
      made.insert(plan_.operations[o].writes.begin(), plan_.operations[o].writes.end());
    for (std::size_t o = 0; o < plan_.operations.size(); ++o) {
      if (o >= run.begin && o < run.end) continue;
      for (const ValueIndex v : plan_.operations[o].reads) made.erase(v);
    }
    for (const ValueIndex v : graph_.keep) made.erase(v);
    run.inside.assign(made.begin(), made.end());
  }

  bool fits(const SlicedOperations& run, std::size_t o) const {
    const Operation& operation = plan_.operations[o];
    if (!runs_by_slices(operation, o, run.slices)) return false;
    return std::all_of(values_[o].begin(), values_[o].end(),
                       [&](ValueIndex v) { return reads_own_slice(run, o, v); });
  }

  /// True if a slice of the operation's outputs can be computed alone, and none of them becomes state: an
  /// update in place may not run ahead.
  bool runs_by_slices(const Operation& operation, std::size_t o, std::int64_t slices) const {
    for (const ValueIndex v : values_[o]) {
      if (!prefix(compiled(v).iteration, slices) || graph_.becomes_state[v]) return false;
      if (plan_.layouts[v] != Layout::kRows) return false;
    }
    const std::int64_t size = compiled(values_[o].front()).count / slices;
    if (const auto* maps = on_cpu<Maps>(operation)) {
      const std::int64_t inner = maps->program.nest.inner_extent();
      return !maps->panels && (size % inner == 0 || maps->program.nest.rows() == 1);
    }
    if (const auto* fold = on_cpu<Fold>(operation)) return fold->along == Fold::Along::kFold;
    const auto* product = on_cpu<Matmul>(operation);
    return product != nullptr && lies_batch_after_batch(*product, slices);
  }

  static bool lies_batch_after_batch(const Matmul& product, std::int64_t slices) {
    const std::int64_t batches = product.batch.count();
    if (batches % slices != 0 || product.out_row != product.shape.columns || product.b_packed ||
        product.out_packed)
      return false;
    for (std::int64_t b = 0; b < batches; ++b)
      if (product.batch.offset(2, b) != b * product.shape.rows * product.shape.columns) return false;
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

  bool is_made_by(const SlicedOperations& run, std::size_t last, ValueIndex v) const {
    for (std::size_t o = run.begin; o <= last; ++o) {
      if (std::find(values_[o].begin(), values_[o].end(), v) != values_[o].end()) return true;
    }
    return false;
  }

  /// True if all that value v, made by operation o, reads of the run's values is in v's own slice.
  bool reads_own_slice(const SlicedOperations& run, std::size_t o, ValueIndex v) const {
    const auto& accesses = graph_.strips[v];
    if (!accesses) return false;
    return std::all_of(accesses->begin(), accesses->end(), [&](const StripAccess& access) {
      if (!is_made_by(run, o, access.plain.value)) return true;
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

  const OperationGraph& graph_;
  const Plan& plan_;
  std::vector<std::vector<ValueIndex>> values_;  // by operation
};

}  // namespace

void cut_slices(OperationGraph& graph) { graph.plan.sliced = Slicer(graph).cut(); }

}  // namespace dgx::exec
