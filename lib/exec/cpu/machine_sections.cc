// The walk of the team through a plan's sections, and calls around operations.
#include <algorithm>
#include <chrono>

#include "cpu/machine_thread.h"
#include "cpu/processor_clock.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;

namespace {

/// The serial section that costs most, during which the other members are idle; sections.size() if there is
/// none.
std::size_t longest_serial_section(const Plan& plan) {
  std::size_t longest = plan.sections.size();
  double most = 0;
  for (std::size_t s = 0; s < plan.sections.size(); ++s) {
    const Section& section = plan.sections[s];
    double cost = 0;
    for (std::size_t t = section.begin; section.serial && t < section.end; ++t)
      cost += plan.operations[t].cost;
    if (cost > most) longest = s;
    most = std::max(most, cost);
  }
  return longest;
}

}  // namespace

void Machine::find_idle_section() {
  idle_section_ = team_->size() > 1 ? longest_serial_section(plan_) : plan_.sections.size();
}

Status Machine::surround(ValueIndex value, Around around) {
  for (std::size_t o = 0; o < plan_.operations.size(); ++o) {
    const auto values = values_of(plan_.operations[o]);
    if (std::ranges::find(values, value) == values.end()) continue;
    const auto inside = [o](const SlicedOperations& sliced) { return o >= sliced.begin && o < sliced.end; };
    if (std::ranges::any_of(plan_.sliced, inside)) break;
    around_.insert_or_assign(o, std::move(around));
    return {};
  }
  return internal_error("no operation of its own makes value " + std::to_string(to_number(value)));
}

Status Machine::call_behind(std::span<const ValueIndex> values, std::function<void()> function) {
  const auto makes_some = [&](const Operation& operation) {
    return std::ranges::any_of(values_of(operation), [&](ValueIndex made) {
      return std::ranges::find(values, made) != values.end();
    });
  };
  const auto last = std::find_if(plan_.operations.rbegin(), plan_.operations.rend(), makes_some);
  if (last == plan_.operations.rend()) return internal_error("no operation makes one of these values");
  last_before_ = static_cast<std::size_t>(plan_.operations.rend() - last) - 1;
  behind_ = std::move(function);
  return {};
}

Status Machine::run(const std::function<void(int member)>& prologue, const std::function<void()>& aside) {
  if (sleep_factor_ > 0) {
    sleep_sections();
    if (aside) aside();
    return {};
  }
  if (processor_ && processor_->runs++ == 1) {  // the first run was cold
    std::ranges::fill(processor_->by_operation, 0);
    processor_->prologue = 0;
  }
  for (const auto& thread : threads_)
    std::fill(thread->strips.flags().begin(), thread->strips.flags().end(), 0);
  const auto begin = std::chrono::steady_clock::now();
  if (policy_.together()) {
    team_->run([&](int member) {
      prologue(member);
      team_->barrier(member);
      run_sections(member, team_->size(), aside);
    });
  } else {
    const ProcessorClock clock(processor_ ? &processor_->prologue : nullptr);
    for (int member = 0; member < team_->size(); ++member) prologue(member);
    clock.charge();
    run_sections(0, 1, {});
    if (aside) aside();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (team_->size() > 1) policy_.note(seconds, team_->take_slept());
  return first_error();
}

void Machine::run_sections(int member, int members, const std::function<void()>& aside) {
  OperationClock clock(member == 0 ? &operation_seconds_ : nullptr);
  for (const Section& section : plan_.sections) {
    if (aside && member == 1 && &section == plan_.sections.data() + idle_section_) aside();
    if (section.sliced) {
      const ProcessorClock processor(processor_ ? &processor_->by_operation[section.begin] : nullptr);
      run_slices(plan_.sliced[*section.sliced], member, members, clock);
      processor.charge();
    } else if (!section.serial) {
      run_surrounded(section.begin, member, members);
    } else if (member == 0) {
      for (std::size_t t = section.begin; t < section.end; ++t) {
        run_surrounded(t, 0, 1);
        call_after(t, t + 1);
        clock.charge(t);
      }
    }
    if (members > 1) team_->barrier(member);
    if (!section.serial && member == 0) call_after(section.begin, section.end);
    if (!section.serial) clock.charge(section.end - 1);
  }
}

Status Machine::run_each(const std::function<void(int member)>& prologue,
                         const std::function<Status(ValueIndex, std::span<std::uint8_t>)>& made) {
  team_->run(prologue);
  std::size_t next_operation = 0;
  for (const ValueIndex v : memory_.indices()) {
    if (plan_.program->values[v].kind != Kind::kInput) {
      const Operation& operation = plan_.operations[next_operation++];
      team_->run([&](int member) { run_operation(operation, member, team_->size()); });
      DGX_CHECK(first_error());
    }
    DGX_CHECK(made(v, {static_cast<std::uint8_t*>(memory_[v]), views_[v].bytes.size()}));
  }
  return {};
}

void Machine::run_surrounded(std::size_t number, int member, int members) {
  const auto around = around_.find(number);
  const bool is_surrounded = around != around_.end();
  if (is_surrounded && member == 0) around->second.before();
  if (is_surrounded && members > 1) team_->barrier(member);
  const ProcessorClock clock(processor_ ? &processor_->by_operation[number] : nullptr);
  run_operation(plan_.operations[number], member, members);
  clock.charge();
  if (is_surrounded && members > 1) team_->barrier(member);
  if (is_surrounded && member == 0) around->second.after();
}

/// Makes the calls that follow operations [begin, end), which all members have done.
void Machine::call_after(std::size_t begin, std::size_t end) const {
  if (between_) between_();
  if (behind_ && last_before_ >= begin && last_before_ < end) behind_();
}

double Machine::processor_seconds() const {
  if (!processor_ || processor_->runs == 0) return 0;
  double sum = processor_->prologue;
  for (const double seconds : processor_->by_operation) sum += seconds;
  return sum / static_cast<double>(std::max<std::int64_t>(processor_->runs - 1, 1));
}

/// Sleeps in place of all operations. What calls take is not made up for: a clock goes on from their end.
void Machine::sleep_sections() {
  const double each = sleep_factor_ / static_cast<double>(std::max<std::int64_t>(processor_->runs - 1, 1));
  Sleeper sleeper(between_);
  sleeper.add(processor_->prologue * each);
  for (std::size_t o = 0; o < plan_.operations.size(); ++o) {
    const auto around = around_.find(o);
    if (around != around_.end()) {
      sleeper.sleep();
      around->second.before();
      sleeper.wake();
    }
    sleeper.add(processor_->by_operation[o] * each);
    const bool is_behind = behind_ && o == last_before_;
    if (around == around_.end() && !is_behind) continue;
    sleeper.sleep();
    if (around != around_.end()) around->second.after();
    if (is_behind) behind_();
    sleeper.wake();
  }
  sleeper.sleep();
}

}  // namespace dgx::exec
