#pragma once

#include <string>
#include <string_view>

#include "dgx/cli/tool.h"

namespace dgx::cli {

/// "dgx-key sign FILE --key KEY.pem [--passphrase-file FILE]", made from the option table; without the common options.
[[nodiscard]] std::string synopsis(const Tool& tool, const Tool::Entry& entry, const Command& command);

/// The --help text of one command; nullptr: of the program as a whole.
[[nodiscard]] std::string help_text(const Tool& tool, const Tool::Entry* entry);

/// A command's own table followed by the common one, and the common one alone: for readers who parse nothing.
[[nodiscard]] Command table_of(Tool::Runner& runner);
[[nodiscard]] Command common_table();

}  // namespace dgx::cli
