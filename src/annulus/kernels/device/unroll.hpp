// Arrays that are to lie in registers want their loops unrolled, which only a GPU's compiler is to be told.
#pragma once

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define ANNULUS_UNROLL _Pragma("unroll")
#else
#define ANNULUS_UNROLL
#endif
