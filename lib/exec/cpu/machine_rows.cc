// Entries of which a batch replaces rows (ReplacedRows).
#include <algorithm>
#include <cstring>

#include "cpu/machine_thread.h"

namespace dgx::exec {

/// Members share the rows. Each goes through the positions twice: first the last one of a row takes its
/// place, then it alone makes the row.
void Machine::run(const ReplacedRows& replaced, Thread& thread, int member, int members) {
  const Range rows = share(replaced.rows, 1, member, members);
  auto* const out = thread.at<std::uint8_t>(replaced.out);
  const auto* const old = thread.at<const std::uint8_t>(replaced.entry);
  if (out != old) {
    const auto first = rows.begin * replaced.row_bytes;
    std::memcpy(out + first, old + first, static_cast<std::size_t>(rows.size() * replaced.row_bytes));
  }
  const auto row_of = [&](std::int64_t position) {
    const std::int64_t at = replaced.key_base + position * replaced.key_stride;
    return replaced.key_dtype == DType::kU8
               ? static_cast<std::int64_t>(thread.at<const std::uint8_t>(replaced.keys)[at])
               : thread.at<const std::int64_t>(replaced.keys)[at];
  };
  const auto is_own = [&](std::int64_t row) { return row >= rows.begin && row < rows.end; };
  auto* const places = thread.at<std::int64_t>(replaced.place);
  for (std::int64_t position = 0; position < replaced.positions; ++position) {
    if (const std::int64_t row = row_of(position); is_own(row)) places[row] = position;
  }
  StripRunner runner(replaced.program, *thread.memory, nullptr, thread.strips);
  const std::int64_t units = StripRunner::unit_count(replaced.program) / replaced.rows;
  for (std::int64_t position = 0; position < replaced.positions; ++position) {
    const std::int64_t row = row_of(position);
    if (is_own(row) && places[row] == position) runner.run(row * units, (row + 1) * units);
  }
}

}  // namespace dgx::exec
