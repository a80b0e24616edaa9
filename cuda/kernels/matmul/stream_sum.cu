// Sum of the parts of tiles of `stream`, in pieces of WIDTH columns. Tiles that one block has whole are complete. Parts are added in
// the order of their steps.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/shares.cuh"

extern "C" __global__ void matmul_stream_sum(const float* __restrict__ parts, elem* __restrict__ c) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= COUNT) return;
    constexpr unsigned of_row = BLOCK_N / WIDTH, of_tile = BLOCK_M * of_row;
    const unsigned shared = (unsigned)(index / of_tile), within = (unsigned)(index % of_tile);
    const unsigned first = block_of(shared * TILE_STEPS), last = block_of((shared + 1) * TILE_STEPS - 1);
    if (first == last) return;
    const uint2 tile = tile_at(WHOLE + shared, ACROSS, DOWN);
    const unsigned row = tile.y * BLOCK_M + within / of_row, column = tile.x * BLOCK_N + within % of_row * WIDTH;
    if (row >= M || column >= N) return;
    piece sum = piece_of(0.0f);
    for (unsigned block = first; block <= last; block++) {
        const piece part = load_floats(parts, (u64)part_of(block, block == first) * of_tile + within);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += part.at[i];
    }
    store_piece(c, ((u64)row * N + column) / WIDTH, sum);
}
