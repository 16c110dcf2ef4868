#include "dgx/core/version.h"

namespace dgx {

std::string_view version() { return DGX_VERSION; }

}  // namespace dgx
