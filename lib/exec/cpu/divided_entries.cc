#include "cpu/divided_entries.h"

#include <algorithm>
#include <utility>

#include "cpu/inputs.h"
#include "plan/plan.h"

namespace dgx::exec {

using kernels::Primitive;
using kernels::ValueIndex;

void DividedEntries::plan(const program::Program& program, program::Classes& classes, program::SliceRange own,
                          const std::vector<ValueIndex>& entries) {
  program_ = &program;
  slices_ = classes.slices;
  own_ = own;
  for (const ValueIndex v : entries) {
    classes.of[v] = program::SampleClass::kSharded;
    Slices& entry = entries_[v];
    entry.line = *program.values[v].next;
    entry.shape = program.values[v].shape;
    entry.shape[0] = entry.shape[0] / slices_ * (own.end - own.begin);
  }
}

void DividedEntries::take_memory() {
  for (auto& [v, entry] : entries_) {
    entry.now = Tensor(program_->values[v].dtype, entry.shape);
    entry.next = Tensor(program_->values[v].dtype, entry.shape);
  }
}

Range DividedEntries::bytes_of(ValueIndex entry, program::SliceRange slices) const {
  const std::int64_t each = exec::bytes_of(program_->values[entry]) / slices_;
  return {each * slices.begin, each * slices.end};
}

std::int64_t DividedEntries::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [v, entry] : entries_) sum += bytes_of(v, own_).size();
  return sum;
}

std::uint8_t* DividedEntries::of_entry(ValueIndex entry) {
  const auto found = entries_.find(entry);
  return found == entries_.end() ? nullptr : found->second.now.bytes().data();
}

std::uint8_t* DividedEntries::of_line(ValueIndex v) {
  for (auto& [input, entry] : entries_) {
    if (entry.line == v) return entry.next.bytes().data();
  }
  return nullptr;
}

bool DividedEntries::has_line(ValueIndex v) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry.second.line == v; });
}

void DividedEntries::load(const State& state) {
  for (auto& [v, entry] : entries_) {
    const auto whole = std::ranges::find(state, program_->values[v].source.name, &Entry::name);
    const Range range = bytes_of(v, own_);
    const auto slices = whole->tensor.bytes().subspan(static_cast<std::size_t>(range.begin),
                                                      static_cast<std::size_t>(range.size()));
    std::ranges::copy(slices, entry.now.bytes().begin());
  }
}

Status DividedEntries::check_finite(std::int64_t step) const {
  for (const auto& [v, entry] : entries_) {
    if (entry.next.dtype() != DType::kF32) continue;
    const auto bad = first_not_finite(entry.next.view());
    if (!bad) continue;
    const auto before = static_cast<std::size_t>(bytes_of(v, own_).begin) / sizeof(float);
    return not_finite(step, program_->values[v].source.name, before + *bad);
  }
  return {};
}

void DividedEntries::advance() {
  for (auto& [v, entry] : entries_) std::swap(entry.now, entry.next);
}

Status DividedEntries::collect(ValueIndex entry, exchange::Exchange& ranks,
                               std::span<const program::SliceRange> slices, Tensor* all) const {
  const ByteView own = entries_.at(entry).now.bytes();
  if (all == nullptr) return ranks.wait(ranks.send(0, to_number(entry), own));
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    const Range range = bytes_of(entry, slices[rank]);
    const auto at =
        all->bytes().subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    if (rank == 0)
      std::ranges::copy(own, at.begin());
    else
      DGX_CHECK(ranks.wait(ranks.receive(static_cast<int>(rank), to_number(entry), at)));
  }
  return {};
}

}  // namespace dgx::exec
