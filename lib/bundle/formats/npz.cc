#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "dgx/bundle/format.h"
#include "dgx/bundle/pack_sources.h"
#include "npy.h"

// numpy.savez writes a zip archive with a member NAME.npy for each array, stored or deflated. libzip unpacks
// a member and checks its CRC-32; a stated size is believed only as far as the packed bytes allow.
namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxListed = 200;  // characters of names in a hint

/// An archive that is open for reading.
class Archive {
 public:
  static Result<Archive> open(const std::string& path) {
    int code = 0;
    zip_t* const zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
    std::error_code ignored;
    if (zip != nullptr) return Archive(zip, std::filesystem::file_size(path, ignored));
    if (code == ZIP_ER_NOENT) return Error{ErrorCode::kMissing, "does not exist", {}};
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (code == ZIP_ER_OPEN || code == ZIP_ER_READ)
      return Error{ErrorCode::kIo, fmt::format("cannot read: {}", why), {}};
    return malformed(fmt::format("is not an NPZ archive: {}", why));
  }
  Archive(Archive&& other) noexcept : zip_(std::exchange(other.zip_, nullptr)), bytes_(other.bytes_) {}
  Archive& operator=(Archive&&) = delete;
  ~Archive() {
    if (zip_ != nullptr) zip_discard(zip_);
  }

  /// A member's unpacked bytes. kMissing with a list of what is there; kMalformed, also if there are two.
  [[nodiscard]] Result<BulkTensor> member(const std::string& name, std::uint64_t bulk_bytes) const {
    DGX_TRY(const std::uint64_t index, find(name));
    zip_stat_t info;
    zip_stat_init(&info);
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(zip_, index, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded)
      return malformed("does not state its size and its form");
    if (info.encryption_method != ZIP_EM_NONE) return malformed("is encrypted");
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
      return malformed("is packed in another way than NumPy's", "numpy.savez_compressed uses deflate");
    // Deflate expands at most 1,032 times (RFC 1951: 258 bytes from two bits). Both sizes are the archive's
    // word.
    const bool stored = info.comp_method == ZIP_CM_STORE;
    if (info.comp_size > bytes_ || info.size > kMaxTensorBytes ||
        info.size / (stored ? 1 : 1032) > info.comp_size)
      return malformed(
          fmt::format("{} bytes cannot hold the {} that are declared", info.comp_size, info.size));
    return unpacked(index, info.size, bulk_bytes);
  }

 private:
  Archive(zip_t* zip, std::uint64_t bytes) : zip_(zip), bytes_(bytes) {}

  /// The number of a member, NAME.npy. Of two with one name NumPy would read the last and libzip the first;
  /// and a member NAME is the same array to NumPy.
  [[nodiscard]] Result<std::uint64_t> find(std::string_view name) const {
    constexpr std::string_view kEnding = ".npy";
    const std::string_view array = name.substr(0, name.size() - kEnding.size());
    std::optional<std::uint64_t> found;
    bool is_seen = false;
    std::string names;
    const auto count = static_cast<zip_uint64_t>(std::max<zip_int64_t>(zip_get_num_entries(zip_, 0), 0));
    for (zip_uint64_t i = 0; i < count; ++i) {
      const char* const text = zip_get_name(zip_, i, 0);
      std::string_view word = text == nullptr ? "" : text;
      if (word == name) found = i;
      if (word.ends_with(kEnding)) word.remove_suffix(kEnding.size());
      if (word == array && std::exchange(is_seen, true)) return malformed("is in the archive twice");
      if (names.size() < kMaxListed) names += (names.empty() ? "" : ", ") + std::string(word);
    }
    if (found) return *found;
    return Error{ErrorCode::kMissing, "is not in the archive", "the archive has " + names};
  }

  [[nodiscard]] Result<BulkTensor> unpacked(std::uint64_t index, std::uint64_t size,
                                            std::uint64_t bulk_bytes) const {
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(zip_, index, 0), zip_fclose);
    if (file == nullptr) return malformed(zip_strerror(zip_));
    DGX_TRY(BulkTensor out, BulkTensor::create(DType::kU8, {static_cast<std::int64_t>(size)}, bulk_bytes));
    const auto read = [&](std::uint8_t* to, std::uint64_t wanted) -> Status {
      const zip_int64_t got = zip_fread(file.get(), to, wanted);
      if (got < 0) return malformed(zip_file_strerror(file.get()));
      if (static_cast<std::uint64_t>(got) == wanted) return {};
      return malformed(fmt::format("holds fewer than the {} bytes that it states", size));
    };
    DGX_CHECK(for_each_piece(size, [&](std::uint64_t begin, std::uint64_t wanted) -> Status {
      DGX_CHECK(read(out.bytes().data() + begin, wanted));
      release(out.view(), begin, wanted);
      return {};
    }));
    // libzip compares the CRC-32 when it meets the end.
    std::uint8_t beyond = 0;
    const zip_int64_t more = zip_fread(file.get(), &beyond, 1);
    if (more < 0) return malformed(zip_file_strerror(file.get()));
    if (more > 0) return malformed(fmt::format("holds more than the {} bytes that it states", size));
    return out;
  }

  zip_t* zip_;
  std::uint64_t bytes_;
};

Result<BulkTensor> read_array(const Archive& archive, const std::string& name, const Reading& reading) {
  DGX_TRY(const BulkTensor file, archive.member(name + ".npy", reading.bulk_bytes));
  return parse_npy(file, reading);
}

}  // namespace

Result<BulkTensor> read_npz(const std::string& path, const std::string& name, const Reading& reading) {
  const auto archive = Archive::open(path);
  if (!archive.ok()) return within(path, archive.error());
  auto tensor = read_array(*archive, name, reading);
  if (!tensor.ok()) return within(fmt::format("{}: \"{}\"", path, name), std::move(tensor).error());
  return tensor;
}

}  // namespace dgx::bundle
