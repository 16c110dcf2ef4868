#include <string_view>

#include "dgx/exchange/interface.h"
#include "mpi/mpi_exchange.h"

namespace dgx::exchange {

extern "C" __attribute__((visibility("default"))) bool dgx_open_mpi(const char* interface,
                                                                    Result<std::unique_ptr<Exchange>>* out);

bool dgx_open_mpi(const char* interface, Result<std::unique_ptr<Exchange>>* out) {
  if (interface == nullptr || std::string_view(interface) != kExchangeInterface) return false;
  *out = MpiExchange::start();
  return true;
}

}  // namespace dgx::exchange
