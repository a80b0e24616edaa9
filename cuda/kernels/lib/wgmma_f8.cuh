// Matrix products by four warps on e4m3 codes, and on e5m2 codes of A with A_E5M2, with sums in f32: A of 64 x 32 and B of 32 x N,
// both along K. See lib/wgmma.cuh;
// WGMMA_NEXT_ALONG_K is the increment for the next 32 of K. Compute capability 9.0 only.
//
// Tensor cores align the products of an instruction and their sum to the largest, and truncate them to about 14 bits. Sums of few
// instructions are added to others by threads.

#include "lib/wgmma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#if A_E5M2
#define WGMMA_CODES "e5m2.e4m3"
#else
#define WGMMA_CODES "e4m3.e4m3"
#endif

// D += A B, or D = A B where `add` is false.
__device__ __forceinline__ void wgmma_f8(float (&d)[32], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32." WGMMA_CODES " {" WGMMA_D32 "}, %32, %33, p, 1, 1;\n}"
                 : WGMMA_HOLD32(0)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

__device__ __forceinline__ void wgmma_f8(float (&d)[64], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32." WGMMA_CODES " {" WGMMA_D64 "}, %64, %65, p, 1, 1;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

__device__ __forceinline__ void wgmma_f8(float (&d)[96], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k32.f32." WGMMA_CODES " {" WGMMA_D96 "}, %96, %97, p, 1, 1;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32), WGMMA_HOLD32(64)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

#endif
