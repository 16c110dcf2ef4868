#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "class_names.h"
#include "dgx/bundle/format.h"
#include "dgx/bundle/pack_sources.h"
#include "dgx/core/files.h"
#include "dgx/core/parallel.h"
#include "image.h"

namespace dgx::bundle {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxImages = std::size_t{1} << 24;

/// An image file and the number of its class.
struct Place {
  std::string path;
  std::int64_t label = 0;
};

/// The names in a folder that do not begin with ".", ascending by bytes.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
    if (names.size() > kMaxImages)
      return malformed(fmt::format("{}: more than {} files", folder, kMaxImages));
  }
  if (failed == std::errc::no_such_file_or_directory)
    return Error{ErrorCode::kMissing, folder + ": does not exist", {}};
  if (failed == std::errc::not_a_directory)
    return malformed(folder + ": is not a folder", "each class is a folder of images");
  if (failed) return Error{ErrorCode::kIo, fmt::format("{}: {}", folder, failed.message()), {}};
  std::sort(names.begin(), names.end());
  return names;
}

/// The files of all classes, each with its class's place in `classes`.
Result<std::vector<Place>> places_in(const std::string& root, const std::vector<std::string>& folders,
                                     const std::vector<std::string>& classes) {
  std::vector<Place> places;
  for (const std::string& folder : folders) {
    const auto found = std::find(classes.begin(), classes.end(), folder);
    if (found == classes.end())
      return malformed(fmt::format("{}/{}: is not one of the {} classes", root, folder, classes.size()));
    DGX_TRY(const auto names, names_in(root + "/" + folder));
    if (names.empty()) return malformed(fmt::format("{}/{}: has no images", root, folder));
    for (const std::string& name : names)
      places.push_back({fmt::format("{}/{}/{}", root, folder, name), found - classes.begin()});
    if (places.size() > kMaxImages) return malformed(fmt::format("{}: more than {} files", root, kMaxImages));
  }
  return places;
}

Result<Image> decode(ByteView file, const WantedSize* wanted) {
  const std::string_view start = as_text(file);
  if (start.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(file, wanted);
  if (start.starts_with("\xff\xd8\xff")) return decode_jpeg(file, wanted);
  return malformed("is neither PNG nor JPEG");
}

Result<Image> read_image(const std::string& path, const WantedSize* wanted) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  // Opening a pipe would wait for a writer.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return malformed(path + ": is not a regular file");
  DGX_TRY(const std::string content, read_file(path, kMaxFileBytes));
  auto image = decode(as_bytes(content), wanted);
  if (!image.ok()) return within(path, std::move(image).error());
  return image;
}

std::string size_text(const ImageSize& size) {
  return fmt::format("{} by {} pixels with {} channel{}", size.height, size.width, size.channels,
                     size.channels == 1 ? "" : "s");
}

/// Writes [height, width, channels] as [channels, height, width].
void put_planes(const Image& image, std::span<std::uint8_t> out) {
  const auto channels = static_cast<std::size_t>(image.size.channels);
  const std::size_t plane = image.pixels.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < plane; ++i) out[c * plane + i] = image.pixels[i * channels + c];
  }
}

/// The error of the image that comes first. for_each_index() hands out indices in ascending order and
/// finishes those it has begun, so every image before a bad one has been looked at.
class FirstError {
 public:
  Error note(std::size_t index, Error error) {
    const std::lock_guard lock(mutex_);
    if (!first_ || index < first_->first) first_ = {index, error};
    return error;
  }
  [[nodiscard]] const Error& get() const { return first_->second; }

 private:
  std::mutex mutex_;
  std::optional<std::pair<std::size_t, Error>> first_;
};

Status fill(const std::vector<Place>& places, const Image& first, int threads, BulkTensor& x) {
  const std::size_t size = first.pixels.size();
  const WantedSize wanted{first.size, places[0].path};
  FirstError errors;
  const Status done = for_each_index(places.size(), threads, [&](std::size_t i) -> Status {
    const auto image = read_image(places[i].path, &wanted);
    if (!image.ok()) return errors.note(i, image.error());
    put_planes(*image, x.bytes().subspan(i * size, size));
    release(x.view(), i * size, size);
    return {};
  });
  if (done.ok()) return {};
  return errors.get();
}

}  // namespace

Status set_size(std::uint64_t height, std::uint64_t width, int channels, const WantedSize* wanted,
                Image& image) {
  const auto most = static_cast<std::uint64_t>(kMaxImagePixels);
  if (height == 0 || width == 0 || height > most || width > most / height)
    return malformed(fmt::format("has {} by {} pixels, at most {} in all are allowed", height, width, most));
  image.size = {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), channels};
  if (wanted != nullptr && image.size != wanted->size) {
    return malformed(
        fmt::format("has {}, {} has {}", size_text(image.size), wanted->file, size_text(wanted->size)),
        "all images must have the same size and number of channels");
  }
  image.pixels.resize(height * width * static_cast<std::uint64_t>(channels));
  return {};
}

Result<Samples> read_images(const std::string& folder, const std::vector<std::string>& classes, int threads,
                            const Reading& reading) {
  DGX_TRY(const auto folders, names_in(folder));
  if (folders.empty()) return malformed(folder + ": has no folders", "each class is a folder of images");
  Samples out{{}, {}, classes.empty() ? folders : classes};
  Status named = check_classes(out.classes);
  if (!named.ok()) return within(folder, std::move(named).error());
  DGX_TRY(const auto places, places_in(folder, folders, out.classes));
  DGX_TRY(const Image first, read_image(places[0].path, nullptr));
  const auto count = static_cast<std::int64_t>(places.size());
  const Shape shape{count, first.size.channels, first.size.height, first.size.width};
  if (const auto numbers = element_count(shape);
      !numbers.ok() || static_cast<std::uint64_t>(*numbers) > kMaxTensorBytes)
    return malformed(
        fmt::format("{}: shape {} needs more than {} bytes", folder, to_string(shape), kMaxTensorBytes));
  DGX_TRY(out.x, BulkTensor::create(DType::kU8, shape, reading.bulk_bytes));
  DGX_TRY(out.y, BulkTensor::create(DType::kI64, {count}, reading.bulk_bytes));
  for (std::size_t i = 0; i < places.size(); ++i) out.y.as<std::int64_t>()[i] = places[i].label;
  DGX_CHECK(fill(places, first, threads, out.x));
  return out;
}

}  // namespace dgx::bundle
