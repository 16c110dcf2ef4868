#pragma once

#include "dgx/core/host_device.h"

namespace dgx::kernels {

/// An argument at which the function comes so near to a midpoint of two floats that rounding to double first
/// gives the wrong one. `value` is the right one.
struct FunctionException {
  float argument;
  float value;
};

// Found and checked by running all 2^32 arguments against MPFR (tests/slow/functions.cc). exp, expm1, log,
// tanh and erf have none, with the tables of function_tables.h.
DGX_TABLE FunctionException kLog1pExceptions[] = {
    {0x1.800006p-21F, 0x1.7ffffep-21F},   {0x1.200036p-17F, 0x1.1fffe6p-17F},
    {0x1.fb035ap-2F, 0x1.9bddc2p-2F},     {-0x1.7ffffap-21F, -0x1.800002p-21F},
    {-0x1.1fffcap-17F, -0x1.20001ap-17F}, {-0x1.1d9188p-9F, -0x1.1de14ap-9F},
};
/// Exceptions of sin and cos for positive arguments; sin is odd and cos even.
DGX_TABLE FunctionException kSinExceptions[] = {{0x1.33333p+13F, -0x1.63f4bap-2F}};
DGX_TABLE FunctionException kCosExceptions[] = {{0x1.3170fp+63F, 0x1.fe2976p-1F},
                                                {0x1.2b9622p+67F, 0x1.f0285ep-1F}};

}  // namespace dgx::kernels
