// Logits on tensor cores by warp-wide instructions. The definition is in core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_mma_logits  stores the logits, in f32
// linear_cross_entropy_mma         stores the part of each row in a warp's 64 columns: no logit is stored

#include "lib/product_mma.cuh"
#include "linear_cross_entropy/part.cuh"

// Columns of a warp, and those of them in each of four lanes that share a row.
constexpr unsigned warp_columns = 64, own_columns = warp_columns / 4;

// Calls `store(row, column, x, y)` for each two neighbouring logits of this thread, row by row. They may be outside.
template <typename Store>
__device__ __forceinline__ void each_pair(const elem* __restrict__ x, const elem* __restrict__ w, const Store& store) {
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN, down = (M + BLOCK_MN - 1) / BLOCK_MN;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * BLOCK_MN, first_column = tile.x * BLOCK_MN;
    const auto stage_tiles = [&](elem* x_tile, elem* w_tile, unsigned d) {
        stage_tile<StagedA, A_HEIGHT, A_WIDTH>(x_tile, x, first_row, d);
        stage_tile<StagedB, B_HEIGHT, B_WIDTH>(w_tile, w, first_column, d);
    };
    product_mma_of(stage_tiles, [&](unsigned tile_row, unsigned tile_column, float first, float second) {
        store(first_row + tile_row, first_column + tile_column, first, second);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_cross_entropy_mma_logits(const elem* __restrict__ x, const elem* __restrict__ w, float* __restrict__ logits) {
    each_pair(x, w, [&](unsigned row, unsigned column, float first, float second) {
        if (row >= ROWS) return;
        float* const to = logits + (u64)row * CLASSES + column;
        if constexpr (CLASSES % 2 == 0) {
            if (column < CLASSES) *reinterpret_cast<float2*>(to) = make_float2(first, second);
        } else {
            if (column < CLASSES) to[0] = first;
            if (column + 1 < CLASSES) to[1] = second;
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_cross_entropy_mma(const elem* __restrict__ x, const elem* __restrict__ w, const unsigned* __restrict__ targets,
                             float* __restrict__ parts, float* __restrict__ picked) {
    const Parts to{targets, parts, picked};
    // Logits of a row, and the number of them so far: a constant in each call, since loops around the calls are unrolled.
    float kept[own_columns];
    unsigned count = 0;
    each_pair(x, w, [&](unsigned row, unsigned column, float first, float second) {
        kept[count] = first;
        kept[count + 1] = second;
        count += 2;
        if (count < own_columns) return;
        count = 0;
        // The last pair is in the last 8 columns of the warp.
        const unsigned first_column = column - (warp_columns - 8);
        to.store<own_columns, 4>(
            row, column / warp_columns, [&](unsigned k) { return kept[k]; },
            [&](unsigned k) { return first_column + k / 2 * 8 + k % 2; });
    });
}
