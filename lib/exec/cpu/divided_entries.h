#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "dgx/core/range.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/exchange/exchange.h"
#include "dgx/program/pieces.h"

namespace dgx::exec {

/// A rank's slices of the entries that are divided among ranks (dgx-placement(7), "Ranks"): those that it
/// has now, and memory for those that its body makes of them. All slices together are the entries.
class DividedEntries {
 public:
  /// Divides these `entries`, as program::divided_entries() gives them: makes them class S in `classes`. Of
  /// each, this rank is to have `own` of its slices. Borrows the program. Takes no memory.
  void plan(const program::Program& program, program::Classes& classes, program::SliceRange own,
            const std::vector<kernels::ValueIndex>& entries);
  void take_memory();
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  /// Bytes of the slices, once.
  [[nodiscard]] std::int64_t bytes() const;

  /// The memory of an entry's slices, or of what line `v` of the step makes of an entry; null for others, and
  /// until memory is taken.
  [[nodiscard]] std::uint8_t* of_entry(kernels::ValueIndex entry);
  [[nodiscard]] std::uint8_t* of_line(kernels::ValueIndex v);
  [[nodiscard]] bool has_entry(kernels::ValueIndex entry) const { return entries_.contains(entry); }
  [[nodiscard]] bool has_line(kernels::ValueIndex v) const;

  /// Takes the slices from a whole state of the program.
  void load(const State& state);
  /// kMalformed as of not_finite() if a number that was made is not finite.
  [[nodiscard]] Status check_finite(std::int64_t step) const;
  /// The entries become what was made.
  void advance();
  /// Brings entry `entry` together in `all` on rank 0, by messages with its number as tag; `slices` has those
  /// of each rank. All ranks call it, the others with no tensor. Errors of the messages.
  [[nodiscard]] Status collect(kernels::ValueIndex entry, exchange::Exchange& ranks,
                               std::span<const program::SliceRange> slices, Tensor* all) const;

 private:
  struct Slices {
    kernels::ValueIndex line{};  // what the entry becomes
    Shape shape{};
    Tensor now{}, next{};
  };
  [[nodiscard]] Range bytes_of(kernels::ValueIndex entry, program::SliceRange slices) const;

  const program::Program* program_ = nullptr;
  std::int64_t slices_ = 1;
  program::SliceRange own_;
  std::map<kernels::ValueIndex, Slices> entries_;
};

}  // namespace dgx::exec
