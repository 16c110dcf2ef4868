#pragma once

#include <cstdint>
#include <span>

namespace dgx {

/// Gives the pages that lie wholly within these bytes back to the system: they take no memory until they are
/// written again, and are 0 then. All other bytes stay as they are, as do these where the system takes
/// nothing back. The memory must be private, and map no file.
void give_back_pages(std::span<std::uint8_t> bytes);

/// Gives freed memory that the C library keeps for later back to the system. Does nothing where that library
/// is not glibc. Cost: a walk over the heap.
void give_back_freed();

}  // namespace dgx
