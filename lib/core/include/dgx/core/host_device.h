#pragma once

/// Marks functions that a CUDA compiler compiles for the GPU too; empty for other compilers. Marked functions
/// use no container, no exception and no function that is neither marked nor constexpr
/// (--expt-relaxed-constexpr).
#ifdef __CUDACC__
#define DGX_HOST_DEVICE __host__ __device__
#else
#define DGX_HOST_DEVICE
#endif

/// Written before DGX_HOST_DEVICE: a function that must not be inlined. DGX_HOST_NOINLINE is for speed: if
/// one of many functions is chosen at run time, the short ones need not save registers for the long ones.
/// DGX_DEVICE_NOINLINE lets all callers on a GPU share the code of a rare path.
#ifdef __CUDACC__
#define DGX_HOST_NOINLINE
#define DGX_DEVICE_NOINLINE __noinline__
#else
#define DGX_HOST_NOINLINE [[gnu::noinline]]
#define DGX_DEVICE_NOINLINE
#endif

/// A constant array at namespace scope that such functions read at an index known only at run time. The
/// compiler's GPU pass needs a copy in device memory; the host pass must see none.
#ifdef __CUDA_ARCH__
#define DGX_TABLE __device__ constexpr
#else
#define DGX_TABLE inline constexpr
#endif
