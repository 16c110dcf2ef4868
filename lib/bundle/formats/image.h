#pragma once

#include <cstdint>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// An image of 8 bits a channel.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;         ///< 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels;  ///< [height, width, channels]
};

/// Sets the size and makes room for the pixels. kMalformed for none, or more than kMaxImagePixels.
[[nodiscard]] Status set_size(std::uint64_t height, std::uint64_t width, int channels, Image& image);

/// Decode a whole file. kMalformed if it is damaged, cut off, or of a form that is not read (dgx-pack(1),
/// "Sources"). Messages lack the file's name. May be called by several threads at once.
[[nodiscard]] Result<Image> decode_png(ByteView file);
[[nodiscard]] Result<Image> decode_jpeg(ByteView file);

/// EXIF's orientation, from the TIFF structure after "Exif\0\0": 1 is upright, 0 says that there is none or
/// that the structure is broken.
[[nodiscard]] unsigned orientation_of(ByteView tiff);

}  // namespace dgx::bundle
