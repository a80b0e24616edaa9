// GEMM with weights of 4 bits on tensor cores, for few rows of A. The definition is in core/workloads/src/ops/matmul_q4.rs.
//
// Weights are the left factor: a block of eight warps computes 32 columns of C and 8·TILES of its rows. Its warps share the depth in
// chunks of 128, and add their sums in shared memory at the end.
//
// The depth may be summed in any order. In a chunk, the four lanes of a row of the left factor hold 32 neighbours each: one vector of
// four words. Two masked numbers of a word, four places apart, are a register of the instruction's operand. The right factor has the
// elements of A in the same order. A register of bits 1024 + q (f16) or 128 + q (bf16), less the same with the zero point, is exact.

#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "matmul_q4/groups.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(ELEM_F32)

constexpr unsigned CHUNK_WORDS = 16, CHUNKS = WORDS / CHUNK_WORDS, BLOCK_N = 32, BLOCK_M = 8 * TILES;

// Numbers 0 and 4, 1 and 5, 2 and 6, 3 and 7 of a word, less the zero point. In f16, a number four bits higher is 16 times as large.
__device__ __forceinline__ void unpack(unsigned word, unsigned point, unsigned (&pairs)[4]) {
#if defined(ELEM_F16)
    constexpr unsigned base = 0x64006400u, sixteenth = 0x2C002C00u;
    const unsigned less = base | point * 0x10001u, less_high = 0xD400D400u | point * 0x100010u;
    const unsigned upper = word >> 8;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(pairs[0]) : "r"((word & 0x000F000Fu) | base), "r"(less));
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(pairs[1]) : "r"((word & 0x00F000F0u) | base), "r"(sixteenth), "r"(less_high));
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(pairs[2]) : "r"((upper & 0x000F000Fu) | base), "r"(less));
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(pairs[3]) : "r"((upper & 0x00F000F0u) | base), "r"(sixteenth), "r"(less_high));
#else
    constexpr unsigned base = 0x43004300u, one = 0x3F803F80u;
    const unsigned less = 0xC300C300u | point * 0x10001u;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pairs[i]) : "r"((word >> 4 * i & 0x000F000Fu) | base), "r"(one), "r"(less));
    }
#endif
}

// Loads four words that are read once, past the first cache, which keeps the elements of A.
__device__ __forceinline__ uint4 load_once(const unsigned* __restrict__ from) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

__device__ __forceinline__ unsigned word_of(const uint4& x, unsigned i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    matmul_q4_mma(const elem* __restrict__ a, const unsigned* __restrict__ b, const unsigned* __restrict__ zero,
                  const elem* __restrict__ scale, elem* __restrict__ c) {
    __shared__ float parts[WARPS][BLOCK_M][BLOCK_N + 1];
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + BLOCK_M - 1) / BLOCK_M;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const unsigned first_row = index / across * BLOCK_M, first_col = index % across * BLOCK_N;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, place = lane / 4, quarter = lane % 4;
    // Columns of C of the lane: four, eight apart. Those outside repeat the last one, and so do rows of A.
    u64 cols[4];
#pragma unroll
    for (unsigned j = 0; j < 4; j++) cols[j] = min(first_col + place + 8 * j, N - 1);
    const elem* rows[TILES];
#pragma unroll
    for (unsigned t = 0; t < TILES; t++) rows[t] = a + (u64)min(first_row + place + 8 * t, M - 1) * (8 * WORDS) + 32 * quarter;

    float sums[2][TILES][4] = {};
    uint4 next[4];
    const auto fetch = [&](unsigned chunk) {
#pragma unroll
        for (unsigned j = 0; j < 4; j++) next[j] = load_once(b + cols[j] * WORDS + chunk * CHUNK_WORDS + 4 * quarter);
    };
    if (warp < CHUNKS) fetch(warp);
    for (unsigned chunk = warp; chunk < CHUNKS; chunk += WARPS) {
        uint4 packed[4];
        unsigned point[4];
        float factor[4];
        const unsigned group = chunk * CHUNK_WORDS / GROUP_WORDS;
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            packed[j] = next[j];
            point[j] = zero_point(zero, cols[j], group);
            factor[j] = load(scale[cols[j] * GROUPS + group]);
        }
        if (chunk + WARPS < CHUNKS) fetch(chunk + WARPS);
        float of_chunk[2][TILES][4] = {};
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            // Elements of A beside the numbers of a word, in pairs four apart: the right factor of two steps.
            unsigned right[TILES][4];
#pragma unroll
            for (unsigned t = 0; t < TILES; t++) {
                const uint4 x = __ldg(reinterpret_cast<const uint4*>(rows[t] + chunk * (8 * CHUNK_WORDS)) + i);
                right[t][0] = __byte_perm(x.x, x.z, 0x5410);
                right[t][1] = __byte_perm(x.x, x.z, 0x7632);
                right[t][2] = __byte_perm(x.y, x.w, 0x5410);
                right[t][3] = __byte_perm(x.y, x.w, 0x7632);
            }
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                unsigned pairs[2][4];
                unpack(word_of(packed[2 * half], i), point[2 * half], pairs[0]);
                unpack(word_of(packed[2 * half + 1], i), point[2 * half + 1], pairs[1]);
#pragma unroll
                for (unsigned step = 0; step < 2; step++) {
                    const unsigned left[4] = {pairs[0][2 * step], pairs[1][2 * step], pairs[0][2 * step + 1], pairs[1][2 * step + 1]};
#pragma unroll
                    for (unsigned t = 0; t < TILES; t++) {
                        multiply_add(of_chunk[half][t], left, right[t][2 * step], right[t][2 * step + 1]);
                    }
                }
            }
        }
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
#pragma unroll
            for (unsigned t = 0; t < TILES; t++) {
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    sums[half][t][i] = fmaf(of_chunk[half][t][i], factor[2 * half + i / 2], sums[half][t][i]);
                }
            }
        }
    }

    // Sums are of columns place and place + 8 of a half, and of rows 2·quarter and its neighbour.
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
#pragma unroll
        for (unsigned t = 0; t < TILES; t++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                parts[warp][8 * t + 2 * quarter + i % 2][16 * half + 8 * (i / 2) + place] = sums[half][t][i];
            }
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += 32 * WARPS) {
        const unsigned row = i / BLOCK_N, col = i % BLOCK_N;
        float sum = 0.0f;
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) sum += parts[w][row][col];
        if (first_row + row < M && first_col + col < N) c[(u64)(first_row + row) * N + first_col + col] = to_elem(sum);
    }
}

#endif
