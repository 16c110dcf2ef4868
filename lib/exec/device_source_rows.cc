#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "device_rows.h"
#include "device_source.h"
#include "device_text.h"
#include "kernel_arguments.h"
#include "linear.h"

// The text of rows (device_rows.h). 32 threads share a row: thread `lane` has its columns lane, lane + 32, …,
// like the lanes of a sum (dgx-numerics(7), "Folds"), so that a fold's lanes are the threads' own sums.
// Between folds there is a loop over a thread's columns; a number that was made or read, and that a later
// loop needs again, stays in registers.

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLanes = 32, kTeams = 4;  // threads of a team, teams of a block

class RowsKernel final : public NumberReader {
 public:
  RowsKernel(const Plan& plan, const RowsTask& task, std::span<const ValueIndex> stored,
             const std::vector<bool>& becomes_state)
      : plan_(plan), task_(task), stored_(stored.begin(), stored.end()), becomes_state_(becomes_state) {
    for (const ValueIndex v : task.members) {
      const CompiledPrimitive& primitive = compiled(v);
      const std::size_t rows = *row_dimensions(primitive, task.rows, task.columns);
      Shape extents = primitive.iteration;
      extents.insert(extents.end(), primitive.fold.begin(), primitive.fold.end());
      const auto split = extents.begin() + static_cast<std::ptrdiff_t>(rows);
      const std::string name = "i" + std::to_string(members_.size()) + "_";
      const bool is_fold = primitive.kind != Kind::kMap;
      const bool has_columns = is_fold || (primitive.count != task.rows || task.columns == 1);
      number_of_[v] = members_.size();
      members_.push_back(
          {v, is_fold, has_columns, 0, rows, extents,
           Loops(name, {{"r", Shape(extents.begin(), split)}, {"c", Shape(split, extents.end())}})});
    }
  }

  DeviceKernel write() {
    for (Member& member : members_) {
      current_ = &member;
      member.phase = 0;
      walk(member);
      phases_ = std::max(phases_, member.phase + 1);
    }
    for (Member& member : members_) member.loops.freeze();
    is_written_ = true;
    arguments_ = {};
    Lines body;
    lines_ = &body;
    begin();
    add_rows(-1);
    for (int phase = 0; phase < phases_; ++phase) {
      if (has_loop(phase)) add_loop(phase);
      add_rows(phase);
    }
    Lines all;
    arguments_.declare(all);
    all.append(body);
    const std::int64_t blocks = (task_.rows + kTeams - 1) / kTeams;
    return {all.text(), arguments_.all(), static_cast<std::uint32_t>(kLanes * kTeams), blocks};
  }

  std::string inside(ValueIndex value, DType dtype, const Form& form) override {
    if (!is_written_) {
      note(value, dtype, form);
      return current_->loops.text(form);
    }
    if (const auto made = number_of_.find(value); made != number_of_.end())
      return made_in_row(members_[made->second]);
    const std::string element =
        element_of(value, dtype, is_whole(form) ? place() : current_->loops.text(form));
    const std::string number = dtype == DType::kF32 ? element : "integer(" + element + ")";
    const std::string type = dtype == DType::kF32 ? "float" : "std::int64_t";
    const auto kept = kept_reads_.find(value);
    if (kept == kept_reads_.end() || kept->second.size() < 2 || !is_whole(form))
      return lines_->constant(type, number);
    const std::string name = "x" + std::to_string(arguments_number(value, dtype));
    if (*kept->second.begin() != current_->phase) return name + "[n]";
    if (assigned_.insert(name).second) lines_->add(name + "[n] = " + number + ";");
    return name + "[n]";
  }

  std::string at(ValueIndex value, DType dtype, const std::string& place) override {
    const std::string element = element_of(value, dtype, place);
    return dtype == DType::kF32 ? element : "integer(" + element + ")";
  }

 private:
  /// Reads an element with fixed(), since a rows task reads nothing that it writes (memory_plan.h): so a
  /// column need not wait until the one before is stored.
  std::string element_of(ValueIndex value, DType dtype, const std::string& place) {
    return "fixed(" + arguments_.read(value, dtype) + " + (" + place + "))";
  }

  struct Member {
    ValueIndex value;
    bool is_fold, has_columns;
    int phase;  ///< the loop that makes it; a row's number: the loop before it, or -1
    std::size_t rows;
    Shape extents;
    Loops loops;
    bool is_read_later = false;  ///< by a later loop
    std::string number = {};     ///< its name, where it is made
  };

  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const {
    return plan_.compiled[static_cast<std::size_t>(v)];
  }
  [[nodiscard]] std::string columns() const { return std::to_string(task_.columns); }
  [[nodiscard]] std::int64_t columns_of_thread() const { return (task_.columns + kLanes - 1) / kLanes; }
  static std::string type_of(const CompiledPrimitive& primitive) {
    return primitive.dtype == DType::kF32 ? "float" : "std::int64_t";
  }
  /// The number of the value among the arguments.
  int arguments_number(ValueIndex value, DType dtype) {
    return std::stoi(arguments_.read(value, dtype).substr(1));
  }

  /// True if the form is the row's and column's element of a value of all rows and columns.
  [[nodiscard]] bool is_whole(const Form& form) const {
    std::int64_t expected = 1;
    for (std::size_t d = current_->extents.size(); d-- > 0; expected *= current_->extents[d]) {
      if (current_->extents[d] > 1 && form.strides[d] != expected) return false;
    }
    return form.base == 0 && expected == task_.rows * task_.columns;
  }

  /// Learns in which loop the current member comes, and which reads recur.
  void note(ValueIndex value, DType dtype, const Form& form) {
    Member& reader = *current_;
    if (const auto made = number_of_.find(value); made != number_of_.end()) {
      const Member& from = members_[made->second];
      const bool of_row = from.is_fold || !from.has_columns;
      reader.phase = std::max(reader.phase, from.phase + (of_row && reader.has_columns ? 1 : 0));
    } else if (reader.has_columns && dtype == DType::kF32 && is_whole(form)) {
      whole_reads_[reader.value].insert(value);
    }
  }

  /// Goes through a member's steps without writing them, to find its phase, and then the numbers that it
  /// reads in that phase.
  void walk(Member& member) {
    if (!member.has_columns) member.phase = -1;
    Lines nowhere;
    lines_ = &nowhere;
    const CompiledPrimitive& primitive = compiled(member.value);
    ElementWriter(primitive, member.loops, *this, nowhere).run(primitive.steps);
    for (const ValueIndex value : whole_reads_[member.value]) kept_reads_[value].insert(member.phase);
    for (const auto& access : primitive.accesses) {
      const auto made = number_of_.find(access.value);
      if (made == number_of_.end()) continue;
      Member& from = members_[made->second];
      if (from.has_columns && !from.is_fold && from.phase != member.phase) from.is_read_later = true;
    }
  }

  /// The row's and column's element of a value of all rows and columns.
  [[nodiscard]] std::string place() const {
    const bool is_narrow = task_.rows * task_.columns <= 0x7fffffff;
    return is_narrow ? fmt::format("r * {}U + c", task_.columns)
                     : fmt::format("integer(r) * {} + c", task_.columns);
  }

  [[nodiscard]] bool has_loop(int phase) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const Member& member) { return member.has_columns && member.phase == phase; });
  }

  std::string made_in_row(const Member& from) const {
    const bool of_row = from.is_fold || !from.has_columns;
    return of_row || from.phase == current_->phase ? from.number : array_of(from) + "[n]";
  }
  [[nodiscard]] std::string array_of(const Member& member) const {
    return "m" + std::to_string(number_of_.at(member.value));
  }

  void begin() {
    lines_->add(fmt::format("const std::uint32_t lane = threadIdx.x % {}U, team = threadIdx.x / {}U;", kLanes,
                            kLanes));
    lines_->add(fmt::format("const std::uint32_t row = blockIdx.x * {}U + team;", kTeams));
    lines_->add(fmt::format("const bool exists = row < {}U;", task_.rows));
    lines_->add(fmt::format("const std::uint32_t r = exists ? row : {}U;", task_.rows - 1));
    for (const Member& member : members_) {
      if (member.is_read_later)
        lines_->add(fmt::format("{} {}[{}];", type_of(compiled(member.value)), array_of(member),
                                columns_of_thread()));
    }
    for (const auto& [value, phases] : kept_reads_) {
      if (phases.size() > 1)
        lines_->add(fmt::format("float x{}[{}];", arguments_number(value, DType::kF32), columns_of_thread()));
    }
    for (Member& member : members_) member.loops.declare(*lines_, 0);
  }

  void add_loop(int phase) {
    for (const Member& member : members_) {
      if (member.is_fold && member.phase == phase)
        lines_->add(fmt::format("float acc{} = {};", number_of_.at(member.value), start_of(member)));
    }
    lines_->open(fmt::format("DGX_UNROLL for (int n = 0; n < {}; ++n)", columns_of_thread()));
    lines_->add(fmt::format("const std::uint32_t c = lane + {}U * n;", kLanes));
    if (task_.columns % kLanes != 0) lines_->open(fmt::format("if (c < {}U)", columns()));
    for (Member& member : members_) {
      if (!member.has_columns || member.phase != phase) continue;
      current_ = &member;
      member.loops.declare(*lines_, 1);
      member.is_fold ? take(member) : make(member);
    }
    if (task_.columns % kLanes != 0) lines_->close();
    lines_->close();
    for (Member& member : members_) {
      if (!member.is_fold || member.phase != phase) continue;
      const bool is_sum = compiled(member.value).kind == Kind::kSum;
      member.number = "fold" + std::to_string(number_of_.at(member.value));
      lines_->add(fmt::format("const float {} = as_f32({}_of_team(acc{}));", member.number,
                              is_sum ? "sum" : "best", number_of_.at(member.value)));
      store_row(member);
    }
  }

  [[nodiscard]] std::string start_of(const Member& member) const {
    return compiled(member.value).kind == Kind::kSum ? "0" : "least<float>()";
  }

  std::string run(Member& member) {
    const CompiledPrimitive& primitive = compiled(member.value);
    const std::string result = ElementWriter(primitive, member.loops, *this, *lines_).run(primitive.steps);
    return primitive.dtype == DType::kU8 ? lines_->constant("std::int64_t", "to_u8(" + result + ")") : result;
  }

  void take(Member& member) {
    const std::string acc = "acc" + std::to_string(number_of_.at(member.value)), term = run(member);
    lines_->add(compiled(member.value).kind == Kind::kSum
                    ? acc + " = " + acc + " + " + term + ";"
                    : acc + " = best_of(" + acc + ", " + term + " + 0.0F);");
  }

  void make(Member& member) {
    member.number = run(member);
    if (member.is_read_later) lines_->add(array_of(member) + "[n] = " + member.number + ";");
    if (stored_.contains(member.value)) store(member, task_.rows % kTeams == 0 ? "" : "if (exists)", place());
  }

  void store(const Member& member, const std::string& condition, const std::string& place) {
    const DType dtype = compiled(member.value).dtype;
    lines_->open(condition);
    lines_->add(fmt::format("const {} y = as_{}({});", memory_type(dtype), type_name(dtype), member.number));
    lines_->add(fmt::format("{}[{}] = y;", arguments_.written(member.value, dtype), place));
    if (becomes_state_[static_cast<std::size_t>(member.value)])
      lines_->add("if (!is_finite(y)) *" + arguments_.flag(member.value) + " = 1;");
    lines_->close();
  }

  void store_row(const Member& member) {
    if (stored_.contains(member.value)) store(member, "if (exists && lane == 0)", "r");
  }

  /// Writes the numbers of rows that can be made after this loop.
  void add_rows(int phase) {
    for (Member& member : members_) {
      if (member.has_columns || member.phase != phase) continue;
      current_ = &member;
      member.number = run(member);
      store_row(member);
    }
  }

  const Plan& plan_;
  const RowsTask& task_;
  const std::set<ValueIndex> stored_;
  const std::vector<bool>& becomes_state_;
  std::vector<Member> members_;
  std::map<ValueIndex, std::size_t> number_of_;
  std::map<ValueIndex, std::set<ValueIndex>> whole_reads_;  // by member
  // Values of all rows and columns: the loops that read them.
  std::map<ValueIndex, std::set<int>> kept_reads_;
  std::set<std::string> assigned_;
  KernelArguments arguments_;
  Member* current_ = nullptr;
  Lines* lines_ = nullptr;
  bool is_written_ = false;
  int phases_ = 0;
};

}  // namespace

DeviceKernel KernelWriter::rows(const RowsTask& task, std::span<const ValueIndex> stored) const {
  return RowsKernel(plan_, task, stored, becomes_state_).write();
}

}  // namespace dgx::exec
