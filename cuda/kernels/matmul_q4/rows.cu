// GEMM with weights of 4 bits for few rows of A. The definition is in core/workloads/src/ops/matmul_q4.rs.
//
// A block of four warps computes ROWS rows and 16 columns: a warp for each four columns, whose lanes share the depth. A lane reads
// WIDTH words of each of its columns, and the elements of A for them once for all four.
//
// A number at bit 4·i of a word, for i up to 3, is put into the lower bits of 2^23 as f32. Less 2^23 and the zero point at the same
// bits, it is the weight times 16^i, exactly. The elements of A are divided by 16^i first, which is exact too.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"
#include "matmul_q4/groups.cuh"

constexpr unsigned UNITS = WORDS / WIDTH, COLUMNS = 4;

struct alignas(4 * WIDTH) words {
    unsigned at[WIDTH];
};

struct alignas(4 * sizeof(elem)) quad {
    elem at[4];
};

extern "C" __global__ void __launch_bounds__(128)
    matmul_q4_rows(const elem* __restrict__ a, const unsigned* __restrict__ b, const unsigned* __restrict__ zero,
                   const elem* __restrict__ scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16, down = (M + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const u64 first_row = index / across * ROWS;
    const unsigned first_col = index % across * 16 + threadIdx.x / 32 * COLUMNS, lane = threadIdx.x % 32;
    float sums[ROWS][COLUMNS] = {};
    for (unsigned unit = lane; unit < UNITS; unit += 32) {
        const unsigned group = unit * WIDTH / GROUP_WORDS;
        words packed[COLUMNS];
        float factor[COLUMNS], less[COLUMNS][4];
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            // Columns and rows outside repeat the last ones; their results are not stored.
            const u64 col = min(first_col + j, N - 1);
            packed[j] = reinterpret_cast<const words*>(b)[col * UNITS + unit];
            factor[j] = load(scale[col * GROUPS + group]);
            const float point = (float)zero_point(zero, col, group);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) less[j][i] = 8388608.0f + (float)(1 << 4 * i) * point;
        }
        float of_unit[ROWS][COLUMNS] = {};
#pragma unroll
        for (unsigned half = 0; half < 2 * WIDTH; half++) {
            float weight[4][COLUMNS];
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                const unsigned numbers = packed[j].at[half / 2] >> 16 * (half % 2);
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    weight[i][j] = __uint_as_float((numbers & 15u << 4 * i) | 0x4B000000u) - less[j][i];
                }
            }
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                const u64 row = min(first_row + r, (u64)M - 1);
                const quad left = reinterpret_cast<const quad*>(a)[row * (2 * WORDS) + unit * (2 * WIDTH) + half];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const float x = load(left.at[i]) * (1.0f / (float)(1 << 4 * i));
#pragma unroll
                    for (unsigned j = 0; j < COLUMNS; j++) of_unit[r][j] = fmaf(x, weight[i][j], of_unit[r][j]);
                }
            }
        }
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) sums[r][j] = fmaf(of_unit[r][j], factor[j], sums[r][j]);
        }
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            const float sum = lanes_sum(sums[r][j], 32);
            const u64 row = first_row + r;
            if (lane == 0 && row < M && first_col + j < N) c[row * N + first_col + j] = to_elem(sum);
        }
    }
}
