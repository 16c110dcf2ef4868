#pragma once

/// Functions that are compiled for a GPU too, where a CUDA compiler reads them; nothing otherwise. What is so
/// marked uses no container, no exception and no other function that is not marked or constexpr
/// (--expt-relaxed-constexpr).
#ifdef __CUDACC__
#define DGX_HOST_DEVICE __host__ __device__
#else
#define DGX_HOST_DEVICE
#endif

/// Before DGX_HOST_DEVICE: what must or must not be taken in line. On the host for speed: where one of many
/// functions is chosen at run time, the short ones are faster if they need not save registers for the long.
/// On a GPU so that an interpreter is compiled once.
#ifdef __CUDACC__
#define DGX_HOST_INLINE
#define DGX_HOST_NOINLINE
#define DGX_DEVICE_NOINLINE __noinline__
#else
#define DGX_HOST_INLINE [[gnu::always_inline]]
#define DGX_HOST_NOINLINE [[gnu::noinline]]
#define DGX_DEVICE_NOINLINE
#endif

/// A constant array at namespace scope that such functions read at an index known only at run time. The
/// compiler's pass for the GPU needs a copy in its memory; the pass for the host must see none.
#ifdef __CUDA_ARCH__
#define DGX_TABLE __device__ constexpr
#else
#define DGX_TABLE inline constexpr
#endif
