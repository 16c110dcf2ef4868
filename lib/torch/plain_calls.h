#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace dgx::torch_bridge {

/// While alive, sends calls straight to the tensors' own device: not recorded, not functional, no gradients.
class PlainCalls {
 public:
  PlainCalls()
      : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
               c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Fake})) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace dgx::torch_bridge
