// Matrix products by four warps (wgmma), on 16-bit floats with sums in f32, and on int8 with sums of 32 bits. Compute capability
// 9.0 only. Floats are f16 in kernels on f16, otherwise bf16.
//
// A warpgroup is four warps whose first has a number divisible by four. It computes D += A B for D of 64 x N, A of 64 x 16 and B
// of 16 x N. D is in registers, A in shared memory or registers, B in shared memory. The length of D gives N: each thread holds N
// / 2 of its elements. The steps of a product:
//
//     wgmma_fence();                                      // A in registers and D are ready
//     for (each 16 of K) wgmma(d, a + ..., b + ..., true);
//     wgmma_commit();
//     wgmma_wait<0>(d);                                   // until then D, and A in registers, stay untouched
//
// Ordinary stores to shared memory need `tma_fence` by their threads and a barrier before; copies by the copy engine need only
// their mbarrier.

#include "lib/elem.cuh"
#include "lib/shared.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Descriptor of a matrix in shared memory, 64 bits: its begin, the distances between its pieces, and the swizzle, here always of
// 128 bytes. Tiles begin at multiples of 1024 bytes and have rows of 64 elements, as tensor maps with such boxes and that swizzle
// leave them.
__device__ __forceinline__ u64 wgmma_descriptor(const void* tile, unsigned leading_bytes, unsigned stride_bytes) {
    return (u64)((shared_address(tile) & 0x3FFFFu) >> 4) | (u64)(leading_bytes >> 4) << 16 |
           (u64)(stride_bytes >> 4) << 32 | 1ull << 62;
}

// A tile whose rows are 64 elements along K: A as [M][K], B as [N][K]. Eight such rows are a piece of 1024 bytes, and the next
// eight follow. A wider K has further tiles with descriptors of their own.
__device__ __forceinline__ u64 wgmma_along_k(const void* tile) { return wgmma_descriptor(tile, 16, 1024); }

// Increment for the next 16 of K, up to the tile's 64: 32 bytes.
constexpr u64 WGMMA_NEXT_ALONG_K = 32 >> 4;

// A tile whose rows are 64 elements along M or N: A as [K][M], B as [K][N], with `depth` rows, a multiple of 8. Eight such rows
// are a piece of 1024 bytes, and the next eight of K follow. N above 64 has further tiles, contiguous.
__device__ __forceinline__ u64 wgmma_across_k(const void* tile, unsigned depth) {
    return wgmma_descriptor(tile, depth * 128, 1024);
}

// Increment for the next 16 of K: 16 rows of 128 bytes.
constexpr u64 WGMMA_NEXT_ACROSS_K = 2048 >> 4;

// Row and column in D of element `i` of a thread. Also for A in registers: of its 64 x 16 a thread holds eight elements as four
// pairs of neighbours along K, the first in the lower half, where a D of 64 x 16 has its elements 0, 1 | 2, 3 | ...
__device__ __forceinline__ unsigned wgmma_row(unsigned i) {
    const unsigned thread = threadIdx.x % 128;
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}

__device__ __forceinline__ unsigned wgmma_column(unsigned i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// Before the first product, and after each change of D or A in registers by a thread.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes a group of the products since the last group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Keeps the compiler from moving accesses to these registers across this point: it does not know that a product writes them until
// the wait.
template <unsigned count>
__device__ __forceinline__ void wgmma_hold(float (&d)[count]) {
#pragma unroll
    for (unsigned i = 0; i < count; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Waits until at most `open` of the warpgroup's latest groups are in flight.
template <unsigned open>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(open) : "memory");
}

template <unsigned count>
__device__ __forceinline__ void wgmma_hold(int (&d)[count]) {
#pragma unroll
    for (unsigned i = 0; i < count; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// As wgmma_wait, after which this D may be used.
template <unsigned open, typename Sum, unsigned count>
__device__ __forceinline__ void wgmma_wait(Sum (&d)[count]) {
    wgmma_wait<open>();
    wgmma_hold(d);
}

// Number of registers of each thread of a warpgroup from here on, a multiple of 8: released, or acquired once others have
// released them. Only in kernels with `__launch_bounds__(threads, 1)`; all warps of the warpgroup call it.
template <unsigned registers>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <unsigned registers>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// Operand lists of the instruction, which no function can generate.
#if defined(ELEM_F16)
#define WGMMA_TYPES ".f32.f16.f16 "
#else
#define WGMMA_TYPES ".f32.bf16.bf16 "
#endif
#define WGMMA_D20 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19"
#define WGMMA_D32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D40 WGMMA_D32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_D48 WGMMA_D40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_D64 WGMMA_D48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D96 WGMMA_D64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_D128 WGMMA_D96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_HOLD4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_HOLD8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_HOLD32(i) WGMMA_HOLD8(i), WGMMA_HOLD8(i + 8), WGMMA_HOLD8(i + 16), WGMMA_HOLD8(i + 24)

// D += A B, or D = A B where `add` is false. `a_across_k` and `b_across_k` select the kind of tile of A and B.
template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[20], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %22, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n40k16" WGMMA_TYPES "{" WGMMA_D20 "}, %20, %21, p, 1, 1, %23, %24;\n}"
                 : WGMMA_HOLD8(0), WGMMA_HOLD8(8), WGMMA_HOLD4(16)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[32], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16" WGMMA_TYPES "{" WGMMA_D32 "}, %32, %33, p, 1, 1, %35, %36;\n}"
                 : WGMMA_HOLD32(0)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[40], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n80k16" WGMMA_TYPES "{" WGMMA_D40 "}, %40, %41, p, 1, 1, %43, %44;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD8(32)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[48], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n96k16" WGMMA_TYPES "{" WGMMA_D48 "}, %48, %49, p, 1, 1, %51, %52;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD8(32), WGMMA_HOLD8(40)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[64], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16" WGMMA_TYPES "{" WGMMA_D64 "}, %64, %65, p, 1, 1, %67, %68;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[96], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16" WGMMA_TYPES "{" WGMMA_D96 "}, %96, %97, p, 1, 1, %99, %100;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32), WGMMA_HOLD32(64)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

template <bool a_across_k = false, bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[128], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16" WGMMA_TYPES "{" WGMMA_D128 "}, %128, %129, p, 1, 1, %131, %132;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32), WGMMA_HOLD32(64), WGMMA_HOLD32(96)
                 : "l"(a), "l"(b), "r"((unsigned)add), "n"((int)a_across_k), "n"((int)b_across_k));
}

// As wgmma, with A in registers.
template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[32], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16" WGMMA_TYPES "{" WGMMA_D32 "}, {%32, %33, %34, %35}, "
                 "%36, p, 1, 1, %38;\n}"
                 : WGMMA_HOLD32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[40], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %45, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n80k16" WGMMA_TYPES "{" WGMMA_D40 "}, {%40, %41, %42, %43}, "
                 "%44, p, 1, 1, %46;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD8(32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[48], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n96k16" WGMMA_TYPES "{" WGMMA_D48 "}, {%48, %49, %50, %51}, "
                 "%52, p, 1, 1, %54;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD8(32), WGMMA_HOLD8(40)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[64], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16" WGMMA_TYPES "{" WGMMA_D64 "}, {%64, %65, %66, %67}, "
                 "%68, p, 1, 1, %70;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[96], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %101, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16" WGMMA_TYPES "{" WGMMA_D96 "}, {%96, %97, %98, %99}, "
                 "%100, p, 1, 1, %102;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32), WGMMA_HOLD32(64)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

template <bool b_across_k = false>
__device__ __forceinline__ void wgmma(float (&d)[128], const unsigned (&a)[4], u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16" WGMMA_TYPES "{" WGMMA_D128 "}, {%128, %129, %130, %131}, "
                 "%132, p, 1, 1, %134;\n}"
                 : WGMMA_HOLD32(0), WGMMA_HOLD32(32), WGMMA_HOLD32(64), WGMMA_HOLD32(96)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((unsigned)add), "n"((int)b_across_k));
}

// As wgmma, for int8: A of 64 x 32 and B of 32 x N, both along K. WGMMA_NEXT_ALONG_K is the increment for the next 32 of K.
#define WGMMA_KEEP8(i) \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define WGMMA_KEEP32(i) WGMMA_KEEP8(i), WGMMA_KEEP8(i + 8), WGMMA_KEEP8(i + 16), WGMMA_KEEP8(i + 24)

__device__ __forceinline__ void wgmma(int (&d)[32], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" WGMMA_D32 "}, %32, %33, p;\n}"
                 : WGMMA_KEEP32(0)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

__device__ __forceinline__ void wgmma(int (&d)[64], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" WGMMA_D64 "}, %64, %65, p;\n}"
                 : WGMMA_KEEP32(0), WGMMA_KEEP32(32)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

__device__ __forceinline__ void wgmma(int (&d)[96], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 {" WGMMA_D96 "}, %96, %97, p;\n}"
                 : WGMMA_KEEP32(0), WGMMA_KEEP32(32), WGMMA_KEEP32(64)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

__device__ __forceinline__ void wgmma(int (&d)[128], u64 a, u64 b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" WGMMA_D128 "}, %128, %129, p;\n}"
                 : WGMMA_KEEP32(0), WGMMA_KEEP32(32), WGMMA_KEEP32(64), WGMMA_KEEP32(96)
                 : "l"(a), "l"(b), "r"((unsigned)add));
}

#endif
