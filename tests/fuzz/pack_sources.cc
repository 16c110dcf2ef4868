// Users' data that only dgx-pack reads: tables as text, PNG, JPEG and NPZ. What is accepted has as many
// elements as its shape, as many labels as samples, and labels that are classes.

#include <zlib.h>

#include "dgx/bundle/pack_sources.h"
#include "formats/image.h"
#include "scratch.h"
#include "target.h"

using namespace dgx;

namespace {

std::string big(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

std::string little(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
  return out;
}

std::uint32_t crc(const std::string& text) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

std::string packed(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  fuzz::require(compress(reinterpret_cast<Bytef*>(out.data()), &size,
                         reinterpret_cast<const Bytef*>(text.data()), text.size()) == Z_OK,
                "zlib packs");
  out.resize(size);
  return out;
}

/// A PNG of 4 by 3 pixels, with `row` bytes a row.
std::string png(int bits, int colour, std::size_t row, const std::string& more = {}) {
  const auto chunk = [](const std::string& name, const std::string& data) {
    return big(static_cast<std::uint32_t>(data.size())) + name + data + big(crc(name + data));
  };
  std::string rows;
  for (int y = 0; y < 3; ++y) rows += '\0' + std::string(row, static_cast<char>('a' + y));
  const std::string header =
      big(4) + big(3) + static_cast<char>(bits) + static_cast<char>(colour) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + more + chunk("IDAT", packed(rows)) + chunk("IEND", "");
}

std::string palette() {
  const std::string data = "PLTE" + std::string(128 * 3, 'p');
  return big(128 * 3) + data + big(crc(data));
}

/// A JPEG of 8 by 8 grey pixels: one block, of which only the mean is there.
std::string jpeg(const std::string& exif) {
  const auto segment = [](char marker, const std::string& data) {
    const std::size_t size = data.size() + 2;
    return std::string("\xff") + marker + static_cast<char>(size >> 8) + static_cast<char>(size & 0xff) +
           data;
  };
  // Tables with one code, of one bit: difference 0 of the mean, end of the block.
  const std::string codes = '\x01' + std::string(15, '\0') + '\0';
  return std::string("\xff\xd8") + exif + segment('\xdb', '\0' + std::string(64, '\x01')) +
         segment('\xc0', std::string("\x08\0\x08\0\x08\x01\x01\x11\0", 9)) + segment('\xc4', '\0' + codes) +
         segment('\xc4', '\x10' + codes) + segment('\xda', std::string("\x01\x01\0\0\x3f\0", 6)) +
         "\x3f\xff\xd9";
}

std::string exif() {
  const std::string tiff = std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
  return std::string("\xff\xe1\0\x22", 4) + std::string("Exif\0\0", 6) + tiff;
}

/// A zip archive of x.npy, not packed: u8[2].
std::string npz() {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }" + std::string(60, ' ') + "\n";
  const std::string npy = std::string("\x93NUMPY\x01\0", 8) +
                          little(static_cast<std::uint32_t>(header.size()), 2) + header + "ab";
  const auto size = little(static_cast<std::uint32_t>(npy.size()), 4);
  const std::string common =
      little(20, 2) + std::string(8, '\0') + little(crc(npy), 4) + size + size + little(5, 2) + little(0, 2);
  const std::string local = "PK\3\4" + common + "x.npy" + npy;
  const std::string central = "PK\1\2" + little(20, 2) + common + std::string(14, '\0') + "x.npy";
  return local + central + "PK\5\6" + std::string(4, '\0') + little(1, 2) + little(1, 2) +
         little(static_cast<std::uint32_t>(central.size()), 4) +
         little(static_cast<std::uint32_t>(local.size()), 4) + little(0, 2);
}

void check(const Result<bundle::Samples>& samples) {
  if (!samples.ok()) return;
  const std::int64_t count = samples->x.shape()[0];
  fuzz::require(*element_count(samples->x.shape()) == samples->x.count(), "x has its shape's elements");
  fuzz::require(samples->y.shape() == Shape{count}, "there is a label a sample");
  if (samples->classes.empty()) return;
  for (const std::int64_t label : samples->y.as<std::int64_t>())
    fuzz::require(label >= 0 && label < static_cast<std::int64_t>(samples->classes.size()),
                  "a label is a class");
}

void check(const Result<bundle::Image>& image) {
  if (!image.ok()) return;
  fuzz::require(image->size.height * image->size.width * image->size.channels ==
                    static_cast<std::int64_t>(image->pixels.size()),
                "an image has its pixels");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"1,2,a\n3,4.5,b\n",
          "x,\"y \"\"z\"\"\",label\r\n1,-2e3,0\r\n3,4,1\r\n",
          "\xef\xbb\xbfx;y\n\"1\n2\";3\n\n",
          png(8, 0, 4),
          png(8, 2, 12),
          png(1, 0, 1),
          png(8, 3, 4, palette()),
          png(8, 6, 16),
          jpeg(""),
          jpeg(exif()),
          npz()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(data, size);
  // The pixels of an image that claims to be large are zeroed before it is found to be cut off: that is too
  // slow to do tens of thousands of times.
  const bool is_small = size < 24 || (data[16] == 0 && data[17] == 0 && data[20] == 0 && data[21] == 0);
  if (is_small) check(bundle::decode_png(bytes));
  if (is_small) check(bundle::decode_jpeg(bytes));
  static_cast<void>(bundle::orientation_of(bytes));
  const std::string path = fuzz::scratch().write("input", fuzz::text_of(data, size));
  for (const bool header : {false, true}) {
    bundle::TableReading table;
    table.label = header ? "label" : "1";
    table.header = header;
    table.delimiter = size % 2 == 0 ? ',' : ';';
    check(bundle::read_csv(path, table));
  }
  const auto array = bundle::read_npz(path, "x");
  fuzz::require(!array.ok() || *element_count(array->shape()) == array->count(), "an array has its elements");
  return 0;
}
