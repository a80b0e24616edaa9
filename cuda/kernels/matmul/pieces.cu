// Pieces of f32 matrices in bf16, for products by `split_wgmma`. The definition is in core/workloads/src/ops/matmul.
//
// A row of pieces has PADDED elements for each of three pieces. They are zero beyond DEPTH.
//
// matmul_pieces         rows along the depth stay rows
// matmul_pieces_across  a matrix of DEPTH x ROWS is transposed

#include "lib/launch.cuh"

// Two bf16 numbers in a word, the first in the lower half.
struct Pieces {
    unsigned word[3] = {};

    // Adds the pieces of `x`: its rounded value, the rounded rest, and the rest of that. Their sum is `x` but for subnormal numbers.
    template <unsigned half>
    __device__ __forceinline__ void put(float x) {
        float rest = x;
#pragma unroll
        for (unsigned i = 0; i < 3; i++) {
            unsigned short bits;
            asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(rest));
            // The largest numbers must not be rounded to infinity.
            if (i == 0 && (bits & 0x7FFFu) == 0x7F80u) bits = (unsigned short)(__float_as_uint(x) >> 16);
            word[i] |= (unsigned)bits << (16 * half);
            const float piece = __uint_as_float((unsigned)bits << 16);
            // Infinity and NaN have no rest.
            rest = (bits & 0x7F80u) == 0x7F80u ? 0.0f : rest - piece;
        }
    }
};

// Four elements per thread.
extern "C" __global__ void __launch_bounds__(256)
    matmul_pieces(const float* __restrict__ matrix, unsigned* __restrict__ pieces) {
    constexpr unsigned each = PADDED / 4;
    const u64 at = flat_workgroup() * 256 + threadIdx.x;
    const u64 row = at / each;
    const unsigned column = (unsigned)(at % each) * 4;
    if (row >= ROWS) return;
    const float* const from = matrix + row * DEPTH + column;
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if constexpr (DEPTH % 4 == 0) {
        if (column < DEPTH) x = *reinterpret_cast<const float4*>(from);
    } else {
        if (column < DEPTH) x.x = from[0];
        if (column + 1 < DEPTH) x.y = from[1];
        if (column + 2 < DEPTH) x.z = from[2];
        if (column + 3 < DEPTH) x.w = from[3];
    }
    Pieces low, high;
    low.put<0>(x.x);
    low.put<1>(x.y);
    high.put<0>(x.z);
    high.put<1>(x.w);
    uint2* const to = reinterpret_cast<uint2*>(pieces) + row * (3 * each) + column / 4;
#pragma unroll
    for (unsigned i = 0; i < 3; i++) to[i * each] = make_uint2(low.word[i], high.word[i]);
}

// Tiles of 64 of the depth by 32 rows of pieces.
extern "C" __global__ void __launch_bounds__(256)
    matmul_pieces_across(const float* __restrict__ matrix, unsigned* __restrict__ pieces) {
    __shared__ float tile[64][33];
    constexpr unsigned across = (ROWS + 31) / 32, down = PADDED / 64;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const unsigned first_row = (unsigned)(index % across) * 32, first = (unsigned)(index / across) * 64;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (unsigned i = warp; i < 64; i += 8) {
        const bool inside = first + i < DEPTH && first_row + lane < ROWS;
        tile[i][lane] = inside ? matrix[(u64)(first + i) * ROWS + first_row + lane] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = warp; i < 32; i += 8) {
        if (first_row + i >= ROWS) return;
        Pieces two;
        two.put<0>(tile[2 * lane][i]);
        two.put<1>(tile[2 * lane + 1][i]);
        unsigned* const to = pieces + (u64)(first_row + i) * (3 * PADDED / 2) + first / 2 + lane;
#pragma unroll
        for (unsigned j = 0; j < 3; j++) to[j * (PADDED / 2)] = two.word[j];
    }
}
