#pragma once

namespace dgx::kernels::cuda::emulated {

/// The indices of the running thread and its block, and the numbers of threads of a block and of blocks.
struct Dimension {
  unsigned x = 0;
};
struct Place {
  Dimension thread, block, threads, blocks;
};

/// The device as a library of generated kernels sees it: where to find the running thread, and how to wait at
/// a barrier. Passed to the function dgx_meet of the library when it is opened.
struct Host {
  const Place* place = nullptr;
  void (*barrier)(const char* file, int line) = nullptr;
};
inline constexpr const char* kMeetSymbol = "dgx_meet";
using MeetFunction = void (*)(const Host*);

}  // namespace dgx::kernels::cuda::emulated
