#pragma once

#include <functional>

namespace dgx::torch_bridge {

/// Runs `work` in a thread of its own that can read files, but can neither write, make nor remove any, start no
/// program and reach no network, and returns when it is done. `work` throws nothing.
///
/// That is Landlock's (Linux 5.13 and later; what a kernel knows of it is used). Where it is not there, the thread is
/// as any other: what a file may run is checked before in any case (vetting.h).
void run_confined(const std::function<void()>& work);

}  // namespace dgx::torch_bridge
