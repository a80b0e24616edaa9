// Element type: storage is `elem`, arithmetic is f32. Exactly one of ELEM_F32, ELEM_F16 and ELEM_BF16 is defined.
//
// Conversions are in PTX, not from cuda_fp16.h: kernels then need no CUDA headers, only a driver and NVRTC.

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
#if __CUDA_ARCH__ >= 800

// Two neighbours in one register, the first in the lower half.
__device__ __forceinline__ unsigned pack(float first, float second) {
    unsigned x;
#if defined(ELEM_F16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
#endif
    return x;
}

#endif
#endif

// Four neighbours, moved as one.
struct alignas(4 * sizeof(elem)) elem4 {
    elem at[4];
};

__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xFF800000u); }

// Initial value of a maximum that goes into exponentials. It is finite: the difference of two infinities is NaN.
constexpr float LOWEST = -3.4028234e38f;

__device__ __forceinline__ bool is_nan(float x) { return x != x; }

// Maximum of two numbers, NaN where either is. fmaxf would return the other.
__device__ __forceinline__ float maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#else
    return a > b || is_nan(a) ? a : b;
#endif
}

// Maximum with zero. NaN stays.
__device__ __forceinline__ float relu(float x) { return maximum(x, 0.0f); }

// Gradient before ReLU: zero where its result is zero or below. NaN passes.
__device__ __forceinline__ float gated_by(float result, float gradient) { return result <= 0.0f ? 0.0f : gradient; }
