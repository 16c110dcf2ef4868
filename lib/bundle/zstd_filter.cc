#include "zstd_filter.h"

#include <zstd.h>

#include <cstddef>

namespace dgx::bundle::h5 {
namespace {

constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 32;

/// Replaces `*buffer` by `fresh`, as the filter interface requires.
std::size_t hand_over(void* fresh, std::size_t size, std::size_t capacity, std::size_t* buffer_size,
                      void** buffer) {
  H5free_memory(*buffer);
  *buffer = fresh;
  *buffer_size = capacity;
  return size;
}

std::size_t decompress(std::size_t size, std::size_t* buffer_size, void** buffer) {
  const unsigned long long content = ZSTD_getFrameContentSize(*buffer, size);
  if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR || content == 0 ||
      content > kMaxFrameBytes) {
    return 0;
  }
  void* fresh = H5allocate_memory(content, false);
  if (fresh == nullptr) return 0;
  const std::size_t got = ZSTD_decompress(fresh, content, *buffer, size);
  if (ZSTD_isError(got)) {
    H5free_memory(fresh);
    return 0;
  }
  return hand_over(fresh, got, content, buffer_size, buffer);
}

std::size_t compress(int level, std::size_t size, std::size_t* buffer_size, void** buffer) {
  const std::size_t capacity = ZSTD_compressBound(size);
  void* fresh = H5allocate_memory(capacity, false);
  if (fresh == nullptr) return 0;
  const std::size_t got = ZSTD_compress(fresh, capacity, *buffer, size, level);
  if (ZSTD_isError(got)) {
    H5free_memory(fresh);
    return 0;
  }
  return hand_over(fresh, got, capacity, buffer_size, buffer);
}

/// Returns the number of bytes now in `*buffer`, 0 on failure.
std::size_t filter(unsigned flags, std::size_t value_count, const unsigned values[], std::size_t size,
                   std::size_t* buffer_size, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) != 0) return decompress(size, buffer_size, buffer);
  const int level = value_count > 0 ? static_cast<int>(values[0]) : ZSTD_CLEVEL_DEFAULT;
  return compress(level, size, buffer_size, buffer);
}

}  // namespace

const H5Z_class2_t* zstd_filter_class() {
  static const H5Z_class2_t kClass{H5Z_CLASS_T_VERS, 32015, 1, 1, "zstd", nullptr, nullptr, filter};
  return &kClass;
}

}  // namespace dgx::bundle::h5
