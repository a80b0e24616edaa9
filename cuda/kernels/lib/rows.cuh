// Rows of COLUMNS elements, each shared by LANES neighbouring threads of a block of THREADS, both powers of two. They are
// read and written in pieces of WIDTH neighbouring elements, which divides COLUMNS, so that no piece is ever cut.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;
constexpr unsigned rows_at_once = THREADS / LANES;

// A piece as it lies in memory, moved as one, and as it is computed with.
struct alignas(WIDTH * sizeof(elem)) stored {
    elem at[WIDTH];
};

struct piece {
    float at[WIDTH];
};

__device__ __forceinline__ piece piece_of(float x) {
    piece filled;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) filled.at[i] = x;
    return filled;
}

__device__ __forceinline__ piece load_piece(const elem* __restrict__ x, u64 index) {
    const stored from = reinterpret_cast<const stored*>(x)[index];
    piece loaded;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) loaded.at[i] = load(from.at[i]);
    return loaded;
}

__device__ __forceinline__ void store_piece(elem* __restrict__ out, u64 index, const piece& x) {
    stored to;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) to.at[i] = to_elem(x.at[i]);
    reinterpret_cast<stored*>(out)[index] = to;
}

// Reduce over the threads of a row; every thread of the block must call, and each gets the result of its row.
__device__ __forceinline__ float row_sum(float x) {
    if constexpr (LANES <= 32) return lanes_sum(x, LANES);
    __shared__ float partial[THREADS / 32];
    x = lanes_sum(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (unsigned warp = 0; warp < LANES / 32; warp++) total += partial[threadIdx.x / LANES * (LANES / 32) + warp];
    return total;
}

__device__ __forceinline__ float row_max(float x) {
    if constexpr (LANES <= 32) return lanes_max(x, LANES);
    __shared__ float partial[THREADS / 32];
    x = lanes_max(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float top = negative_infinity();
#pragma unroll
    for (unsigned warp = 0; warp < LANES / 32; warp++) {
        top = fmaxf(top, partial[threadIdx.x / LANES * (LANES / 32) + warp]);
    }
    return top;
}
