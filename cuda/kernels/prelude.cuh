// Helpers that stand in front of every kernel text.
//
// The conversions are written in PTX instead of taken from cuda_fp16.h: kernels then need no header at all, so that a
// machine with a driver and NVRTC alone can compile them, and the one-letter extents (D, H, W ...) that are defined
// after this text can break nothing.
//
// Exactly one of ELEM_F32, ELEM_F16 and ELEM_BF16 is defined. `elem` is the case's element type; arithmetic is f32.

typedef unsigned long long u64;

#if defined(ELEM_F32)

typedef float elem;

__device__ __forceinline__ float load(elem x) { return x; }
__device__ __forceinline__ elem to_elem(float x) { return x; }

#else

struct elem {
    unsigned short bits;
};

#if defined(ELEM_F16)

__device__ __forceinline__ float load(elem x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ elem to_elem(float x) {
    elem y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

#else

__device__ __forceinline__ float load(elem x) { return __uint_as_float((unsigned)x.bits << 16); }

__device__ __forceinline__ elem to_elem(float x) {
    elem y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

#endif
#endif

// Four neighbours, moved as one.
struct alignas(4 * sizeof(elem)) elem4 {
    elem at[4];
};

// Launches spread workgroups over two grid dimensions; this undoes it. Blocks past the count must do nothing.
__device__ __forceinline__ u64 flat_workgroup() { return (u64)blockIdx.y * gridDim.x + blockIdx.x; }

__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xFF800000u); }

// Reduce over groups of `width` neighbouring lanes of a warp (a power of two); every lane gets the result.
__device__ __forceinline__ float lanes_sum(float x, unsigned width) {
    for (unsigned step = width / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    }
    return x;
}

__device__ __forceinline__ float lanes_max(float x, unsigned width) {
    for (unsigned step = width / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    }
    return x;
}

// Reduce over a one-dimensional block of whole warps; every thread gets the result. `partial` holds one float per warp.
__device__ __forceinline__ float block_sum(float x, float* partial) {
    x = lanes_sum(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; warp++) total += partial[warp];
    return total;
}

__device__ __forceinline__ float block_max(float x, float* partial) {
    x = lanes_max(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = partial[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; warp++) total = fmaxf(total, partial[warp]);
    return total;
}
