#include "device/device_rows.h"

#include <algorithm>
#include <set>

#include "plan/linear.h"
#include "plan/operation_graph.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kMostColumns = 1024;  // 32 numbers of a value in the registers of each of 32 threads
constexpr std::int64_t kMostRows = 0x7fffffff;  // row numbers have 32 bits
constexpr std::size_t kMostMembers = 64;
constexpr std::size_t kMostAccesses = 1000;  // a kernel takes some 4,000 addresses

std::int64_t product_of(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

/// The values that an operation makes, in registers or in memory; none if it may not become part of Rows.
std::vector<ValueIndex> members_of(const Operation& operation) {
  const bool may_join = on_device<Maps>(operation) != nullptr || on_device<Generic>(operation) != nullptr ||
                        on_device<TeamFold>(operation) != nullptr;
  return may_join ? values_of(operation) : std::vector<ValueIndex>{};
}

/// Replaces each longest run of neighbouring operations over the same rows by one Rows.
class Joiner {
 public:
  explicit Joiner(OperationGraph& graph) : graph_(graph), plan_(graph.plan) {}

  void join() {
    std::vector<Operation> operations;
    for (std::size_t o = 0; o < plan_.operations.size();) {
      const std::size_t end = end_of_run(o);
      if (end - o < 2) {
        operations.push_back(std::move(plan_.operations[o++]));
        continue;
      }
      operations.push_back(joined(o, end));
      o = end;
    }
    plan_.operations = std::move(operations);
    number_operations(graph_);
  }

 private:
  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const { return plan_.compiled[v]; }

  [[nodiscard]] bool is_fold(ValueIndex v) const {
    const CompiledPrimitive& primitive = compiled(v);
    return (primitive.kind == Kind::kSum || primitive.kind == Kind::kMax) && primitive.dtype == DType::kF32;
  }

  /// The end of the longest run that begins with operation o. Its rows are those of its first fold, which
  /// must be one of its first three.
  std::size_t end_of_run(std::size_t o) {
    for (std::size_t first = o; first < plan_.operations.size() && first < o + 3; ++first) {
      const std::vector<ValueIndex> members = members_of(plan_.operations[first]);
      if (members.empty()) return o + 1;
      if (!is_fold(members.front())) continue;
      const CompiledPrimitive& fold = compiled(members.front());
      if (fold.count < 1 || fold.count > kMostRows || fold.fold_count < 2 || fold.fold_count > kMostColumns)
        return o + 1;
      rows_ = fold.count;
      columns_ = fold.fold_count;
      run_.clear();
      accesses_ = 0;
      std::size_t end = o;
      while (end < plan_.operations.size() && takes(plan_.operations[end])) ++end;
      return end > first ? end : o + 1;
    }
    return o + 1;
  }

  /// Adds an operation to the run, if all its values fit.
  bool takes(const Operation& operation) {
    const std::vector<ValueIndex> members = members_of(operation);
    if (members.empty() || run_.size() + members.size() > kMostMembers) return false;
    std::set<ValueIndex> with = run_;
    std::size_t accesses = accesses_;
    for (const ValueIndex v : members) {
      if (!fits(v, with)) return false;
      with.insert(v);
      accesses += compiled(v).accesses.size();
    }
    if (accesses > kMostAccesses) return false;
    run_ = std::move(with);
    accesses_ = accesses;
    return true;
  }

  /// True if v is a map, or an f32 sum or maximum, over the run's rows, and reads what the run makes only in
  /// its own row.
  bool fits(ValueIndex v, const std::set<ValueIndex>& run) const {
    const CompiledPrimitive& primitive = compiled(v);
    if (primitive.kind != Kind::kMap && !is_fold(v)) return false;
    const auto rows = row_dimensions(primitive, rows_, columns_);
    if (!rows) return false;
    const auto strips = strip_accesses(primitive);
    if (!strips) return false;
    return std::all_of(strips->begin(), strips->end(), [&](const StripAccess& access) {
      return !run.contains(access.plain.value) ||
             (access.guarded.empty() && reads_own_row(primitive, *rows, access.plain));
    });
  }

  /// True if a value made in the run is read in the reader's own row: at its own column, or the one number
  /// that the row has.
  bool reads_own_row(const CompiledPrimitive& primitive, std::size_t rows, const LinearAccess& access) const {
    Shape extents = primitive.iteration;
    extents.insert(extents.end(), primitive.fold.begin(), primitive.fold.end());
    std::vector<std::int64_t> strides = access.iteration;
    strides.insert(strides.end(), access.fold.begin(), access.fold.end());
    const bool is_row = compiled(access.value).count == rows_ && columns_ > 1;
    const bool is_of_row = primitive.kind == Kind::kMap && rows == extents.size() && columns_ > 1;
    if (is_of_row && !is_row) return false;  // another thread has that column
    std::int64_t expected = 1;
    for (std::size_t d = extents.size(); d-- > 0;) {
      const bool moves = d < rows || !is_row;
      if (extents[d] > 1 && strides[d] != (moves ? expected : 0)) return false;
      if (moves) expected *= extents[d];
    }
    return access.base == 0;
  }

  /// Operations [begin, end) as one. It writes only what a later operation reads or what the plan must keep.
  Operation joined(std::size_t begin, std::size_t end) {
    Operation out;
    Rows rows{{}, rows_, columns_};
    std::set<ValueIndex> made, read_later;
    for (std::size_t o = begin; o < end; ++o) {
      for (const ValueIndex v : members_of(plan_.operations[o])) rows.members.push_back(v);
      out.cost += plan_.operations[o].cost;
    }
    made.insert(rows.members.begin(), rows.members.end());
    for (std::size_t o = end; o < plan_.operations.size(); ++o)
      read_later.insert(plan_.operations[o].reads.begin(), plan_.operations[o].reads.end());
    for (std::size_t o = begin; o < end; ++o) {
      for (const ValueIndex v : plan_.operations[o].reads) {
        if (!made.contains(v)) out.reads.push_back(v);
      }
      for (const ValueIndex v : plan_.operations[o].writes) {
        if (read_later.contains(v) || graph_.wanted[v]) out.writes.push_back(v);
      }
    }
    out.work = DeviceOperation{std::move(rows)};
    return out;
  }

  OperationGraph& graph_;
  Plan& plan_;
  std::set<ValueIndex> run_;  // values that the run makes
  std::size_t accesses_ = 0;  // of all values in run_
  std::int64_t rows_ = 0, columns_ = 0;
};

}  // namespace

std::optional<std::size_t> row_dimensions(const CompiledPrimitive& primitive, std::int64_t rows,
                                          std::int64_t columns) {
  if (primitive.kind != Kind::kMap) {
    if (primitive.count != rows || primitive.fold_count != columns) return std::nullopt;
    return primitive.iteration.size();
  }
  const Shape& shape = primitive.iteration;
  if (primitive.count == rows && columns > 1) return shape.size();
  if (primitive.count != rows * columns) return std::nullopt;
  for (std::size_t d = 0; d <= shape.size(); ++d) {
    if (product_of(shape, d, shape.size()) == columns) return d;
  }
  return std::nullopt;
}

void join_rows(OperationGraph& graph) { Joiner(graph).join(); }

}  // namespace dgx::exec
