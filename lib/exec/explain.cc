#include <fmt/format.h>

#include "plan.h"

namespace dgx::exec {
namespace {

using kernels::cpu::WindowAxis;

std::string describe(const WindowAxis& axis) {
  std::string text = fmt::format("{} outputs of {}", axis.outputs,
                                 axis.taps == 1 ? "1 tap" : fmt::format("{} taps", axis.taps));
  if (axis.step != 1) text += fmt::format(", step {}", axis.step);
  if (axis.divisor != 1) text += fmt::format(", divided by {}", axis.divisor);
  return text;
}

std::string describe(const MapTask& map) {
  std::string text = ":";
  for (const kernels::ValueIndex v : map.members) text += fmt::format(" {}", v);
  return text + fmt::format(" ({} operations)", map.program.instructions.size());
}

std::string describe(const MatmulTask& task) {
  const std::int64_t batches = task.batch.rows() * task.batch.inner_extent();
  const auto& [rows, columns, depth] = task.shape;
  return fmt::format(" ({}{}×{}×{})", batches == 1 ? "" : fmt::format("{} of ", batches), rows, depth,
                     columns);
}

struct Form {
  std::string operator()(const MatmulTask& task) const { return describe(task); }
  std::string operator()(const ColumnSumTask& task) const {
    return fmt::format(" ({} rows of {})", task.rows, task.columns);
  }
  std::string operator()(const MapTask& task) const { return describe(task); }
  std::string operator()(const ProductMapTask& task) const {
    return describe(task.map) + describe(task.product);
  }
  std::string operator()(const FoldTask& task) const {
    const char* along = task.along == FoldTask::Along::kFold      ? "rows"
                        : task.along == FoldTask::Along::kColumns ? "columns"
                                                                  : "along outputs";
    return fmt::format(" ({} of {}, {}{})", name_of(task.kind), task.length, along,
                       task.row_stride ? " in memory" : "");
  }
  std::string operator()(const ChainTask& task) const {
    return fmt::format(" ({} positions{})", task.length, task.key ? ", by key" : "");
  }
  std::string operator()(const WindowProductTask& task) const {
    const auto& form = task.product.form();
    return fmt::format(" ({} rows of {} terms; {}; {})", form.weight_rows.size(), form.terms.size(),
                       describe(form.rows), describe(form.columns));
  }
  std::string operator()(const WindowGradientTask& task) const {
    const auto& form = task.gradient.form();
    return fmt::format(" ({} planes, {} columns, {} images; {}; {})", form.planes.size(), form.count,
                       form.images.size(), describe(form.rows), describe(form.columns));
  }
  std::string operator()(const ConcatenationTask& task) const {
    return fmt::format(" ({} pieces)", task.pieces.size());
  }
  std::string operator()(const RowsTask& task) const {
    return fmt::format(" ({} rows of {}, {} values)", task.rows, task.columns, task.members.size());
  }
  std::string operator()(const TiledProductTask& task) const { return describe(task.product); }
  template <class Alone>
  std::string operator()(const Alone& /*task*/) const {
    return {};
  }
};

struct Name {
  std::string operator()(const MatmulTask&) const { return "product"; }
  std::string operator()(const ColumnSumTask&) const { return "column sum"; }
  std::string operator()(const MapTask&) const { return "maps"; }
  std::string operator()(const FoldTask&) const { return "fold"; }
  std::string operator()(const RowsTask&) const { return "rows"; }
  std::string operator()(const TiledProductTask&) const { return "product"; }
  template <class Alone>
  std::string operator()(const Alone&) const {
    return "element by element";
  }
  std::string operator()(const ProductMapTask&) const { return "product with maps"; }
  std::string operator()(const WindowProductTask&) const { return "window product"; }
  std::string operator()(const WindowGradientTask&) const { return "window gradient"; }
  std::string operator()(const ChainTask&) const { return "chain"; }
  std::string operator()(const ConcatenationTask&) const { return "concatenation"; }
};

}  // namespace

std::string kind_of(const Task& task) { return std::visit(Name{}, task.work); }

std::string form_of(const Task& task) { return std::visit(Form{}, task.work); }

std::string explain(const Plan& plan, const program::Program& program) {
  std::string text;
  std::size_t next = 0;  // index into plan.sliced
  for (const Task& task : plan.tasks) {
    const auto t = static_cast<std::size_t>(&task - plan.tasks.data());
    if (next < plan.sliced.size() && t == plan.sliced[next].end) ++next;
    const bool sliced = next < plan.sliced.size() && t >= plan.sliced[next].begin;
    if (sliced && t == plan.sliced[next].begin) {
      text += fmt::format("in {} slices, {} at once, {} values inside:\n", plan.sliced[next].slices,
                          plan.sliced[next].chunk, plan.sliced[next].inside.size());
    }
    text += (sliced ? "  " : "") + kind_of(task);
    if (map_of(task) == nullptr) {
      for (const kernels::ValueIndex v : task.writes) text += fmt::format(" {}", v);
    }
    text += form_of(task);
    for (const kernels::ValueIndex v : task.writes) {
      const auto& shape = program.values[static_cast<std::size_t>(v)].shape;
      const bool packed = plan.layouts[static_cast<std::size_t>(v)] != Layout::kRows;
      const bool in_place = plan.placements[static_cast<std::size_t>(v)].where == Placement::Where::kInPlace;
      text += " → " + to_string(shape) + (packed ? " in strips" : "") + (in_place ? " in place" : "");
    }
    text += "\n";
  }
  return text;
}

}  // namespace dgx::exec
