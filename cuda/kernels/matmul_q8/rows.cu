// GEMM with weights of 8 bits for few rows of A. The definition is in core/workloads/src/ops/matmul_q8.rs.
//
// A team of SPLIT warps computes ROWS rows and COLUMNS columns; a block of eight warps has one team or several. The lanes of a team
// share the depth. A lane reads WIDTH words of each of its columns before it uses one, and the elements of A for them once for all.
//
// The byte of a number with its sign flipped is put into the lowest bits of 2^23 as f32. Less 2^23 + 128, it is the weight,
// exactly.

#include "lib/launch.cuh"
#include "lib/sum_each.cuh"

constexpr unsigned UNITS = WORDS / WIDTH, TEAMS = 8 / SPLIT, RESULTS = ROWS * COLUMNS, BLOCK_N = TEAMS * COLUMNS;
static_assert(RESULTS <= 32, "a warp has a sum for each of its lanes at most");

struct alignas(4 * WIDTH) words {
    unsigned at[WIDTH];
};

extern "C" __global__ void __launch_bounds__(256)
    matmul_q8_rows(const elem* __restrict__ a, const unsigned* __restrict__ b, const elem* __restrict__ scale,
                   elem* __restrict__ c) {
    __shared__ float parts[8][RESULTS];
    constexpr unsigned across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    // Tiles of the same columns follow each other, so that their weights come from the cache.
    const unsigned first_row = (unsigned)(index % down) * ROWS, block_col = (unsigned)(index / down) * BLOCK_N;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_col = block_col + warp / SPLIT * COLUMNS;
    float sums[RESULTS] = {};
    for (unsigned unit = warp % SPLIT * 32 + lane; unit < UNITS; unit += 32 * SPLIT) {
        words packed[COLUMNS];
        float factor[COLUMNS];
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            // Columns and rows outside repeat the last ones; their results are not stored.
            packed[j] = reinterpret_cast<const words*>(b)[(u64)min(first_col + j, N - 1) * UNITS + unit];
        }
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++) {
            factor[j] = load(scale[(u64)min(first_col + j, N - 1) * GROUPS + unit * WIDTH / GROUP_WORDS]);
        }
        float of_unit[RESULTS] = {};
#pragma unroll
        for (unsigned word = 0; word < WIDTH; word++) {
            float weight[4][COLUMNS];
#pragma unroll
            for (unsigned j = 0; j < COLUMNS; j++) {
                const unsigned raised = packed[j].at[word] ^ 0x80808080u;
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    weight[i][j] = __uint_as_float(__byte_perm(raised, 0x4B000000u, 0x7540 + i)) - 8388736.0f;
                }
            }
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                const u64 row = min(first_row + r, M - 1);
                const elem4 left = reinterpret_cast<const elem4*>(a)[row * WORDS + unit * WIDTH + word];
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const float x = load(left.at[i]);
#pragma unroll
                    for (unsigned j = 0; j < COLUMNS; j++) {
                        of_unit[r * COLUMNS + j] = fmaf(x, weight[i][j], of_unit[r * COLUMNS + j]);
                    }
                }
            }
        }
#pragma unroll
        for (unsigned i = 0; i < RESULTS; i++) sums[i] = fmaf(of_unit[i], factor[i % COLUMNS], sums[i]);
    }

    constexpr unsigned holders = 32 / RESULTS;
    const float sum = lanes_sum_of_each<RESULTS, 32>(sums);
    if (lane % holders == 0) parts[warp][lane / holders] = sum;
    __syncthreads();
    if (threadIdx.x >= TEAMS * RESULTS) return;
    const unsigned team = threadIdx.x / RESULTS, result = threadIdx.x % RESULTS;
    const unsigned row = first_row + result / COLUMNS, col = block_col + team * COLUMNS + result % COLUMNS;
    float total = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < SPLIT; i++) total += parts[team * SPLIT + i][result];
    if (row < M && col < N) c[(u64)row * N + col] = to_elem(total);
}
