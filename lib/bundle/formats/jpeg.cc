#include <cstdio>  // jpeglib.h needs FILE

#include <jpeglib.h>

#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <memory>

#include "image.h"

// libjpeg reports errors by longjmp(), which runs no destructor: between setjmp() and the calls that may jump
// there are only plain variables, and what they fill belongs to the caller. A warning is an error here:
// libjpeg would replace what is damaged or missing by grey.
namespace dgx::bundle {
namespace {

constexpr int kMaxScans = 500;
constexpr unsigned kMaxMarkerBytes = 0xffff;
constexpr std::array<std::uint8_t, 6> kExif{'E', 'x', 'i', 'f', 0, 0};

struct Decoder {
  Decoder() {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr common) { of(common)->stop(common); };
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0) of(common)->stop(common);
    };
    progress.progress_monitor = [](j_common_ptr common) {
      Decoder* const self = of(common);
      if (self->jpeg.input_scan_number <= kMaxScans) return;
      std::strcpy(self->problem.data(), "has too many scans");
      std::longjmp(self->back, 1);
    };
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }

  static Decoder* of(j_common_ptr common) { return static_cast<Decoder*>(common->client_data); }
  [[noreturn]] void stop(j_common_ptr common) {
    errors.format_message(common, problem.data());
    std::longjmp(back, 1);
  }

  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::array<char, JMSG_LENGTH_MAX> problem{};
  std::jmp_buf back{};
};

/// Reads all before the pixels.
bool read_header(Decoder& decoder, ByteView file) {
  if (setjmp(decoder.back) != 0) return false;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.jpeg.progress = &decoder.progress;
  jpeg_mem_src(&decoder.jpeg, file.data(), file.size());
  jpeg_save_markers(&decoder.jpeg, JPEG_APP0 + 1, kMaxMarkerBytes);
  jpeg_read_header(&decoder.jpeg, TRUE);
  return true;
}

/// Reads the pixels, with the accurate integer transform.
bool read_pixels(Decoder& decoder, Image& image) {
  if (setjmp(decoder.back) != 0) return false;
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg.out_color_space = image.size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = image.pixels.data() + std::size_t{jpeg.output_scanline} *
                                             static_cast<std::size_t>(image.size.width * image.size.channels);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

/// Numbers in a TIFF structure, in its byte order; 0 for one that is not all inside it.
class Tiff {
 public:
  explicit Tiff(ByteView bytes) : bytes_(bytes), big_(!bytes.empty() && bytes[0] == 'M') {}

  [[nodiscard]] std::uint64_t number(std::uint64_t at, std::uint64_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at) return 0;
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < width; ++i)
      value |= std::uint64_t{bytes_[at + i]} << 8 * (big_ ? width - 1 - i : i);
    return value;
  }

 private:
  ByteView bytes_;
  bool big_;
};

unsigned orientation_in(const jpeg_decompress_struct& jpeg) {
  for (auto* marker = jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const ByteView data(marker->data, marker->data_length);
    if (data.size() < kExif.size() || std::memcmp(data.data(), kExif.data(), kExif.size()) != 0) continue;
    return orientation_of(data.subspan(kExif.size()));
  }
  return 0;
}

}  // namespace

unsigned orientation_of(ByteView tiff) {
  constexpr std::uint64_t kOrientation = 0x0112;
  const Tiff in(tiff);
  const std::uint64_t folder = in.number(4, 4);
  const std::uint64_t entries = in.number(folder, 2);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = folder + 2 + 12 * i;
    if (in.number(entry, 2) == kOrientation) return static_cast<unsigned>(in.number(entry + 8, 2));
  }
  return 0;
}

Result<Image> decode_jpeg(ByteView file, const WantedSize* wanted) {
  const auto decoder = std::make_unique<Decoder>();
  const auto wrong = [&] { return malformed(fmt::format("JPEG: {}", decoder->problem.data())); };
  if (!read_header(*decoder, file)) return wrong();
  const jpeg_decompress_struct& jpeg = decoder->jpeg;
  const bool is_grey = jpeg.jpeg_color_space == JCS_GRAYSCALE;
  if (!is_grey && jpeg.jpeg_color_space != JCS_YCbCr && jpeg.jpeg_color_space != JCS_RGB)
    return malformed("JPEG: is neither grey nor RGB", "convert it, for example from CMYK to RGB");
  if (const unsigned orientation = orientation_in(jpeg); orientation > 1) {
    return malformed(fmt::format("JPEG: is not upright: it has EXIF orientation {}", orientation),
                     "turn its pixels, for example with exiftran -a -i");
  }
  Image image;
  DGX_CHECK(set_size(jpeg.image_height, jpeg.image_width, is_grey ? 1 : 3, wanted, image));
  if (!read_pixels(*decoder, image)) return wrong();
  return image;
}

}  // namespace dgx::bundle
