#pragma once

#include <string>
#include <string_view>

#include "dgx/cli/tool.h"

namespace dgx::cli {

/// A synopsis made from the option table, without the common options: "dgx-key sign FILE --key KEY.pem
/// [--passphrase-file FILE]".
[[nodiscard]] std::string synopsis(const Tool& tool, const Tool::Entry& entry, const Command& command);

/// The --help text of one command, or of the whole program if `entry` is null.
[[nodiscard]] std::string help_text(const Tool& tool, const Tool::Entry* entry);

/// A command's own table followed by the common one, and the common one alone. For callers that parse
/// nothing: the tables' variables no longer exist.
[[nodiscard]] Command table_of(Tool::Runner& runner);
[[nodiscard]] Command common_table();

}  // namespace dgx::cli
