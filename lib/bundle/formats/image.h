#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< 1: grey; 3: red, green, blue

  bool operator==(const ImageSize&) const = default;
};

/// An image of 8 bits a channel.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  ///< [height, width, channels]
};

/// The size that an image must have, and the file that has it, for messages.
struct WantedSize {
  ImageSize size;
  std::string file;
};

/// Sets the size and makes room for the pixels. kMalformed for none, for more than kMaxImagePixels, and for
/// another size than `wanted` (null: any).
[[nodiscard]] Status set_size(std::uint64_t height, std::uint64_t width, int channels,
                              const WantedSize* wanted, Image& image);

/// Decode a whole file. kMalformed if it is damaged, cut off, of a form that is not read (dgx-pack(1),
/// "Sources"), or of another size than `wanted` (null: any), which is found out before memory is taken for
/// the pixels. Messages lack the file's name. May be called by several threads at once.
[[nodiscard]] Result<Image> decode_png(ByteView file, const WantedSize* wanted = nullptr);
[[nodiscard]] Result<Image> decode_jpeg(ByteView file, const WantedSize* wanted = nullptr);

/// EXIF's orientation, from the TIFF structure after "Exif\0\0": 1 is upright, 0 says that there is none or
/// that the structure is broken.
[[nodiscard]] unsigned orientation_of(ByteView tiff);

}  // namespace dgx::bundle
