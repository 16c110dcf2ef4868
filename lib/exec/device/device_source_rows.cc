#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "device/device_rows.h"
#include "device/device_source.h"
#include "device/device_text.h"
#include "device/kernel_arguments.h"
#include "plan/linear.h"

// The text of rows (device_rows.h). 32 threads share a row: thread `lane` has its columns lane, lane + 32, …,
// like the lanes of a sum (dgx-numerics(7), "Folds"), so that a fold's lanes are the threads' own sums.
// Between folds there is a loop over a thread's columns; a number that was made or read, and that a later
// loop needs again, stays in registers.

namespace dgx::exec {

using kernels::CompiledAccess;
using kernels::CompiledPrimitive;
using kernels::Kind;
using kernels::ValueIndex;

namespace {

constexpr std::int64_t kLanes = 32, kTeams = 4;  // threads of a lane group, lane groups of a block

/// A member of the rows, and the loop over a thread's columns that makes it.
struct Member {
  const CompiledPrimitive* primitive = nullptr;
  ValueIndex value{};
  std::string name;  ///< "3": its number among the members
  bool is_fold = false, has_columns = true;
  int phase = 0;  ///< the number of that loop; for a number per row, of the loop that it follows, or -1
  Shape extents;
  Loops loops;
  bool is_read_later = false;  ///< a later loop reads it
  std::string number = {};     ///< the constant that holds it in the loop that makes it

  /// Each row has one number.
  [[nodiscard]] bool is_of_row() const { return is_fold || !has_columns; }
  [[nodiscard]] bool is_sum() const { return primitive->kind == Kind::kSum; }

  /// True if the form reads the reader's own row and column of a value that has all rows and columns.
  [[nodiscard]] bool is_whole(const Form& form) const {
    std::int64_t expected = 1;
    for (std::size_t d = extents.size(); d-- > 0; expected *= extents[d]) {
      if (extents[d] > 1 && form.strides[d] != expected) return false;
    }
    return form.base == 0 && has_columns;
  }
};

Member member_of(const CompiledPrimitive& primitive, ValueIndex value, const Rows& rows, std::size_t number,
                 const std::vector<Form>& forms) {
  Shape extents = primitive.iteration;
  extents.insert(extents.end(), primitive.fold.begin(), primitive.fold.end());
  const auto split =
      extents.begin() + static_cast<std::ptrdiff_t>(*row_dimensions(primitive, rows.rows, rows.columns));
  const bool is_fold = primitive.kind != Kind::kMap;
  const bool has_columns = is_fold || primitive.count != rows.rows || rows.columns == 1;
  const std::string name = std::to_string(number);
  Loops loops("i" + name + "_", {{"r", Shape(extents.begin(), split)}, {"c", Shape(split, extents.end())}},
              forms);
  return {&primitive,         value,           name, is_fold, has_columns, has_columns ? 0 : -1,
          std::move(extents), std::move(loops)};
}

/// The loops of Rows. A member goes into the first loop after all folds that it reads; a value made or read
/// in one loop and needed in a later one is kept in registers.
struct RowLoops {
  RowLoops(const Plan& plan, const Rows& rows) {
    for (const ValueIndex v : rows.members) add(plan.compiled[v], v, rows);
  }

  /// The member that makes a value, or null.
  Member* made(ValueIndex value) {
    const auto found = number_of.find(value);
    return found == number_of.end() ? nullptr : &members[found->second];
  }

  std::vector<Member> members;
  std::map<ValueIndex, std::size_t> number_of;
  std::map<ValueIndex, std::set<int>> reads;  ///< loops that read an f32 value of all rows and columns
  int count = 0;

 private:
  void add(const CompiledPrimitive& primitive, ValueIndex v, const Rows& rows) {
    const Reads all = reads_of(primitive);
    Member member = member_of(primitive, v, rows, members.size(), all.forms);
    for (const CompiledAccess* access : all.accesses) {
      if (const Member* from = made(access->value))
        member.phase =
            std::max(member.phase, from->phase + (from->is_of_row() && member.has_columns ? 1 : 0));
    }
    for (const CompiledAccess* access : all.accesses) {
      if (Member* from = made(access->value)) {
        if (!from->is_of_row() && from->phase != member.phase) from->is_read_later = true;
      } else if (access->is_linear && access->dtype == DType::kF32 &&
                 member.is_whole(form_of(primitive, access->linear, access->offset))) {
        reads[access->value].insert(member.phase);
      }
    }
    count = std::max(count, member.phase + 1);
    number_of[v] = members.size();
    members.push_back(std::move(member));
  }
};

class RowsKernel final : public NumberReader {
 public:
  RowsKernel(const Plan& plan, const Rows& rows, std::span<const ValueIndex> stored)
      : form_(rows), stored_(stored.begin(), stored.end()), plan_(plan), loops_(plan, rows) {}

  DeviceKernel write() {
    begin();
    add_rows(-1);
    for (int phase = 0; phase < loops_.count; ++phase) {
      if (has_loop(phase)) add_loop(phase);
      add_rows(phase);
    }
    Lines all;
    arguments_.declare(all);
    all.append(lines_);
    const std::int64_t blocks = (form_.rows + kTeams - 1) / kTeams;
    return {all.text(), arguments_.all(), static_cast<std::uint32_t>(kLanes * kTeams), blocks};
  }

  std::string inside(ValueIndex value, DType dtype, const Form& form) override {
    if (const Member* made = loops_.made(value)) return made_in_row(*made);
    const std::string element =
        element_of(value, dtype, current_->is_whole(form) ? place() : current_->loops.text(form));
    const std::string number = dtype == DType::kF32 ? element : "integer(" + element + ")";
    const std::string type = dtype == DType::kF32 ? "float" : "std::int64_t";
    const auto kept = loops_.reads.find(value);
    if (kept == loops_.reads.end() || kept->second.size() < 2 || !current_->is_whole(form))
      return lines_.constant(type, number);
    const std::string name = "x" + std::to_string(arguments_number(value, dtype));
    if (*kept->second.begin() != current_->phase) return name + "[n]";
    if (assigned_.insert(name).second) lines_.add(name + "[n] = " + number + ";");
    return name + "[n]";
  }

  std::string at(ValueIndex value, DType dtype, const std::string& place) override {
    const std::string element = element_of(value, dtype, place);
    return dtype == DType::kF32 ? element : "integer(" + element + ")";
  }

 private:
  /// Reads an element with fixed(), since Rows read nothing that they write (plan_memory()): so a
  /// column need not wait until the one before is stored.
  std::string element_of(ValueIndex value, DType dtype, const std::string& place) {
    return "fixed(" + arguments_.read(value, dtype) + " + (" + place + "))";
  }

  [[nodiscard]] std::string columns() const { return std::to_string(form_.columns); }
  [[nodiscard]] std::int64_t columns_of_thread() const { return (form_.columns + kLanes - 1) / kLanes; }
  /// The number of the value among the arguments.
  int arguments_number(ValueIndex value, DType dtype) {
    return std::stoi(arguments_.read(value, dtype).substr(1));
  }

  /// The place of the row's and column's element in a value of all rows and columns.
  [[nodiscard]] std::string place() const {
    const bool is_narrow = form_.rows * form_.columns <= 0x7fffffff;
    return is_narrow ? fmt::format("r * {}U + c", form_.columns)
                     : fmt::format("integer(r) * {} + c", form_.columns);
  }

  [[nodiscard]] bool has_loop(int phase) const {
    return std::any_of(loops_.members.begin(), loops_.members.end(),
                       [&](const Member& member) { return member.has_columns && member.phase == phase; });
  }

  std::string made_in_row(const Member& from) const {
    return from.is_of_row() || from.phase == current_->phase ? from.number : array_of(from) + "[n]";
  }
  [[nodiscard]] static std::string array_of(const Member& member) { return "m" + member.name; }

  void begin() {
    lines_.add(fmt::format("const std::uint32_t lane = threadIdx.x % {}U, team = threadIdx.x / {}U;", kLanes,
                           kLanes));
    lines_.add(fmt::format("const std::uint32_t row = blockIdx.x * {}U + team;", kTeams));
    lines_.add(fmt::format("const bool exists = row < {}U;", form_.rows));
    lines_.add(fmt::format("const std::uint32_t r = exists ? row : {}U;", form_.rows - 1));
    for (const Member& member : loops_.members) {
      const char* const type = member.primitive->dtype == DType::kF32 ? "float" : "std::int64_t";
      if (member.is_read_later)
        lines_.add(fmt::format("{} {}[{}];", type, array_of(member), columns_of_thread()));
    }
    for (const auto& [value, phases] : loops_.reads) {
      if (phases.size() > 1)
        lines_.add(fmt::format("float x{}[{}];", arguments_number(value, DType::kF32), columns_of_thread()));
    }
    for (Member& member : loops_.members) member.loops.declare(lines_, 0);
  }

  void add_loop(int phase) {
    for (const Member& member : loops_.members) {
      if (member.is_fold && member.phase == phase)
        lines_.add(fmt::format("float acc{} = {};", member.name, member.is_sum() ? "0" : "least<float>()"));
    }
    lines_.open(fmt::format("DGX_UNROLL for (int n = 0; n < {}; ++n)", columns_of_thread()));
    lines_.add(fmt::format("const std::uint32_t c = lane + {}U * n;", kLanes));
    if (form_.columns % kLanes != 0) lines_.open(fmt::format("if (c < {}U)", columns()));
    for (Member& member : loops_.members) {
      if (!member.has_columns || member.phase != phase) continue;
      current_ = &member;
      member.loops.declare(lines_, 1);
      member.is_fold ? take(member) : make(member);
    }
    if (form_.columns % kLanes != 0) lines_.close();
    lines_.close();
    for (Member& member : loops_.members) {
      if (!member.is_fold || member.phase != phase) continue;
      member.number = "fold" + member.name;
      lines_.add(fmt::format("const float {} = as_f32({}_of_team(acc{}));", member.number,
                             member.is_sum() ? "sum" : "best", member.name));
      store_row(member);
    }
  }

  std::string run(const Member& member) {
    const CompiledPrimitive& primitive = *member.primitive;
    const std::string result = ElementWriter(primitive, member.loops, *this, lines_).run(primitive.steps);
    return primitive.dtype == DType::kU8 ? lines_.constant("std::int64_t", "to_u8(" + result + ")") : result;
  }

  /// Folds a column's term into the thread's part of a row's fold.
  void take(const Member& member) {
    const std::string acc = "acc" + member.name, term = run(member);
    lines_.add(member.is_sum() ? acc + " = " + acc + " + " + term + ";"
                               : acc + " = best_of(" + acc + ", " + term + " + 0.0F);");
  }

  void make(Member& member) {
    member.number = run(member);
    if (member.is_read_later) lines_.add(array_of(member) + "[n] = " + member.number + ";");
    if (stored_.contains(member.value)) store(member, form_.rows % kTeams == 0 ? "" : "if (exists)", place());
  }

  void store(const Member& member, const std::string& condition, const std::string& place) {
    const DType dtype = member.primitive->dtype;
    lines_.open(condition);
    lines_.add(fmt::format("const {} y = as_{}({});", memory_type(dtype), type_name(dtype), member.number));
    lines_.add(fmt::format("{}[{}] = y;", arguments_.written(member.value, dtype), place));
    if (plan_.checked[member.value])
      lines_.add("if (!is_finite(y)) *" + arguments_.flag(member.value) + " = 1;");
    lines_.close();
  }

  void store_row(const Member& member) {
    if (stored_.contains(member.value)) store(member, "if (exists && lane == 0)", "r");
  }

  /// Writes the members with one number per row that can be made once loop `phase` is done.
  void add_rows(int phase) {
    for (Member& member : loops_.members) {
      if (member.has_columns || member.phase != phase) continue;
      current_ = &member;
      member.number = run(member);
      store_row(member);
    }
  }

  const Rows& form_;
  const std::set<ValueIndex> stored_;
  const Plan& plan_;
  RowLoops loops_;
  std::set<std::string> assigned_;
  KernelArguments arguments_;
  const Member* current_ = nullptr;
  Lines lines_;
};

}  // namespace

DeviceKernel KernelWriter::rows(const Rows& rows, std::span<const ValueIndex> stored) const {
  return RowsKernel(plan_, rows, stored).write();
}

}  // namespace dgx::exec
