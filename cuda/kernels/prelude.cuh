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

#if !defined(ELEM_F32) && __CUDA_ARCH__ >= 800

// Tensor cores and asynchronous copies, for kernels on 16-bit floats.

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Begin to copy eight elements to shared memory, or to write zeros there when `inside` is false and `from` is not read.
// Both addresses are multiples of 16 bytes.
__device__ __forceinline__ void copy_async(elem* to, const elem* from, bool inside) {
    const unsigned bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

// Make a group of this thread's copies since the last group.
__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until at most `open` of this thread's groups of copies, the latest ones, are still under way.
template <unsigned open>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; each lane gives the address of one row.
__device__ __forceinline__ void load_matrices(unsigned (&x)[4], const elem* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned (&x)[4], const elem* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// c += a b for a of 16 x 16 and b of 16 x 8.
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if defined(ELEM_F16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

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
