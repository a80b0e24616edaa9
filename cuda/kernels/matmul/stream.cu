// GEMM by warpgroups whose last waves of tiles are divided by steps among all blocks (stream-K). The definition is in
// core/workloads/src/ops/matmul.
//
// Sums of parts of tiles go to memory in f32. `stream_sum` adds those of each tile.

#include "lib/product_wgmma.cuh"
#include "lib/shares.cuh"

static_assert(!ALTERNATE && CLUSTER == 1 && PARTS == 1, "a block's consumers share its tiles");

// Steps of a tile, from `first` to before `end`, and the number of the part unless they are all.
struct Segment {
    Place place;
    unsigned first, end, part;

    __device__ __forceinline__ bool is_whole() const { return end - first == TILE_STEPS; }
};

// Calls `then(segment)` for each segment of this block: whole tiles, then its share of the others.
template <typename Then>
__device__ __forceinline__ void visit_segments(const Then& then) {
    unsigned next = blockIdx.x, at = share_of(blockIdx.x);
    const unsigned end = share_of(blockIdx.x + 1);
#pragma unroll 1
    while (next < WHOLE || at < end) {
        unsigned index = next, first = 0, steps = TILE_STEPS;
        if (next < WHOLE) {
            next += BLOCKS;
        } else {
            index = WHOLE + at / TILE_STEPS;
            first = at % TILE_STEPS;
            steps = min(TILE_STEPS - first, end - at);
            at += steps;
        }
        const uint2 tile = tile_at(index, ACROSS, DOWN);
        then(Segment{Place{0, 0, tile.y * BLOCK_M, tile.x * BLOCK_N, M, false, false}, first, first + steps,
                     part_of(blockIdx.x, first == 0)});
    }
}

__device__ __forceinline__ void multiply_segments(const CUtensorMap& c, const CUtensorMap& parts, const Ring& ring) {
    const unsigned warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0), rows = warp / 4 * SETS * 64;
    Products products = products_of(ring, rows);
    static_assert(Results<Unchanged>::slot_elems == Results<Sums>::slot_elems, "they share slots");
    elem* const slots = ring.pieces + warp * SLOTS * Results<Sums>::slot_elems;
    Results<Unchanged> of_c{c, Unchanged{}, slots, ring.loaded + warp * SLOTS, 0};
    Results<Sums> of_parts{parts, Sums{}, slots, ring.loaded + warp * SLOTS, 0};
    visit_segments([&](const Segment& segment) {
        float sums[SETS][BLOCK_N / 2];
        products.tile(ring, sums, segment.end - segment.first);
        products.end(ring, sums);
        const unsigned row = rows + warp % 4 * 16;
        if (segment.is_whole()) {
            Place place = segment.place;
            place.row += row;
            of_c.store(place, sums);
        } else {
            of_parts.store(Place{segment.part, 0, row, 0, BLOCK_M, false, false}, sums);
        }
    });
    if (threadIdx.x % 32 == 0) tma_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_stream(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                  const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap parts) {
    const auto load = [&](const Ring& ring, unsigned rank) {
        Position at;
        visit_segments([&](const Segment& segment) {
#pragma unroll 1
            for (unsigned step = segment.first; step < segment.end; step++) {
                load_step(a, b, ring, at, rank, segment.place, 0, step);
                at.skip<1>();
            }
        });
    };
    by_warpgroups<Results<Sums>::slot_elems>(a, b, c, load,
                                             [&](const Ring& ring, unsigned) { multiply_segments(c, parts, ring); });
}
