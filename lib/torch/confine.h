#pragma once

#include <functional>

namespace dgx::torch_bridge {

/// Runs `work` in a thread of its own that can read files, but cannot write, make or remove any, start
/// programs or reach the network. Returns when it is done. `work` must not throw.
///
/// The restriction is Landlock's (Linux 5.13 and later; as much of it is used as the kernel knows). Without
/// Landlock the thread is an ordinary one: what a file may run is checked beforehand in any case (vetting.h).
void run_confined(const std::function<void()>& work);

}  // namespace dgx::torch_bridge
