// Arrays stay in registers only if loops over them are unrolled. Only compilers for GPUs need this pragma.
#pragma once

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define ANNULUS_UNROLL _Pragma("unroll")
#else
#define ANNULUS_UNROLL
#endif
