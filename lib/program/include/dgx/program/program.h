#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"

namespace dgx::program {

/// Most lines of a program, and most bytes of its text.
inline constexpr std::size_t kMaxLines = 65536;
inline constexpr std::size_t kMaxProgramBytes = std::size_t{64} << 20;

/// One captured step, lowered: the value table (dgx-program(5)). values[v] defines value v from earlier ones.
struct Program {
  kernels::ByValue<kernels::Primitive> values;
  bool operator==(const Program&) const = default;
};

/// The bytes of TASK.program.jsonl: one line per value, each ended by a newline.
[[nodiscard]] std::string print_program(const Program& program);

/// Exact inverse of print_program. kMalformed, with line and position, for text that is not canonical, for
/// more than the caps, and for a missing last newline. Does not check meaning: call check_program (check.h)
/// before using the result.
[[nodiscard]] Result<Program> parse_program(std::string_view text);

/// RFC 6962 root over the lines, without their newlines: what a task binds. A single line can be opened from
/// it.
[[nodiscard]] Digest program_root(const Program& program);
/// program_root() of the text, which need not be a valid program. A last line without newline counts as a
/// line.
[[nodiscard]] Digest program_root(std::string_view text);

/// The lines of the text, without newlines; they borrow from it.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);

/// The value that is the state entry `name` when the step starts, or nullopt.
[[nodiscard]] std::optional<kernels::ValueIndex> find_state_input(const Program& program,
                                                                  std::string_view name);

/// All state inputs in order of entry name (the order of dgx::State).
[[nodiscard]] std::vector<kernels::ValueIndex> state_inputs(const Program& program);

/// The names of the entries that no step changes, ascending: those whose next value is their own input.
[[nodiscard]] std::vector<std::string> constant_entries(const Program& program);

}  // namespace dgx::program
