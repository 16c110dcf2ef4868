#include "plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "common_iteration.h"
#include "concatenation.h"
#include "device_dots.h"
#include "device_operations.h"
#include "device_rows.h"
#include "memory_plan.h"
#include "read_through.h"
#include "slices.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;

namespace {

constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMaxMembers = 24;  // of one fused group: keeps its registers in the first-level cache
constexpr double kSerialCycles = 6000;   // below this, sharing an operation costs more than it saves

/// A task before its strip program is built: maps collect members until all values are seen.
struct Draft {
  bool is_map = false;
  std::vector<ValueIndex> members;
  Task task;
  std::optional<MatmulTask> product;  ///< the product that the maps follow block by block
};

class Planner {
 public:
  Planner(const program::Program& program, Fusion fusion, Backend backend, int threads,
          const std::vector<ValueIndex>& keep)
      : program_(fusion == Fusion::kFused ? share_iterations(read_through_copies(program)) : program),
        fusion_(fusion),
        backend_(backend),
        threads_(threads),
        keep_(keep) {}

  Result<Plan> make() {
    DGX_CHECK(compile_all());
    find_needed();
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      if (program_.values[v].kind != Kind::kInput && needed_[v]) place(static_cast<ValueIndex>(v));
    }
    sink_updates();
    find_readers();
    choose_layouts();
    follow_products();
    for (Draft& draft : drafts_) finish(draft);
    if (is_on_device()) join_rows(program_, keep_, plan_);
    if (is_fused()) reorder(freeing_order(program_, plan_, keep_));
    if (is_fused_on_cpu()) cut();
    plan_.sections = sections();
    plan_memory(program_, is_fused(), keep_, plan_);
    plan_scratch(threads_, plan_);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool is_fused() const { return fusion_ == Fusion::kFused; }
  [[nodiscard]] bool is_on_device() const { return backend_ == Backend::kDevice; }
  [[nodiscard]] bool is_fused_on_cpu() const { return is_fused() && !is_on_device(); }
  [[nodiscard]] const Primitive& at(ValueIndex v) const {
    return program_.values[static_cast<std::size_t>(v)];
  }

  Status compile_all() {
    for (const Primitive& p : program_.values) types_.push_back({p.dtype, p.shape});
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Primitive& primitive = program_.values[v];
      linear_.emplace_back();
      strips_.emplace_back();
      if (primitive.kind == Kind::kInput) {
        plan_.compiled.emplace_back();
        continue;
      }
      auto compiled = kernels::compile(primitive, types_);
      if (!compiled) return within("value " + std::to_string(v), std::move(compiled).error());
      plan_.compiled.push_back(std::move(compiled).value());
      linear_.back() = linear_accesses(plan_.compiled.back());
      strips_.back() = strip_accesses(plan_.compiled.back());
    }
    task_of_.assign(program_.values.size(), kNoTask);
    return {};
  }

  /// Finds the values that something depends on. Dead values are neither computed nor allocated.
  void find_needed() {
    needed_.assign(program_.values.size(), !is_fused());
    for (const ValueIndex v : keep_) needed_[static_cast<std::size_t>(v)] = true;
    for (const Primitive& value : program_.values)
      if (value.next) needed_[static_cast<std::size_t>(*value.next)] = true;
    for (std::size_t v = program_.values.size(); v-- > 0;) {
      if (!needed_[v]) continue;
      for (const auto& access : program_.values[v].accesses)
        needed_[static_cast<std::size_t>(access.value)] = true;
    }
  }

  void place(ValueIndex v) {
    const Primitive& primitive = at(v);
    const bool is_map = primitive.kind == Kind::kMap && strips_[static_cast<std::size_t>(v)].has_value();
    task_of_[static_cast<std::size_t>(v)] = drafts_.size();
    if (auto pieces = is_fused_on_cpu() ? recognise_concatenation(v, primitive, types_) : std::nullopt) {
      const double cost = static_cast<double>(plan_.compiled[static_cast<std::size_t>(v)].count) / 4;
      return drafts_.push_back({false, {v}, {std::move(*pieces), cost, {}, {}}, {}});
    }
    if (is_map && is_fused() && join_group(v)) return;
    drafts_.push_back({is_map, {v}, is_map ? Task{} : recognise(v), {}});
  }

  /// Adds v to the latest group of its iteration shape such that all v reads from outside is made before the
  /// group, and all it reads from the group it reads element by element.
  bool join_group(ValueIndex v) {
    auto [first, last] = groups_.equal_range(at(v).iteration_shape());
    const auto identity = row_major_strides(at(v).iteration_shape());
    std::size_t latest = 0;  // groups before this task cannot take it
    const auto& accesses = *strips_[static_cast<std::size_t>(v)];
    for (const StripAccess& access : accesses)
      if (const std::size_t maker = task_of_[static_cast<std::size_t>(access.plain.value)]; maker != kNoTask)
        latest = std::max(latest, maker);
    for (auto it = last; it != first;) {
      --it;
      const std::size_t group = it->second;
      if (group < latest || drafts_[group].members.size() >= kMaxMembers) continue;
      const bool fits = std::all_of(accesses.begin(), accesses.end(), [&](const StripAccess& access) {
        const LinearAccess& plain = access.plain;
        const bool inside = task_of_[static_cast<std::size_t>(plain.value)] == group;
        return !inside || (access.guarded.empty() && !is_index(access, accesses) && plain.base == 0 &&
                           same_walk(plain.iteration, identity, at(v).iteration_shape()));
      });
      if (!fits) continue;
      drafts_[group].members.push_back(v);
      task_of_[static_cast<std::size_t>(v)] = group;
      return true;
    }
    groups_.emplace(at(v).iteration_shape(), drafts_.size());
    return false;
  }

  /// True if another access takes a coordinate from this one: indices are read before anything is computed.
  static bool is_index(const StripAccess& access, const std::vector<StripAccess>& all) {
    const std::int64_t number = &access - all.data();
    for (const StripAccess& other : all) {
      for (const auto& coordinate : other.guarded) {
        const auto& terms = coordinate.terms;
        if (std::any_of(terms.begin(), terms.end(), [number](const auto& t) { return t.access == number; }))
          return true;
      }
    }
    return false;
  }

  static bool same_walk(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                        const Shape& extents) {
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] > 1 && a[d] != b[d]) return false;
    }
    return true;
  }

  Task recognise(ValueIndex v) {
    const auto& compiled = plan_.compiled[static_cast<std::size_t>(v)];
    const auto& accesses = linear_[static_cast<std::size_t>(v)];
    const auto positions = static_cast<double>(compiled.count) * static_cast<double>(compiled.fold_count);
    if (accesses) {
      if (auto matmul = recognise_matmul(v, compiled, *accesses)) {
        // A column sum does not read its ones, so where every value counts, a fault in them would be lost.
        const auto sum = is_fused() ? recognise_column_sum(program_, *matmul) : std::nullopt;
        if (sum) return {*sum, positions / 8, {}, {}};
        if (is_on_device()) return {in_tiles(*matmul), positions / 16, {}, {}};
        return {*matmul, positions / 16, {}, {}};
      }
    }
    if (is_on_device())
      return {recognise_on_device(v, compiled, strips_[static_cast<std::size_t>(v)]), positions, {}, {}};
    if (const auto& strips = strips_[static_cast<std::size_t>(v)]) {
      if (auto fold = recognise_fold(v, compiled, *strips)) {
        const double cost = fold_cost(*fold);
        return {std::move(*fold), cost, {}, {}};
      }
      if (auto chain = recognise_chain(v, compiled, *strips)) {
        const double visits =
            chain->key ? 2 * static_cast<double>(chain->length) / static_cast<double>(chain->key->extent) : 1;
        const auto operations = static_cast<double>(chain->body.instructions.size() + 2);
        return {std::move(*chain), positions * operations / 8 * std::min(1.0, visits), {}, {}};
      }
    }
    if (auto windows = recognise_windows(v, compiled)) {
      return std::visit([&](auto& work) { return Task{std::move(work), positions / 16, {}, {}}; }, *windows);
    }
    const auto steps = static_cast<double>(compiled.steps.steps.size() + 4);
    return {GenericTask{v, compiled.count}, positions * steps * 10, {}, {}};
  }

  static double fold_cost(const FoldTask& fold) {
    const auto operations = static_cast<double>(fold.program.instructions.size() + 1);
    const auto count = static_cast<double>(fold.count);
    return count * operations * static_cast<double>(fold.length) / 8 +
           (fold.along == FoldTask::Along::kFold ? 200 * count : 0);
  }

  /// Moves each update after the last reader of the parameter that it replaces, to be written in place.
  void sink_updates() {
    if (!is_fused()) return;
    std::vector<std::size_t> last_read(program_.values.size(), 0);
    std::vector<bool> read(program_.values.size());
    for (std::size_t t = 0; t < drafts_.size(); ++t) {
      for (const ValueIndex v : drafts_[t].members) {
        for (const auto& access : at(v).accesses) {
          const auto value = static_cast<std::size_t>(access.value);
          last_read[value] = std::max(last_read[value], t);
          if (task_of_[value] != t) read[value] = true;
        }
      }
    }
    std::multimap<std::size_t, std::size_t> order;  // position → draft
    const auto entries = program::state_inputs(program_);
    for (std::size_t t = 0; t < drafts_.size(); ++t) {
      std::size_t position = t;
      const auto& members = drafts_[t].members;
      const bool only_updates = std::none_of(members.begin(), members.end(),
                                             [&](ValueIndex v) { return read[static_cast<std::size_t>(v)]; });
      for (const ValueIndex entry : only_updates ? entries : std::vector<ValueIndex>{}) {
        const auto next = at(entry).next;
        const bool made_here = next && std::find(members.begin(), members.end(), *next) != members.end();
        if (made_here) position = std::max(position, last_read[static_cast<std::size_t>(entry)]);
      }
      order.emplace(position, t);
    }
    std::vector<Draft> sorted;
    std::vector<std::size_t> moved(drafts_.size());
    // At one position the sunk drafts come last: they may overwrite what the one that stayed reads.
    for (auto it = order.begin(); it != order.end();) {
      const auto end = order.upper_bound(it->first);
      const std::size_t position = it->first;
      const auto push = [&](std::size_t t) {
        moved[t] = sorted.size();
        sorted.push_back(std::move(drafts_[t]));
      };
      for (auto at_position = it; at_position != end; ++at_position) {
        if (at_position->second == position) push(position);
      }
      for (auto at_position = it; at_position != end; ++at_position) {
        if (at_position->second != position) push(at_position->second);
      }
      it = end;
    }
    drafts_ = std::move(sorted);
    for (std::size_t& task : task_of_) task = task == kNoTask ? task : moved[task];
  }

  void find_readers() {
    stored_.assign(program_.values.size(), !is_fused());
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      for (const auto& access : program_.values[v].accesses) {
        const auto value = static_cast<std::size_t>(access.value);
        if (needed_[v] && task_of_[v] != task_of_[value]) stored_[value] = true;
      }
      if (program_.values[v].next) stored_[static_cast<std::size_t>(*program_.values[v].next)] = true;
    }
    for (const ValueIndex v : keep_) stored_[static_cast<std::size_t>(v)] = true;
  }

  void choose_layouts() {
    plan_.layouts.assign(program_.values.size(), Layout::kRows);
    if (!is_fused_on_cpu()) return;
    std::vector<const MatmulTask*> products(program_.values.size());
    std::vector<bool> is_map(program_.values.size());
    for (const Draft& draft : drafts_) {
      for (const ValueIndex v : draft.members) {
        is_map[static_cast<std::size_t>(v)] = draft.is_map;
        products[static_cast<std::size_t>(v)] = std::get_if<MatmulTask>(&draft.task.work);
        if (draft.is_map) products[static_cast<std::size_t>(v)] = nullptr;
      }
    }
    plan_.layouts = exec::choose_layouts({program_, linear_, task_of_, is_map, products, keep_});
    for (Draft& draft : drafts_) {
      if (!draft.is_map && std::holds_alternative<MatmulTask>(draft.task.work))
        lay_out(std::get<MatmulTask>(draft.task.work));
    }
  }

  [[nodiscard]] Layout layout_of(ValueIndex v) const { return plan_.layouts[static_cast<std::size_t>(v)]; }

  void lay_out(MatmulTask& product) const {
    if (layout_of(product.out) == Layout::kTransposedStrips) product = product.transposed();
    product.out_packed = layout_of(product.out) != Layout::kRows;
    product.b_packed = layout_of(product.b) != Layout::kRows;
  }

  /// A product in strips whose only readers are one group of maps becomes part of the group's task.
  void follow_products() {
    std::vector<Draft> kept;
    std::vector<std::size_t> moved(drafts_.size());
    for (std::size_t t = 0; t < drafts_.size(); ++t) {
      const auto* product = drafts_[t].is_map ? nullptr : std::get_if<MatmulTask>(&drafts_[t].task.work);
      const std::size_t group = product == nullptr ? kNoTask : only_group_behind(*product);
      if (group != kNoTask) {
        drafts_[group].product = *product;
        stored_[static_cast<std::size_t>(product->out)] = false;
        drafts_[t].members.clear();
      }
    }
    for (std::size_t t = 0; t < drafts_.size(); ++t) {
      moved[t] = kept.size();
      if (!drafts_[t].members.empty()) kept.push_back(std::move(drafts_[t]));
    }
    drafts_ = std::move(kept);
    for (std::size_t& task : task_of_) task = task == kNoTask ? task : moved[task];
  }

  std::size_t only_group_behind(const MatmulTask& product) const {
    if (!product.out_packed) return kNoTask;
    std::size_t group = kNoTask;
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Primitive& reader = program_.values[v];
      if (reader.next == product.out) return kNoTask;
      const bool reads = std::any_of(reader.accesses.begin(), reader.accesses.end(),
                                     [&](const auto& access) { return access.value == product.out; });
      if (!reads) continue;
      if (group != kNoTask && group != task_of_[v]) return kNoTask;
      group = task_of_[v];
    }
    const bool kept = std::find(keep_.begin(), keep_.end(), product.out) != keep_.end();
    if (kept || group == kNoTask || !drafts_[group].is_map || drafts_[group].product) return kNoTask;
    return overwrites_sides(drafts_[group], product) ? kNoTask : group;
  }

  /// True if the group makes a side of the product or the next value of one, which it might write in place:
  /// it may not follow the product then.
  bool overwrites_sides(const Draft& group, const MatmulTask& product) const {
    return std::any_of(group.members.begin(), group.members.end(), [&](ValueIndex v) {
      return at(product.a).next == v || at(product.b).next == v || product.a == v || product.b == v;
    });
  }

  /// A map's accesses within one strip, if its values are packed: along the strip, or one number throughout.
  std::vector<StripAccess> packed_accesses(ValueIndex v) const {
    std::vector<StripAccess> out;
    for (const LinearAccess& access : *linear_[static_cast<std::size_t>(v)]) {
      out.push_back(
          {{access.value, access.base, {layout_of(access.value) == Layout::kRows ? 0 : 1}, {}}, {}, {}});
    }
    return out;
  }

  MapTask compile_maps(const Draft& draft) const {
    MapTask map{draft.members, {}, {}};
    const Primitive& first = at(draft.members.front());
    const Layout layout = layout_of(draft.members.front());
    Shape extents = first.iteration_shape();
    if (layout != Layout::kRows) {
      map.strips = StripForm::of(extents, layout);
      extents = {map.strips->length()};
    }
    StripCompiler compiler(extents, {}, StripCompiler::Along::kIteration);
    for (const ValueIndex v : draft.members) {
      const auto& rows = *strips_[static_cast<std::size_t>(v)];
      compiler.add(v, plan_.compiled[static_cast<std::size_t>(v)], map.strips ? packed_accesses(v) : rows);
      if (!stored_[static_cast<std::size_t>(v)]) continue;
      compiler.store(v, at(v).dtype);
      if (becomes_state(v)) compiler.check_finite(v);
    }
    map.program = compiler.finish();
    return map;
  }

  static double cost_of(const MapTask& map) {
    const std::int64_t strips = map.strips ? map.strips->count() : 1;
    const auto registers = static_cast<std::int64_t>(map.program.registers.size());
    return static_cast<double>(strips) *
           (static_cast<double>(map.program.work()) / 8 +
            static_cast<double>(StripRunner::unit_count(map.program) * registers) * 8);
  }

  void finish(Draft& draft) {
    Task& task = draft.task;
    if (draft.is_map) {
      MapTask map = compile_maps(draft);
      task.cost = cost_of(map);
      if (draft.product) {
        const auto& [rows, columns, depth] = draft.product->shape;
        task.cost +=
            static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth) / 16;
        task.reads = {draft.product->a, draft.product->b};
        task.work = ProductMapTask{*draft.product, std::move(map)};
      } else {
        task.work = std::move(map);
      }
    }
    for (const ValueIndex v : draft.members) {
      if (stored_[static_cast<std::size_t>(v)]) task.writes.push_back(v);
      for (const auto& access : at(v).accesses) {
        const bool inside =
            std::find(draft.members.begin(), draft.members.end(), access.value) != draft.members.end();
        const bool followed = draft.product && access.value == draft.product->out;
        if (!inside && !followed) task.reads.push_back(access.value);
      }
    }
    plan_.tasks.push_back(task);
  }

  bool becomes_state(ValueIndex v) const {
    if (at(v).dtype != DType::kF32) return false;
    return std::any_of(program_.values.begin(), program_.values.end(),
                       [v](const Primitive& p) { return p.next && *p.next == v; });
  }

  void cut() {
    std::vector<std::vector<ValueIndex>> members;
    for (const Draft& draft : drafts_) members.push_back(draft.members);
    plan_.sliced = cut_slices({program_, plan_, members, strips_, keep_, threads_});
  }

  /// Puts the tasks, and the drafts that slices are cut from, into `order`, which holds old numbers.
  void reorder(const std::vector<std::size_t>& order) {
    std::vector<Task> tasks;
    std::vector<Draft> drafts;
    for (const std::size_t t : order) {
      tasks.push_back(std::move(plan_.tasks[t]));
      if (is_fused_on_cpu()) drafts.push_back(std::move(drafts_[t]));
    }
    plan_.tasks = std::move(tasks);
    drafts_ = std::move(drafts);
  }

  std::vector<Section> sections() const {
    std::vector<Section> out;
    std::size_t next = 0;  // index into plan_.sliced
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (next < plan_.sliced.size() && plan_.sliced[next].begin == t) {
        out.push_back({t, plan_.sliced[next].end, false, next});
        t = plan_.sliced[next++].end - 1;
        continue;
      }
      const bool serial = threads_ == 1 || plan_.tasks[t].cost < kSerialCycles;
      if (serial && !out.empty() && out.back().serial) {
        out.back().end = t + 1;
      } else {
        out.push_back({t, t + 1, serial, {}});
      }
    }
    return out;
  }

  const program::Program program_;
  Fusion fusion_;
  Backend backend_;
  int threads_;
  const std::vector<ValueIndex>& keep_;
  Plan plan_;
  std::vector<kernels::ValueType> types_;  // by value
  std::vector<std::optional<std::vector<LinearAccess>>> linear_;
  std::vector<std::optional<std::vector<StripAccess>>> strips_;
  std::vector<Draft> drafts_;
  std::vector<std::size_t> task_of_;  // by value
  std::vector<bool> needed_;          // by value: something depends on it
  std::vector<bool> stored_;          // by value: lies in memory
  std::multimap<Shape, std::size_t> groups_;
};

}  // namespace

const MapTask* map_of(const Task& task) {
  const auto* both = std::get_if<ProductMapTask>(&task.work);
  return both != nullptr ? &both->map : std::get_if<MapTask>(&task.work);
}

Result<Plan> make_plan(const program::Program& program, Fusion fusion, int threads,
                       const std::vector<ValueIndex>& keep) {
  return Planner(program, fusion, Backend::kCpu, threads, keep).make();
}

Result<Plan> make_device_plan(const program::Program& program) {
  const std::vector<ValueIndex> none;
  return Planner(program, Fusion::kFused, Backend::kDevice, 1, none).make();
}

}  // namespace dgx::exec
