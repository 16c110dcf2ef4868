#include <fmt/format.h>
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>

#include "image.h"

// libpng reports errors by longjmp(), which runs no destructor: between setjmp() and the calls that may jump
// there are only plain variables, and what they fill belongs to the caller.
namespace dgx::bundle {
namespace {

constexpr png_alloc_size_t kMaxChunkMemory = 8U << 20;
constexpr png_uint_32 kNoTexts =
    1;  ///< limit of libpng at which it skips texts, which may unpack to 8 MiB each

/// One file on its way through libpng, which hands it to the functions below.
struct Source {
  ByteView rest;
  bool animated = false;
  std::array<char, 128> problem{};
};

void take(png_structp png, png_bytep out, std::size_t size) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (size > source->rest.size()) png_error(png, "is cut off");
  std::memcpy(out, source->rest.data(), size);
  source->rest = source->rest.subspan(size);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* const source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->problem.data(), message, source->problem.size() - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

/// Notes the chunk that makes a PNG an APNG; returns 0 for a chunk that must not be ignored.
int on_unknown_chunk(png_structp png, png_unknown_chunkp chunk) {
  constexpr unsigned kAncillary = 0x20;
  auto* const source = static_cast<Source*>(png_get_user_chunk_ptr(png));
  if (std::memcmp(chunk->name, "acTL", 4) == 0) source->animated = true;
  return (chunk->name[0] & kAncillary) == 0 ? 0 : 1;
}

/// libpng's two structures for reading one file.
struct Decoder {
  explicit Decoder(Source& source)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning)),
        info(png == nullptr ? nullptr : png_create_info_struct(png)) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png;
  png_infop info;
};

struct Header {
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int bits = 0;
  int colour = 0;
  bool is_transparent = false;
};

/// Reads all before the pixels. No memory of the image's size is taken.
bool read_header(const Decoder& decoder, Source& source, Header& header) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &source, take);
  png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // set_size() has the limit
  png_set_chunk_malloc_max(decoder.png, kMaxChunkMemory);
  png_set_chunk_cache_max(decoder.png, kNoTexts);
  png_set_read_user_chunk_fn(decoder.png, &source, on_unknown_chunk);
  png_read_info(decoder.png, decoder.info);
  png_get_IHDR(decoder.png, decoder.info, &header.width, &header.height, &header.bits, &header.colour,
               nullptr, nullptr, nullptr);
  header.is_transparent = (header.colour & PNG_COLOR_MASK_ALPHA) != 0 ||
                          png_get_valid(decoder.png, decoder.info, PNG_INFO_tRNS) != 0;
  return true;
}

/// Reads the pixels, as 8 bits of grey or of red, green and blue, and the rest of the file, whose checksums
/// are compared.
bool read_pixels(const Decoder& decoder, const Header& header, std::size_t row_bytes, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  if (header.colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(decoder.png);
  if (header.colour == PNG_COLOR_TYPE_GRAY && header.bits < 8) png_set_expand_gray_1_2_4_to_8(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  if (png_get_rowbytes(decoder.png, decoder.info) != row_bytes)
    png_error(decoder.png, "has rows of another length");
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

}  // namespace

Result<Image> decode_png(ByteView file, const WantedSize* wanted) {
  Source source{file};
  const Decoder decoder(source);
  if (decoder.info == nullptr) return internal_error("libpng cannot start");
  Header header;
  const auto wrong = [&] { return malformed(fmt::format("PNG: {}", source.problem.data())); };
  if (!read_header(decoder, source, header)) return wrong();
  if (source.animated) return malformed("PNG: is animated", "save each frame as a file of its own");
  if (header.bits == 16) return malformed("PNG: has 16 bits per channel", "convert it to 8");
  if (header.is_transparent) return malformed("PNG: is transparent", "flatten it onto a background");
  Image image;
  const int channels = (header.colour & PNG_COLOR_MASK_COLOR) == 0 ? 1 : 3;
  DGX_CHECK(set_size(header.height, header.width, channels, wanted, image));
  const auto row_bytes = static_cast<std::size_t>(image.size.width * image.size.channels);
  std::vector<png_bytep> rows(header.height);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = image.pixels.data() + i * row_bytes;
  if (!read_pixels(decoder, header, row_bytes, rows.data())) return wrong();
  return image;
}

}  // namespace dgx::bundle
