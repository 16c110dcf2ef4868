#pragma once

namespace dgx::kernels::cuda::emulated {

/// Where the running thread is, and in what.
struct Dimension {
  unsigned x = 0;
};
struct Place {
  Dimension thread, block, threads, blocks;
};

/// What a library of generated kernels is told when it is opened, by its function dgx_meet: where the running thread is found, and how it waits at a
/// barrier.
struct Host {
  const Place* place = nullptr;
  void (*barrier)(const char* file, int line) = nullptr;
};
inline constexpr const char* kMeetSymbol = "dgx_meet";
using MeetFunction = void (*)(const Host*);

}  // namespace dgx::kernels::cuda::emulated
