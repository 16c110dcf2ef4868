#include "zip_file.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "dgx/core/text.h"

namespace dgx::torch_bridge {
namespace {

Error opening_error(int code) {
  switch (code) {
    case ZIP_ER_NOENT: return {ErrorCode::kMissing, "does not exist", {}};
    case ZIP_ER_OPEN:
    case ZIP_ER_READ: return {ErrorCode::kIo, "cannot be read", {}};
    case ZIP_ER_NOZIP: return malformed("is no zip file, or was cut off");
    case ZIP_ER_EXISTS: return malformed("two members have one name");
    default: return malformed("the zip's directory is damaged");
  }
}

}  // namespace

Result<ZipFile> ZipFile::open(const std::string& path) {
  int code = 0;
  std::shared_ptr<zip> zip(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code), [](zip_t* file) {
    if (file != nullptr) zip_discard(file);
  });
  if (zip == nullptr) return opening_error(code);
  std::error_code failed;
  const std::uint64_t bytes = std::filesystem::file_size(path, failed);
  if (failed) return Error{ErrorCode::kIo, "cannot be read", {}};
  ZipFile out(std::move(zip));
  DGX_CHECK(out.list(bytes));
  return out;
}

Status ZipFile::list(std::uint64_t file_bytes) {
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(zip_.get(), 0));
  std::uint64_t left = file_bytes;
  for (zip_uint64_t n = 0; n < count; ++n) {
    zip_stat_t info;
    zip_stat_init(&info);
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    const char* const name = zip_get_name(zip_.get(), n, ZIP_FL_ENC_RAW);
    if (name == nullptr || zip_stat_index(zip_.get(), n, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded)
      return malformed(fmt::format("member {} does not state its name and size", n));
    if (info.encryption_method != ZIP_EM_NONE) return malformed(printable(name) + " is encrypted");
    const bool is_stored = info.comp_method == ZIP_CM_STORE;
    if (is_stored && info.comp_size != info.size)
      return malformed(
          fmt::format("{} states two sizes, {} and {}", printable(name), info.size, info.comp_size));
    if (info.comp_size > left) return malformed("members overlap: they are larger than the file");
    left -= info.comp_size;
    const std::string_view text(name);
    if (n == 0) folder_ = text.substr(0, text.find('/') + 1);
    if (!members_.emplace(text, Member{n, info.size, is_stored}).second)
      return malformed("two members are named " + printable(text));
  }
  return {};
}

Status ZipFile::read(const Member& member, void* out) const {
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(zip_.get(), member.index, 0),
                                                               zip_fclose);
  if (file == nullptr) return malformed("cannot be unpacked");
  // In pieces that the CRC-32 finds in the processor's cache. libzip compares it when it meets the end.
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::uint64_t done = 0;
  while (done < member.bytes) {
    const std::uint64_t wanted = std::min(kPiece, member.bytes - done);
    const zip_int64_t got = zip_fread(file.get(), static_cast<std::uint8_t*>(out) + done, wanted);
    if (got <= 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  std::uint8_t beyond = 0;
  if (done == member.bytes && zip_fread(file.get(), &beyond, 1) == 0) return {};
  const bool is_other = zip_error_code_zip(zip_file_get_error(file.get())) == ZIP_ER_CRC;
  return malformed(is_other ? "is damaged: its bytes do not have its CRC-32" : "is damaged");
}

}  // namespace dgx::torch_bridge
