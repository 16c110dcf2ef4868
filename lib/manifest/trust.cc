#include "dgx/manifest/trust.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "dgx/crypto/key_file.h"

namespace dgx::manifest {
namespace {

// The endings of public key files that a folder is searched for.
constexpr std::array<std::string_view, 2> kPublicKeySuffixes{".pub.pem", ".pub"};

bool has_public_key_suffix(const std::string& path) {
  return std::any_of(kPublicKeySuffixes.begin(), kPublicKeySuffixes.end(),
                     [&](std::string_view suffix) { return path.ends_with(suffix); });
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

/// The public key files of a folder, by their names.
Result<std::vector<std::string>> key_files(const std::string& path) {
  std::error_code error;
  std::vector<std::string> out;
  for (auto entry = std::filesystem::directory_iterator(path, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (has_public_key_suffix(entry->path().string())) out.push_back(entry->path().string());
  }
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: cannot list: {}", path, error.message()), {}};
  std::sort(out.begin(), out.end());  // of two files with one key, the first names it
  return out;
}

std::string name_of_file(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view suffix :
       {kPublicKeySuffixes[0], kPublicKeySuffixes[1], std::string_view(".pem")}) {
    if (name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    break;
  }
  name.resize(std::min(name.size(), Trust::kMaxName));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return name;
}

}  // namespace

Result<Trust> Trust::load(const std::string& path) {
  Trust out;
  std::vector<std::string> files{path};
  if (is_folder(path)) {
    DGX_TRY(files, key_files(path));
  }
  for (const std::string& file : files) {
    const auto key = crypto::read_public_key(file);
    const std::string type = key.ok() || !is_folder(path) ? std::string() : crypto::foreign_public_key(file);
    if (!type.empty()) {
      out.passed_over_.push_back(fmt::format("{}: is a public key of type {}", file, type));
      continue;
    }
    if (!key.ok()) return key.error();
    out.add(crypto::key_id(*key), name_of_file(file));
  }
  if (out.names_.empty())
    return usage_error(
        fmt::format("{}: contains no *{} file of Ed25519", path, fmt::join(kPublicKeySuffixes, " or *")));
  return out;
}

void Trust::add(const Digest& key_id, std::string name) {
  given_ = true;
  const bool is_taken = !name.empty() && std::any_of(names_.begin(), names_.end(), [&](const auto& other) {
    return other.second == name && other.first != key_id;
  });
  if (is_taken) name += " " + key_id.brief();
  names_.emplace(key_id, std::move(name));
}

Result<std::string_view> Trust::check(const Digest& key_id, std::string_view what) const {
  if (!given_) return std::string_view("self-asserted");
  if (names_.contains(key_id)) return std::string_view("trusted");
  return unauthorised(fmt::format("{}: signed by key {}, which --trust does not name", what, key_id.brief()));
}

Status TrustView::check(const Digest& key_id, std::string_view what) const {
  if (path_ != nullptr && *path_) {
    DGX_TRY(const Trust trust, Trust::load(**path_));
    DGX_CHECK(trust.check(key_id, what));
  }
  if (loaded_ != nullptr) DGX_CHECK(loaded_->check(key_id, what));
  return {};
}

}  // namespace dgx::manifest
