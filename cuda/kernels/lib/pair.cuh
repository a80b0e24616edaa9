// Two neighbours of a 16-bit element type in one register, the first in the lower half. `pack` is in lib/mma.cuh.

#include "lib/mma.cuh"

#if !defined(ELEM_F32)

__device__ __forceinline__ unsigned load_pair(const elem* __restrict__ at) {
    return __ldg(reinterpret_cast<const unsigned*>(at));
}

__device__ __forceinline__ float2 unpack(unsigned pair) {
    return make_float2(load(elem{(unsigned short)pair}), load(elem{(unsigned short)(pair >> 16)}));
}

#endif
