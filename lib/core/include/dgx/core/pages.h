#pragma once

#include <cstdint>
#include <span>

namespace dgx {

/// Gives the memory of these bytes back to the system, page by page: a page that lies in them whole takes
/// none before it is written again, and is 0 then. The bytes before the first such page, and behind the
/// last, stay as they are, as does everything where the system does not take memory back. Of private memory
/// that maps no file.
void give_back_pages(std::span<std::uint8_t> bytes);

/// Gives memory that has been freed, and that the C library keeps for later, back to the system. Without
/// effect where that is not glibc. Cost: a walk over the heap.
void give_back_freed();

}  // namespace dgx
