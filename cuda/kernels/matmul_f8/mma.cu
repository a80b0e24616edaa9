// fp8 GEMM on tensor cores by warp-wide products of f16: 16 x 16 and 16 x 8. The definition is in core/workloads/src/ops/matmul_f8.
//
// A block computes a tile of BLOCK_M x BLOCK_N, each warp 64 rows of WARP_N columns. Tiles of A and B are copied asynchronously as
// codes, STAGES - 1 steps ahead, and become f16 behind the loads of fragments. An f16 is 2^-8 times its e4m3 code's number, and the
// number of an e5m2 code, exactly.
//
// A lane's word of a fragment has four neighbours along K. Two of them are its first pair of an f16 fragment, and two its second
// pair. This orders K alike in A and B.

#include "lib/async_copy.cuh"
#include "lib/mma.cuh"
#include "lib/product_order.cuh"
#include "matmul_f8/codes.cuh"

constexpr unsigned WARPS_N = BLOCK_N / WARP_N, FRAGMENTS = WARP_N / 8;
static_assert(BLOCK_M / 64 * WARPS_N * 32 == THREADS && BLOCK_K % 32 == 0, "a warp per 64 x WARP_N elements, whole instructions");
static_assert(SPAN % BLOCK_K == 0 && SPAN % WARP_N == 0, "a step and the columns of a warp have one scale of B");

// Bytes per staged row, and per stage of both tiles.
constexpr unsigned ROW_BYTES = BLOCK_K + PADDING, STAGE_BYTES = (BLOCK_M + BLOCK_N) * ROW_BYTES;
// Inverse of the factors of both matrices.
constexpr float UNIT = A_E5M2 ? 256.0f : 65536.0f;

// Begins to copy bytes `at` .. at + BLOCK_K of rows first .. first + count - 1, zeros outside.
template <unsigned count>
__device__ __forceinline__ void stage_tile(unsigned char* tile, const unsigned* __restrict__ rows, unsigned first, unsigned end,
                                           unsigned at) {
    constexpr unsigned bytes = 4 * WORDS, pieces = BLOCK_K / 16, pass = THREADS / pieces;
    static_assert(THREADS % pieces == 0 && count % pass == 0, "every thread copies as many pieces");
    const unsigned row = threadIdx.x / pieces, along = threadIdx.x % pieces * 16;
#pragma unroll
    for (unsigned i = 0; i < count; i += pass) {
        const unsigned from_row = first + row + i;
        unsigned char* const to = tile + (row + i) * ROW_BYTES + along;
        const bool inside = from_row < end && at + along < bytes;
        const unsigned char* const from =
            reinterpret_cast<const unsigned char*>(rows) + (inside ? (u64)from_row * bytes + at + along : 0);
        if constexpr (bytes % 16 == 0) {
            copy_async(to, from, inside);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned word = 0; word < 16; word += 4) {
                const bool there = inside && at + along + word < bytes;
                copy_word_async(to + word, there ? from + word : from, there);
            }
        }
    }
}

// Four codes as two pairs of f16. The bits of a size become those of f16 one place to the right. The bit above them is set for NaN,
// and so is then all of the exponent.
__device__ __forceinline__ void unpack(unsigned word, unsigned& first, unsigned& second) {
    const unsigned sizes = word & 0x7F7F7F7Fu;
    const unsigned marked = sizes | (sizes + 0x01010101u & 0x80808080u);
    // Bytes become the upper halves of 16 bits.
    first = __byte_perm(marked, 0, 0x1404) >> 1 | __byte_perm(word, 0, 0x1404) & 0x80008000u;
    second = __byte_perm(marked, 0, 0x3424) >> 1 | __byte_perm(word, 0, 0x3424) & 0x80008000u;
}

// The same of A. The bits of an e5m2 code are the upper ones of f16.
__device__ __forceinline__ void unpack_of_a(unsigned word, unsigned& first, unsigned& second) {
#if A_E5M2
    first = __byte_perm(word, 0, 0x1404);
    second = __byte_perm(word, 0, 0x3424);
#else
    unpack(word, first, second);
#endif
}

// c += a b for a of 16 x 16 and b of 16 x 8 of f16.
__device__ __forceinline__ void multiply_add_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Adds the products of a staged step. A fragment of A has 16 rows and 32 codes, and two of B have eight rows each.
__device__ __forceinline__ void add_step(float (&sums)[4][FRAGMENTS][4], const unsigned char* a_tile, unsigned warp_row,
                                         unsigned warp_col) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned char* const b_tile = a_tile + BLOCK_M * ROW_BYTES;
#pragma unroll
    for (unsigned k = 0; k < BLOCK_K; k += 32) {
        unsigned right[FRAGMENTS][4];
#pragma unroll
        for (unsigned j = 0; j < FRAGMENTS; j += 2) {
            unsigned words[4];
            load_matrices(words, b_tile + (warp_col + 8 * j + lane / 16 * 8 + lane % 8) * ROW_BYTES + k + lane / 8 % 2 * 16);
#pragma unroll
            for (unsigned w = 0; w < 4; w++) unpack(words[w], right[j + w / 2][w % 2 * 2], right[j + w / 2][w % 2 * 2 + 1]);
        }
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned words[4], left[2][4];
            load_matrices(words, a_tile + (warp_row + 16 * i + lane % 16) * ROW_BYTES + k + lane / 16 * 16);
            // Words have rows up to seven, then those from eight on, of the first 16 codes, then of the others.
#pragma unroll
            for (unsigned w = 0; w < 4; w++) unpack_of_a(words[w], left[w / 2][w % 2], left[w / 2][w % 2 + 2]);
#pragma unroll
            for (unsigned j = 0; j < FRAGMENTS; j++) {
                multiply_add_f16(sums[i][j], left[0], right[j][0], right[j][1]);
                multiply_add_f16(sums[i][j], left[1], right[j][2], right[j][3]);
            }
        }
    }
}

// Adds sums to totals with their scales, and begins new sums.
__device__ __forceinline__ void add_scaled(float (&totals)[4][FRAGMENTS][4], float (&sums)[4][FRAGMENTS][4],
                                           const float* __restrict__ a_scale, float right, unsigned row, unsigned part) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        // Rows outside have the scales of the last one.
        const float left[2] = {scale_of_a(a_scale, min(row + 16 * i, M - 1), part),
                               scale_of_a(a_scale, min(row + 16 * i + 8, M - 1), part)};
#pragma unroll
        for (unsigned j = 0; j < FRAGMENTS; j++) {
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                totals[i][j][e] = fmaf(left[e / 2] * right, sums[i][j][e], totals[i][j][e]);
                sums[i][j][e] = 0.0f;
            }
        }
    }
}

// Stores two neighbours, the first in an even column, times the scale of their row and those of their columns.
__device__ __forceinline__ void store2(elem* __restrict__ c, const float* __restrict__ b_scale, unsigned row, unsigned col,
                                       float left, float first, float second) {
    if (row >= M || col >= N) return;
    const auto scaled = [&](unsigned at, float sum) {
        return BY_BLOCK ? UNIT * sum : left * scale_of_b(b_scale, min(at, N - 1), 0) * (UNIT * sum);
    };
    const float x = scaled(col, first), y = scaled(col + 1, second);
    elem* const to = c + (u64)row * N + col;
    if constexpr (N % 2 == 0) {
#if defined(ELEM_F32)
        *reinterpret_cast<float2*>(to) = make_float2(x, y);
#else
        *reinterpret_cast<unsigned*>(to) = pack(x, y);
#endif
    } else {
        to[0] = to_elem(x);
        if (col + 1 < N) to[1] = to_elem(y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS)
    matmul_f8_mma(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                  const float* __restrict__ b_scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + BLOCK_M - 1) / BLOCK_M;
    constexpr unsigned steps = (4 * WORDS + BLOCK_K - 1) / BLOCK_K;
    extern __shared__ uint4 shared[];
    unsigned char* const staged = reinterpret_cast<unsigned char*>(shared);
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * BLOCK_M, first_col = tile.x * BLOCK_N;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned warp_row = warp / WARPS_N * 64, warp_col = warp % WARPS_N * WARP_N;
    const unsigned row = first_row + warp_row + lane / 4, col = first_col + warp_col;

    // Past the end zeros are written and groups are empty, so that waits can count groups.
    const auto stage = [&](unsigned step) {
        unsigned char* const a_tile = staged + step % STAGES * STAGE_BYTES;
        stage_tile<BLOCK_M>(a_tile, a, first_row, M, step * BLOCK_K);
        stage_tile<BLOCK_N>(a_tile + BLOCK_M * ROW_BYTES, b, first_col, N, step * BLOCK_K);
        close_copies();
    };

    float sums[4][FRAGMENTS][4] = {};
#if BY_BLOCK
    float totals[4][FRAGMENTS][4] = {};
#endif
#pragma unroll
    for (unsigned step = 0; step < STAGES - 1; step++) stage(step);
#pragma unroll 1
    for (unsigned step = 0; step < steps; step++) {
        wait_for_copies<STAGES - 2>();
        // Also ends the reads of the step before, whose place the next copies take.
        __syncthreads();
        stage(step + STAGES - 1);
        add_step(sums, staged + step % STAGES * STAGE_BYTES, warp_row, warp_col);
#if BY_BLOCK
        // A part is SPAN / BLOCK_K steps; the last one may be shorter.
        if ((step + 1) % (SPAN / BLOCK_K) == 0 || step + 1 == steps) {
            const unsigned part = step / (SPAN / BLOCK_K);
            add_scaled(totals, sums, a_scale, scale_of_b(b_scale, min(col, N - 1), part), row, part);
        }
#endif
    }

    // In a fragment of results, a lane holds two neighbouring columns of rows lane / 4 and lane / 4 + 8.
#if BY_BLOCK
    const auto& results = totals;
#else
    const auto& results = sums;
#endif
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const unsigned at = row + 16 * i + 8 * r;
            const float left = BY_BLOCK ? 1.0f : scale_of_a(a_scale, min(at, M - 1), 0);
#pragma unroll
            for (unsigned j = 0; j < FRAGMENTS; j++) {
                store2(c, b_scale, at, col + 8 * j + lane % 4 * 2, left, results[i][j][2 * r], results[i][j][2 * r + 1]);
            }
        }
    }
}
