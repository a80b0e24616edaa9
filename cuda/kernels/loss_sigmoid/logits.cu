// Logits of all pairs, by tiles. The definition is in core/workloads/src/ops/loss_sigmoid.
//
// loss_sigmoid_logits  stores the logits
// loss_sigmoid_fused   PARTS blocks process the tiles, and each stores its part of the loss
// loss_sigmoid_slopes  stores the loss's slopes by logit, and the parts of two sums of these: see `scalars`

#include "lib/launch.cuh"
#include "lib/reduce.cuh"
#include "loss_sigmoid/pair.cuh"
#include "loss_sigmoid/tile.cuh"

// Calls `use` with row, column and product of each of this thread's pairs in a tile. All threads must call.
template <typename Use>
__device__ __forceinline__ void for_pairs(const elem* __restrict__ x, const elem* __restrict__ y, unsigned tile, Use use) {
    const unsigned first_row = tile / ACROSS * tile_side, first_column = tile % ACROSS * tile_side;
    const auto left = [=](unsigned row, unsigned term) {
        return row < N && term < D ? load(x[(u64)row * D + term]) : 0.0f;
    };
    const auto right = [=](unsigned term, unsigned column) {
        return column < N && term < D ? load(y[(u64)column * D + term]) : 0.0f;
    };
    float dots[4][4];
    tile_product(first_row, first_column, left, right, dots);
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        const unsigned row = first_row + own_row() + i / 4, column = first_column + own_column() + i % 4;
        if (row < N && column < N) use(row, column, dots[i / 4][i % 4]);
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    loss_sigmoid_logits(const elem* __restrict__ x, const elem* __restrict__ y, const float* __restrict__ temperature,
                        const float* __restrict__ bias, float* __restrict__ logits) {
    const unsigned tile = (unsigned)flat_workgroup();
    if (tile >= TILES) return;
    for_pairs(x, y, tile, [=](unsigned row, unsigned column, float dot) {
        logits[(u64)row * N + column] = fmaf(temperature[0], dot, bias[0]);
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    loss_sigmoid_fused(const elem* __restrict__ x, const elem* __restrict__ y, const float* __restrict__ temperature,
                       const float* __restrict__ bias, float* __restrict__ parts) {
    __shared__ float partial[ROW_THREADS / 32];
    const unsigned part = (unsigned)flat_workgroup();
    if (part >= PARTS) return;
    float sum = 0.0f;
    for (unsigned tile = part; tile < TILES; tile += PARTS) {
        float of_tile = 0.0f;
        for_pairs(x, y, tile, [&](unsigned row, unsigned column, float dot) {
            of_tile += softplus(against(row, column, fmaf(temperature[0], dot, bias[0])));
        });
        sum += of_tile;
    }
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) parts[part] = sum;
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    loss_sigmoid_slopes(const elem* __restrict__ x, const elem* __restrict__ y, const float* __restrict__ temperature,
                        const float* __restrict__ bias, float* __restrict__ parts, const float* __restrict__ dloss,
                        float* __restrict__ slopes) {
    __shared__ float partial[ROW_THREADS / 32];
    const unsigned tile = (unsigned)flat_workgroup();
    if (tile >= TILES) return;
    float along = 0.0f, level = 0.0f;
    for_pairs(x, y, tile, [&](unsigned row, unsigned column, float dot) {
        const float slope = slope_of(row, column, fmaf(temperature[0], dot, bias[0])) * (dloss[0] * SHARE);
        slopes[(u64)row * N + column] = slope;
        along = fmaf(slope, dot, along);
        level += slope;
    });
    along = block_sum(along, partial);
    level = block_sum(level, partial);
    if (threadIdx.x == 0) {
        parts[2 * (u64)tile] = along;
        parts[2 * (u64)tile + 1] = level;
    }
}
