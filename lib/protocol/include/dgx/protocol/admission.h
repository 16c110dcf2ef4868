#pragma once

#include <cstdint>
#include <optional>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"
#include "dgx/program/program.h"
#include "dgx/protocol/segments.h"

namespace dgx::protocol {

/// Admission: a task must be one that honest parties can train, prove, defend and attack (dgx-program(5),
/// "Task and program"). Checked before anybody signs, locks money or works, since later it would be their
/// loss.

/// Most segments a task may have: a reader of a ledger can draw from that many, and a proof has room for
/// their states.
inline constexpr std::int64_t kMaxSegments = 65536;

/// Checks a task without its program, for a ledger: its segments can be committed to, its data counted, and
/// the numbers of its schedule computed at every step: kMalformed, naming the field. If it names a ledger,
/// the longest segment has no more work than its policy's segment_operations: kUsage.
[[nodiscard]] Status check_admission(const manifest::Task& task);

/// Checks a task's terms for a ledger: the solver's bond pays at least twice for the check that finds a
/// cheat, and deters a solver with no outside benefit (unless the policy has unsafe_bonds); an opening fits
/// into the store. kUsage, with the numbers.
[[nodiscard]] Status check_terms(const manifest::Task& task);

/// check_admission(task), and also checks that the task is about this program, which has passed
/// check_program(): its work, state and batch are those that the task names, and the price follows from them.
/// For whoever submits, offers, assigns, trains or verifies.
[[nodiscard]] Status check_admission(const manifest::Task& task, const program::Program& program);

/// Milliseconds that the longest segment takes if `steps` steps take `seconds`, rounded up, 1 to 2^53.
[[nodiscard]] std::int64_t segment_milliseconds(const Segments& segments, double seconds, std::int64_t steps);

/// The most milliseconds that the longest segment may take the signer of an offer or assign: four times as
/// much is half a move's window (dgx-protocol(7), "Segments").
[[nodiscard]] std::int64_t most_segment_milliseconds(const manifest::Policy& policy);

/// Checks that a party who replays the task's longest segment in `milliseconds` may offer or assign. A task
/// that names no ledger has no window and needs no number. kUsage, with the time and the window.
[[nodiscard]] Status check_segment_time(const manifest::Task& task, std::optional<std::int64_t> milliseconds);

}  // namespace dgx::protocol
