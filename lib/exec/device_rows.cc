#include "device_rows.h"

#include <algorithm>
#include <set>

#include "linear.h"

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

/// The values that a task makes, in registers or in memory; none if rows may not contain such a task.
std::vector<ValueIndex> members_of(const Task& task) {
  if (const auto* map = std::get_if<MapTask>(&task.work)) return map->members;
  if (const auto* generic = std::get_if<GenericTask>(&task.work)) return {generic->out};
  if (const auto* fold = std::get_if<TeamFoldTask>(&task.work)) return {fold->out};
  return {};
}

class Joiner {
 public:
  Joiner(const program::Program& program, const std::vector<ValueIndex>& keep, Plan& plan) : plan_(plan) {
    for (const kernels::Primitive& value : program.values) {
      if (value.next) wanted_.insert(*value.next);
    }
    wanted_.insert(keep.begin(), keep.end());
  }

  void join() {
    std::vector<Task> tasks;
    for (std::size_t t = 0; t < plan_.tasks.size();) {
      const std::size_t end = end_of_run(t);
      if (end - t < 2) {
        tasks.push_back(std::move(plan_.tasks[t++]));
        continue;
      }
      tasks.push_back(joined(t, end));
      t = end;
    }
    plan_.tasks = std::move(tasks);
  }

 private:
  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const {
    return plan_.compiled[static_cast<std::size_t>(v)];
  }

  [[nodiscard]] bool is_fold(ValueIndex v) const {
    const CompiledPrimitive& primitive = compiled(v);
    return (primitive.kind == Kind::kSum || primitive.kind == Kind::kMax) && primitive.dtype == DType::kF32;
  }

  /// The end of the longest run that begins with task t. Its rows are those of its first fold, which must be
  /// one of its first three tasks.
  std::size_t end_of_run(std::size_t t) {
    for (std::size_t first = t; first < plan_.tasks.size() && first < t + 3; ++first) {
      const std::vector<ValueIndex> members = members_of(plan_.tasks[first]);
      if (members.empty()) return t + 1;
      if (!is_fold(members.front())) continue;
      const CompiledPrimitive& fold = compiled(members.front());
      if (fold.count < 1 || fold.count > kMostRows || fold.fold_count < 2 || fold.fold_count > kMostColumns)
        return t + 1;
      rows_ = fold.count;
      columns_ = fold.fold_count;
      run_.clear();
      accesses_ = 0;
      std::size_t end = t;
      while (end < plan_.tasks.size() && takes(plan_.tasks[end])) ++end;
      return end > first ? end : t + 1;
    }
    return t + 1;
  }

  /// Adds a task to the run, if it is over the same rows.
  bool takes(const Task& task) {
    const std::vector<ValueIndex> members = members_of(task);
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

  /// True if a value made in the run is read at the row and column where it is made, or is a number of that
  /// row.
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

  Task joined(std::size_t begin, std::size_t end) {
    Task out;
    RowsTask rows{{}, rows_, columns_};
    std::set<ValueIndex> made, read_later = wanted_;
    for (std::size_t t = begin; t < end; ++t) {
      for (const ValueIndex v : members_of(plan_.tasks[t])) rows.members.push_back(v);
      out.cost += plan_.tasks[t].cost;
    }
    made.insert(rows.members.begin(), rows.members.end());
    for (std::size_t t = end; t < plan_.tasks.size(); ++t)
      read_later.insert(plan_.tasks[t].reads.begin(), plan_.tasks[t].reads.end());
    for (std::size_t t = begin; t < end; ++t) {
      for (const ValueIndex v : plan_.tasks[t].reads) {
        if (!made.contains(v)) out.reads.push_back(v);
      }
      for (const ValueIndex v : plan_.tasks[t].writes) {
        if (read_later.contains(v)) out.writes.push_back(v);
      }
    }
    out.work = std::move(rows);
    return out;
  }

  Plan& plan_;
  std::set<ValueIndex> wanted_;  // needed after the step
  std::set<ValueIndex> run_;     // values that the run makes
  std::size_t accesses_ = 0;     // of those values
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

void join_rows(const program::Program& program, const std::vector<ValueIndex>& keep, Plan& plan) {
  Joiner(program, keep, plan).join();
}

}  // namespace dgx::exec
