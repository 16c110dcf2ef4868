#include "dgx/crypto/passphrase.h"

#include <fcntl.h>
#include <openssl/ui.h>
#include <unistd.h>

#include <memory>

#include "dgx/core/files.h"

namespace dgx::crypto {
namespace {

constexpr std::size_t kMaxFileBytes = 16 * 1024;
constexpr int kMaxTyped = 1000;

struct FreeUi {
  void operator()(UI* ui) const { ::UI_free(ui); }
};

}  // namespace

Result<SecretBytes> read_passphrase(const std::string& path) {
  DGX_TRY(std::string text, read_file(path, kMaxFileBytes));
  SecretBytes line(std::string_view(text).substr(0, text.find_first_of("\r\n")));
  erase(text);
  if (line.get().empty()) return usage_error(path + ": the first line, the passphrase, is empty");
  return line;
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  return terminal >= 0 && ::close(terminal) == 0;
}

// libcrypto's prompt turns echo off and catches signals while it waits, so that none leaves the terminal
// mute. It would read standard input where there is no terminal.
Result<SecretBytes> ask_passphrase(const std::string& prompt) {
  constexpr int kInterrupted = -2;
  if (!has_terminal()) return usage_error("there is no terminal to ask for a passphrase");
  const std::unique_ptr<UI, FreeUi> ui(::UI_new_method(::UI_OpenSSL()));
  SecretBytes typed(std::size_t{kMaxTyped} + 1);
  char* const buffer = reinterpret_cast<char*>(typed.get().data());
  if (!ui || ::UI_add_input_string(ui.get(), prompt.c_str(), 0, buffer, 0, kMaxTyped) <= 0)
    return internal_error("the prompt for a passphrase cannot be made");
  const int answer = ::UI_process(ui.get());
  if (answer == kInterrupted) return Error{ErrorCode::kInterrupted, "interrupted at the passphrase", {}};
  if (answer != 0) return usage_error("no passphrase was typed");
  return SecretBytes(std::string_view(buffer));
}

}  // namespace dgx::crypto
