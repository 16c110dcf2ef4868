#include "task/work_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "dgx/core/files.h"
#include "dgx/crypto/random.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kPurpose = "dgx-work";
constexpr std::size_t kKeyBytes = 32;
constexpr unsigned kOwnerOnly = 0600;

Result<crypto::MacKey> read_key_of(const std::string& path, Progress& progress) {
  DGX_TRY(std::string bytes, read_file(path, kKeyBytes));
  const auto key = digest_from_bytes(as_bytes(bytes));
  crypto::erase(bytes);
  if (!key.ok()) return malformed(path + ": is not a work key, which has 32 bytes");
  if (const std::string warning = warning_of_secret(path, "work key"); !warning.empty())
    progress.warning(warning);
  return crypto::MacKey::from_bytes(key->bytes);
}

std::optional<std::string> state_path() {
  auto out = state_folder();
  if (out) *out += "/work.key";
  return out;
}

/// Makes the key file. Two processes may come here at once: the second takes the first's key.
Status make_key(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{ErrorCode::kCannotCreate, folder.string() + ": " + error.message(), {}};
  std::string bytes(kKeyBytes, '\0');
  DGX_CHECK(crypto::random_bytes({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
  Status written = write_file(path, bytes, Clobber::kRefuse, kOwnerOnly);
  crypto::erase(bytes);
  return exists(path) ? Status() : written;
}

}  // namespace

std::optional<std::string> state_folder() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + "/dgx";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return std::nullopt;
  return std::string(home) + "/.local/state/dgx";
}

WorkKeys WorkKeys::of(const crypto::SecretKey& signer) {
  WorkKeys out;
  out.keys_.push_back(crypto::MacKey::derived(signer, kPurpose));
  return out;
}

Result<WorkKeys> WorkKeys::find(const crypto::SecretKey* signer, const std::optional<std::string>& file,
                                Progress& progress) {
  WorkKeys out;
  if (signer != nullptr) out = of(*signer);
  if (file) {
    DGX_TRY(auto key, read_key_of(*file, progress));
    out.keys_.push_back(std::move(key));
  }
  const auto path = state_path();
  if (out.keys_.empty()) {
    if (!path)
      return usage_error("no home directory to keep a work key in", "use --work-key FILE to name one");
    if (!exists(*path)) {
      auto made = make_key(*path);
      if (!made.ok())
        return Error{made.error().code, made.error().message, "use --work-key FILE to name another place"};
    }
  }
  if (path && exists(*path)) {
    auto key = read_key_of(*path, progress);
    if (!key.ok() && out.keys_.empty()) return std::move(key).error();
    if (!key.ok()) progress.warning(key.error().message);  // another key is enough
    if (key.ok()) out.keys_.push_back(std::move(*key));
  }
  return out;
}

bool WorkKeys::made(std::string_view line, const Digest& code) const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&](const crypto::MacKey& key) { return key.made(as_bytes(line), code); });
}

std::string WorkKeys::seal(std::string_view line) const {
  return fmt::format("{}\n{}\n", line, keys_.front().mac(as_bytes(line)).hex());
}

Result<std::string_view> WorkKeys::open(std::string_view text) const {
  constexpr std::size_t kCodeLine = 2 * kKeyBytes + 1;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || text.size() != end + 1 + kCodeLine || !text.ends_with('\n'))
    return malformed("is not a line followed by its code: it was cut off, or never had one");
  const auto code = digest_from_hex(text.substr(end + 1, kCodeLine - 1));
  if (!code.ok()) return within("the code of its line", code.error());
  const std::string_view line = text.substr(0, end);
  if (made(line, *code)) return line;
  return unauthorised("was made elsewhere: its code belongs to none of the work keys here",
                      "use --work-key FILE to name the key that it was made under");
}

}  // namespace dgx::jobs
