#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// Class of a line with regard to the samples of a batch (dgx-placement(7), "Classes").
enum class SampleClass : std::uint8_t {
  kSharded,  ///< a part makes its slices of the value
  kCarried,  ///< a dot or chain over samples: each part goes on where the one before it stopped
  kWhole,    ///< whoever needs the value makes all of it
};
/// "S", "C" or "W".
[[nodiscard]] char letter_of(SampleClass of);

/// A value of class S of which `reader` needs more than the slices that it makes.
struct Gather {
  kernels::ValueIndex value{}, reader{};
  bool operator==(const Gather&) const = default;
};

/// The classes of a program's lines for a batch of `slices` slices.
struct Classes {
  std::int64_t slices = 1;
  kernels::ByValue<SampleClass> of;  ///< of entries kWhole; whoever divides some turns these into kSharded
  /// The lines of class S and C that are not inputs, and all lines, inputs too, that they need. No line of
  /// the body needs one of class C.
  kernels::ByValue<bool> body;
  /// Without those of inputs, which are not moved; by reader, then in order of its accesses, each pair once.
  std::vector<Gather> gathers;
  /// The rank that alone makes and has a line or entry, for each, or kEveryRank (program/experts.h). Empty if
  /// all ranks have all.
  kernels::ByValue<int> home;

  static constexpr int kEveryRank = -1;
  [[nodiscard]] int home_of(kernels::ValueIndex v) const { return home.empty() ? kEveryRank : home[v]; }
  [[nodiscard]] bool is_on(kernels::ValueIndex v, int rank) const {
    return home_of(v) == kEveryRank || home_of(v) == rank;
  }
};

/// The samples of the program's batch: the first dimension of its `batch` inputs. kUsage if it has none, or
/// they differ, naming the line.
[[nodiscard]] Result<std::int64_t> batch_samples(const Program& program);

/// The class of line `v` by those of the values before it (`of` has them): kCarried for every candidate, also
/// for one that the body or another candidate needs, which classify() makes a line of class W.
[[nodiscard]] SampleClass class_by_reads(const Program& program, kernels::ValueIndex v,
                                         const kernels::ByValue<SampleClass>& of, std::int64_t slices);

/// Classes the lines of a checked program, whose batch is to be cut into `slices` equal slices. kUsage if
/// they do not divide the batch; errors of batch_samples(). Cost: linear in the text.
[[nodiscard]] Result<Classes> classify(const Program& program, std::int64_t slices);

/// The gathers of lines that have these classes.
[[nodiscard]] std::vector<Gather> gathers_of(const Program& program, const Classes& classes);

/// The entries whose slices alone each part makes and reads (dgx-placement(7), "Ranks", divided entries), by
/// the numbers of their inputs, ascending. None whose next is among `watched`.
[[nodiscard]] std::vector<kernels::ValueIndex> divided_entries(
    const Program& program, const Classes& classes, const std::vector<kernels::ValueIndex>& watched = {});

/// The lines of class C that add up what is mostly 0 (dgx-placement(7), "Ranks", sparse lines), given the
/// entries that are divided; ascending.
[[nodiscard]] std::vector<kernels::ValueIndex> sparse_lines(const Program& program, const Classes& classes,
                                                            const std::vector<kernels::ValueIndex>& divided);

/// True if access `access` of line `line` reads a value of class S, inputs included, that the line needs
/// whole.
[[nodiscard]] bool needs_whole(const Program& program, const Classes& classes, kernels::ValueIndex line,
                               std::size_t access);

}  // namespace dgx::program
