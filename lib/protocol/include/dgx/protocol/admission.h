#pragma once

#include <cstdint>

#include "dgx/core/result.h"
#include "dgx/manifest/task.h"
#include "dgx/program/program.h"

namespace dgx::protocol {

/// Whether a task can be trained, proved, defended and attacked by whoever is honest (dgx-program(5), "Task and
/// program"). Checked before anybody signs, locks money or works: later it would be their loss.

/// Most segments of a task: a reader of a ledger draws from so many, and a proof has room for their states.
inline constexpr std::int64_t kMaxSegments = 65536;

/// What a task shows without its program, for a ledger: its segments can be committed to, its data counted, the
/// numbers of its schedule computed at every step. kMalformed, naming the field.
[[nodiscard]] Status check_admission(const manifest::Task& task);

/// What a ledger asks of a task beside: a solver's bond that pays at least twice for the check that finds a cheat, and deters
/// whoever gains nothing from outside (unless the policy has unsafe_bonds); an opening that fits into the store. kUsage,
/// with the numbers.
[[nodiscard]] Status check_terms(const manifest::Task& task);

/// The same as the first, and that the task is about this program, which has passed check_program(): work, state and batch are
/// those that the task names, and its price follows from them. For whoever submits, offers, assigns, trains or
/// verifies.
[[nodiscard]] Status check_admission(const manifest::Task& task, const program::Program& program);

}  // namespace dgx::protocol
