#include "dgx/core/pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dgx {

void give_back_pages(std::span<std::uint8_t> bytes) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + bytes.size()) / page * page;
  if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
}

void give_back_freed() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace dgx
