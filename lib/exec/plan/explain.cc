#include <fmt/format.h>

#include "plan/plan.h"

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

std::string describe(const Maps& maps) {
  std::string text = ":";
  for (const kernels::ValueIndex v : maps.members) text += fmt::format(" {}", v);
  return text + fmt::format(" ({} operations)", maps.program.instructions.size());
}

std::string describe(const Matmul& product) {
  const std::int64_t batches = product.batch.count();
  const auto& [rows, columns, depth] = product.shape;
  return fmt::format(" ({}{}×{}×{})", batches == 1 ? "" : fmt::format("{} of ", batches), rows, depth,
                     columns);
}

struct Describer {
  Words operator()(const Maps& maps) const { return {"maps", describe(maps)}; }
  Words operator()(const ColumnSum& sum) const {
    return {"column sum", fmt::format(" ({} rows of {})", sum.rows, sum.columns)};
  }
  Words operator()(const Matmul& product) const { return {"product", describe(product)}; }
  Words operator()(const ProductMaps& both) const {
    return {"product with maps", describe(both.maps) + describe(both.product)};
  }
  Words operator()(const WindowProducts& windows) const {
    const auto& form = windows.product.form();
    return {"window product", fmt::format(" ({} rows of {} terms; {}; {})", form.weight_rows.size(),
                                          form.terms.size(), describe(form.rows), describe(form.columns))};
  }
  Words operator()(const WindowGradients& windows) const {
    const auto& form = windows.gradient.form();
    return {"window gradient",
            fmt::format(" ({} planes, {} columns, {} images; {}; {})", form.planes.size(), form.count,
                        form.images.size(), describe(form.rows), describe(form.columns))};
  }
  Words operator()(const Fold& fold) const {
    const char* along = fold.along == Fold::Along::kFold      ? "rows"
                        : fold.along == Fold::Along::kColumns ? "columns"
                                                              : "along outputs";
    return {"fold", fmt::format(" ({} of {}, {}{})", name_of(fold.kind), fold.length, along,
                                fold.row_stride ? " in memory" : "")};
  }
  Words operator()(const Chain& chain) const {
    return {"chain", fmt::format(" ({} positions{})", chain.length, chain.key ? ", by key" : "")};
  }
  Words operator()(const ReplacedRows& replaced) const {
    return {"replaced rows", fmt::format(" (at most {} of {})", replaced.positions, replaced.rows)};
  }
  Words operator()(const Concatenation& whole) const {
    return {"concatenation", fmt::format(" ({} pieces)", whole.pieces.size())};
  }
  Words operator()(const Rows& rows) const {
    return {"rows", fmt::format(" ({} rows of {}, {} values)", rows.rows, rows.columns, rows.members.size())};
  }
  Words operator()(const TiledProduct& tiled) const { return {"product", describe(tiled.product)}; }
  template <class Alone>
  Words operator()(const Alone& /*other*/) const {
    return {"element by element", ""};
  }
};

}  // namespace

Words words_of(const Operation& operation) {
  return std::visit([](const auto& work) { return std::visit(Describer{}, work); }, operation.work);
}

std::string explain(const Plan& plan) {
  std::string text;
  std::size_t next = 0;  // index into plan.sliced
  for (const Operation& operation : plan.operations) {
    const auto o = static_cast<std::size_t>(&operation - plan.operations.data());
    if (next < plan.sliced.size() && o == plan.sliced[next].end) ++next;
    const bool sliced = next < plan.sliced.size() && o >= plan.sliced[next].begin;
    if (sliced && o == plan.sliced[next].begin) {
      text += fmt::format("in {} slices, {} at once, {} values inside:\n", plan.sliced[next].slices,
                          plan.sliced[next].chunk, plan.sliced[next].inside.size());
    }
    const Words words = words_of(operation);
    text += (sliced ? "  " : "") + words.kind;
    if (maps_of(operation) == nullptr) {
      for (const kernels::ValueIndex v : operation.writes) text += fmt::format(" {}", v);
    }
    text += words.form;
    for (const kernels::ValueIndex v : operation.writes) {
      const auto& shape = plan.program->values[v].shape;
      const bool packed = plan.layouts[v] != Layout::kRows;
      const bool in_place = plan.placements[v].where == Placement::Where::kInPlace;
      text += " → " + to_string(shape) + (packed ? " in panels" : "") + (in_place ? " in place" : "");
    }
    text += "\n";
  }
  return text;
}

}  // namespace dgx::exec
