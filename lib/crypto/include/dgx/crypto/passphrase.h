#pragma once

#include <string>

#include "dgx/core/result.h"
#include "dgx/crypto/secret_bytes.h"

namespace dgx::crypto {

/// The passphrase in the first line of a file ("-": standard input). kUsage if that line is empty; errors of
/// read_file().
[[nodiscard]] Result<SecretBytes> read_passphrase(const std::string& path);

/// True if the process has a terminal, /dev/tty, whatever its standard streams are.
[[nodiscard]] bool has_terminal();

/// Prints `prompt` on the terminal and returns the line typed there, which is not shown; it may be empty.
/// Signals that would end or stop the process end the prompt, after which the terminal is as it was.
/// kInterrupted for Ctrl-C; kUsage for other signals, at the end of input, for more than 1,000 bytes, and
/// without a terminal.
[[nodiscard]] Result<SecretBytes> ask_passphrase(const std::string& prompt);

}  // namespace dgx::crypto
