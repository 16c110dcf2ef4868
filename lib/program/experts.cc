// Experts: which lines and entries one rank can have alone, by the form of the lines.
#include "dgx/program/experts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "input_lines.h"

namespace dgx::program {

using kernels::Access;
using kernels::ByValue;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Primitive;
using kernels::Term;
using kernels::ValueIndex;

namespace {

constexpr int kNone = Experts::kNone;

/// True for a coordinate that is what access 1 reads.
bool is_index(const Coordinate& coordinate) {
  return coordinate.constant == 0 && coordinate.division == Coordinate::Division::kNone &&
         coordinate.terms == std::vector<Term>{{Term::Symbol::kAccess, 1, 1}};
}

/// Branches: lines of the body that hang on one dispatch of a fan, or on several whose lines read the same
/// entries.
class Branches {
 public:
  Branches(const Program& program, const Classes& classes)
      : program_(program),
        classes_(classes),
        begun_(program.values.size(), kNone),
        joined_(program.values.size(), kNone) {
    find_fans();
    for (const ValueIndex v : program.values.indices()) {
      if (classes.body[v] && !is_input(program.values[v]) && begun_[v] == kNone) join(v);
    }
    check_readers();
  }

  /// The branch that a line of the body or an entry has joined, if that is an expert, by the number of its
  /// first dispatch among all.
  [[nodiscard]] int expert_of(ValueIndex v) const {
    if (joined_[v] == kNone) return kNone;
    const Branch& branch = branches_[root(joined_[v])];
    return branch.has_entry && !branch.is_read_otherwise ? branch.first : kNone;
  }
  /// The fan of a dispatch.
  [[nodiscard]] int fan_of(int dispatch) const { return fan_of_[static_cast<std::size_t>(dispatch)]; }

 private:
  struct Branch {
    std::size_t parent = 0;  ///< itself, or the branch with which it became one
    int first = 0;           ///< its first dispatch
    std::set<int> fans{};
    bool has_entry = false, is_read_otherwise = false;
  };

  [[nodiscard]] bool is_dispatch(ValueIndex v) const {
    const Primitive& line = program_.values[v];
    if (line.kind != Kind::kMap || line.dtype != DType::kF32 || !line.steps.empty() ||
        line.accesses.size() != 2 || classes_.of[v] != SampleClass::kSharded)
      return false;
    const ValueIndex rows = line.accesses[0].value, numbers = line.accesses[1].value;
    return classes_.of[rows] == SampleClass::kSharded && classes_.of[numbers] == SampleClass::kSharded &&
           program_.values[numbers].dtype == DType::kI64 &&
           std::ranges::any_of(line.accesses[0].coordinates, is_index);
  }

  void find_fans() {
    std::map<std::pair<ValueIndex, ValueIndex>, std::vector<ValueIndex>> fans;
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_dispatch(v)) continue;
      const auto& accesses = program_.values[v].accesses;
      fans[{accesses[0].value, accesses[1].value}].push_back(v);
    }
    std::vector<std::pair<ValueIndex, int>> dispatches;
    int fan = 0;
    for (const auto& [read, lines] : fans) {
      if (lines.size() < 2) continue;
      for (const ValueIndex v : lines) dispatches.emplace_back(v, fan);
      ++fan;
    }
    std::ranges::sort(dispatches);
    for (const auto& [v, of] : dispatches) {
      const auto number = static_cast<int>(branches_.size());
      begun_[v] = number;
      fan_of_.push_back(of);
      branches_.push_back({.parent = branches_.size(), .first = number, .fans = {of}});
    }
  }

  [[nodiscard]] std::size_t root(int branch) const {
    auto at = static_cast<std::size_t>(branch);
    while (branches_[at].parent != at) at = branches_[at].parent;
    return at;
  }
  [[nodiscard]] int branch_of(ValueIndex v) const { return begun_[v] != kNone ? begun_[v] : joined_[v]; }

  /// Lets the line, and the entries that it reads, join the one branch of which it reads something.
  void join(ValueIndex v) {
    std::optional<std::size_t> only;
    for (const Access& access : program_.values[v].accesses) {
      if (is_input(program_.values[access.value]) || branch_of(access.value) == kNone) continue;
      const std::size_t found = root(branch_of(access.value));
      if (only.value_or(found) != found) return;
      only = found;
    }
    if (!only) return;
    joined_[v] = static_cast<int>(*only);
    for (const Access& access : program_.values[v].accesses) {
      if (is_entry(program_.values[access.value])) take_entry(access.value, root(joined_[v]));
    }
  }

  void take_entry(ValueIndex entry, std::size_t branch) {
    int& of = joined_[entry];
    if (of == kNone) {
      of = static_cast<int>(branch);
      branches_[branch].has_entry = true;
    } else {
      unite(root(of), branch);
    }
  }

  /// Two branches become one, unless both have a dispatch of one fan. The one with more fans takes the other.
  void unite(std::size_t a, std::size_t b) {
    if (a == b || apart_.contains(std::minmax(a, b))) return;
    if (branches_[a].fans.size() < branches_[b].fans.size()) std::swap(a, b);
    Branch &more = branches_[a], &less = branches_[b];
    if (std::ranges::any_of(less.fans, [&](int fan) { return more.fans.contains(fan); })) {
      apart_.insert(std::minmax(a, b));
      return;
    }
    more.fans.merge(less.fans);
    more.first = std::min(more.first, less.first);
    more.has_entry = more.has_entry || less.has_entry;
    less.parent = a;
  }

  /// Finds the branches of which others of the body need more than slices.
  void check_readers() {
    for (const ValueIndex v : program_.values.indices()) {
      const auto& accesses = program_.values[v].accesses;
      if (!classes_.body[v]) continue;
      for (std::size_t n = 0; n < accesses.size(); ++n) {
        const ValueIndex read = accesses[n].value;
        if (is_input(program_.values[read]) || joined_[read] == kNone) continue;
        const std::size_t branch = root(joined_[read]);
        if (joined_[v] != kNone && root(joined_[v]) == branch) continue;
        const bool is_of_slices = classes_.of[v] == SampleClass::kSharded &&
                                  classes_.of[read] == SampleClass::kSharded &&
                                  !needs_whole(program_, classes_, v, n);
        if (!is_of_slices) branches_[branch].is_read_otherwise = true;
      }
    }
  }

  const Program& program_;
  const Classes& classes_;
  ByValue<int> begun_;   // by dispatch the branch that it begins
  ByValue<int> joined_;  // of lines of the body and entries
  std::vector<Branch> branches_;
  std::set<std::pair<std::size_t, std::size_t>> apart_;  // that have a fan in common, which they keep
  std::vector<int> fan_of_;  // of the dispatch that began the branch of this number
};

/// Lines of the tail, and entries, that only an expert needs.
class Updates {
 public:
  /// `of` has the lines of the body. Decides on those of the tail, and on entries.
  Updates(const Program& program, const Classes& classes, const Branches& branches,
          const std::vector<ValueIndex>& watched, ByValue<int>& of)
      : program_(program), classes_(classes), of_(of), becoming_(program.values.size()) {
    for (const ValueIndex v : program.values.indices()) {
      if (may_leave(v)) of_[v] = kAny;
      if (program.values[v].next) becoming_[*program.values[v].next].push_back(v);
    }
    decide_entries(branches);
    for (const ValueIndex v : watched) of_[v] = may_leave(v) ? kNone : of_[v];
    decide_by_readers();
    decide_by_reads();
    for (const ValueIndex v : program.values.indices()) press(v);
    while (!left_.empty()) {
      const ValueIndex v = left_.back();
      left_.pop_back();
      press(v);
    }
  }

 private:
  static constexpr int kAny = -2;  // nothing has decided

  [[nodiscard]] bool is_line_of_tail(ValueIndex v) const {
    return !is_input(program_.values[v]) && !classes_.body[v];
  }

  /// True for what is decided on here: an entry, or a line of the tail.
  [[nodiscard]] bool may_leave(ValueIndex v) const {
    return is_entry(program_.values[v]) || is_line_of_tail(v);
  }

  /// Decides on entries that the body reads, and those that every rank has.
  void decide_entries(const Branches& branches) {
    for (const ValueIndex v : program_.values.indices()) {
      const Primitive& line = program_.values[v];
      if (is_input(line) || !classes_.body[v]) continue;
      for (const Access& access : line.accesses) {
        if (is_entry(program_.values[access.value])) of_[access.value] = branches.expert_of(access.value);
      }
    }
    for (const std::string_view name : {"loss", "step"}) {
      if (const auto entry = find_state_input(program_, name)) of_[*entry] = kNone;
    }
  }

  void decide(ValueIndex v, int by) {
    if (by == kAny) return;
    of_[v] = of_[v] == kAny || of_[v] == by ? by : kNone;
  }

  /// True if a line of the tail reads a line of the body that is not of this expert.
  [[nodiscard]] bool reads_others(ValueIndex v, int expert) const {
    return std::ranges::any_of(program_.values[v].accesses, [&](const Access& access) {
      const bool is_of_body = classes_.body[access.value] && !is_input(program_.values[access.value]);
      return is_of_body && of_[access.value] != expert;
    });
  }

  void decide_by_readers() {
    for (std::size_t n = program_.values.size(); n-- > 0;) {
      const auto v = static_cast<ValueIndex>(n);
      if (!is_line_of_tail(v)) continue;
      for (const ValueIndex entry : becoming_[v]) decide(v, of_[entry]);
      if (of_[v] >= 0 && reads_others(v, of_[v])) of_[v] = kNone;
      for (const Access& access : program_.values[v].accesses) {
        if (is_line_of_tail(access.value)) decide(access.value, of_[v]);
      }
    }
  }

  /// Decides on lines that are still open by what they read, and on entries by what they become.
  void decide_by_reads() {
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_line_of_tail(v) || of_[v] != kAny) continue;
      int only = kNone;
      bool differ = false;
      for (const Access& access : program_.values[v].accesses) {
        const int of = of_[access.value];
        differ = differ || (of >= 0 && only >= 0 && of != only);
        only = std::max(only, of);
      }
      of_[v] = differ || reads_others(v, only) ? kNone : only;
    }
    for (const ValueIndex v : program_.values.indices()) {
      if (!is_entry(program_.values[v]) || of_[v] != kAny) continue;
      const auto next = program_.values[v].next;
      of_[v] = next && is_line_of_tail(*next) ? of_[*next] : kNone;
    }
  }

  /// Lets what `v` reads or becomes, and what becomes it, leave another expert than that of `v`.
  void press(ValueIndex v) {
    const Primitive& line = program_.values[v];
    for (const Access& access : line.accesses) leave(access.value, of_[v]);
    if (line.next) leave(*line.next, of_[v]);
    for (const ValueIndex entry : becoming_[v]) leave(entry, of_[v]);
  }
  void leave(ValueIndex v, int unless) {
    if (!may_leave(v) || of_[v] == kNone || of_[v] == unless) return;
    of_[v] = kNone;
    left_.push_back(v);
  }

  const Program& program_;
  const Classes& classes_;
  ByValue<int>& of_;
  ByValue<std::vector<ValueIndex>> becoming_;  // entries, by the line that they become
  std::vector<ValueIndex> left_;
};

}  // namespace

int Experts::home(const Expert& expert, int ranks) const {
  const auto count = static_cast<std::size_t>(ranks);
  return static_cast<int>((expert.number * count / of_block[expert.block] + expert.block) % count);
}

Experts find_experts(const Program& program, const Classes& classes, const std::vector<ValueIndex>& watched) {
  const Branches branches(program, classes);
  ByValue<int> of(program.values.size(), kNone);  // of a line or entry its expert's first dispatch
  for (const ValueIndex v : program.values.indices()) {
    if (!is_input(program.values[v])) of[v] = branches.expert_of(v);
  }
  const std::set<int> dispatches(of.begin(), of.end());
  Updates(program, classes, branches, watched, of);
  Experts out;
  std::map<int, int> number;                // by first dispatch
  std::map<int, std::size_t> block_of_fan;  // in the order of first dispatches
  for (const int dispatch : dispatches) {
    if (dispatch == kNone) continue;
    const auto [block, is_new] = block_of_fan.emplace(branches.fan_of(dispatch), out.of_block.size());
    if (is_new) out.of_block.push_back(0);
    number[dispatch] = static_cast<int>(out.all.size());
    out.all.push_back({block->second, out.of_block[block->second]++});
  }
  for (const int dispatch : of) out.of.push_back(dispatch == kNone ? kNone : number.at(dispatch));
  return out;
}

Status place_experts(const Program& program, int ranks, const std::vector<ValueIndex>& watched,
                     Classes& classes) {
  const Experts experts = find_experts(program, classes, watched);
  if (experts.all.empty())
    return usage_error("the task's model has no experts (dgx-placement(7), EXPERTS)",
                       "leave --experts out, or take a plan made without");
  classes.home.assign(program.values.size(), Classes::kEveryRank);
  for (const ValueIndex v : program.values.indices()) {
    if (experts.of[v] == kNone) continue;
    classes.home[v] = experts.home(experts.all[static_cast<std::size_t>(experts.of[v])], ranks);
    if (classes.body[v] && !is_input(program.values[v])) classes.of[v] = SampleClass::kWhole;
  }
  classes.gathers = gathers_of(program, classes);
  return {};
}

std::vector<ValueIndex> given_by_homes(const Program& program, const Classes& classes,
                                       const std::vector<ValueIndex>& watched) {
  ByValue<bool> is_read(program.values.size(), false);
  for (const ValueIndex v : watched) is_read[v] = true;
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (classes.home_of(v) != Classes::kEveryRank) continue;
    if (line.next) is_read[*line.next] = true;
    if (classes.body[v]) continue;
    for (const Access& access : line.accesses) is_read[access.value] = true;
  }
  std::vector<ValueIndex> out;
  for (const ValueIndex v : program.values.indices()) {
    const bool is_of_body = classes.body[v] && !is_input(program.values[v]);
    if (is_read[v] && is_of_body && classes.home_of(v) != Classes::kEveryRank) out.push_back(v);
  }
  return out;
}

}  // namespace dgx::program
