// Gate and values of the same columns by warpgroups, and their product. The definition is in core/workloads/src/ops/mlp_glu.rs.
//
// The first half of a tile's columns is the gate's, the second half the values'. A thread has the sums of both at the same place.

#include "lib/product_wgmma.cuh"
#include "mlp_glu/share.cuh"

static_assert(!ALTERNATE && CLUSTER == 1 && PARTS == 1 && !A_TRANSPOSED && !B_TRANSPOSED, "a block's consumers share its tiles");

// Columns of the result that a block computes together, and sums of a thread in them.
constexpr unsigned HALF = BLOCK_N / 2, OF_HALF = HALF / 2;
static_assert(HALF % 64 == 0, "pieces have 64 columns");

// Calls `then(place)` for each tile of this block.
template <typename Then>
__device__ __forceinline__ void visit_tiles(const Then& then) {
    constexpr unsigned across = (N + HALF - 1) / HALF, down = (M + BLOCK_M - 1) / BLOCK_M;
#pragma unroll 1
    for (unsigned index = blockIdx.x; index < across * down; index += gridDim.x) {
        const uint2 tile = tile_at(index, across, down);
        then(Place{0, 0, tile.y * BLOCK_M, tile.x * HALF, M, false, false});
    }
}

__device__ __forceinline__ void load_tiles(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& other, const Ring& ring) {
    Position at;
    visit_tiles([&](const Place& place) {
#pragma unroll 1
        for (unsigned k = 0; k < STEPS * BLOCK_K; k += BLOCK_K) {
            mbarrier* const full = &ring.full[at.stage];
            mbarrier_wait(&ring.empty[at.stage], at.parity ^ 1);
            mbarrier_expect(full, stage_elems * sizeof(elem));
            tma_load(ring.a_tile(at.stage), a, full, k, place.row, 0);
            elem* const b_tile = ring.b_tile(at.stage);
#pragma unroll
            for (unsigned i = 0; i < HALF; i += 64) {
                tma_load(b_tile + i * BLOCK_K, b, full, place.column + i, k, 0);
                tma_load(b_tile + (HALF + i) * BLOCK_K, other, full, place.column + i, k, 0);
            }
            at.skip<1>();
        }
    });
}

__device__ __forceinline__ void multiply_tiles(const CUtensorMap& c, const Ring& ring) {
    const unsigned warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0), rows = warp / 4 * SETS * 64;
    Products products = products_of(ring, rows);
    using Of = Results<Unchanged, HALF>;
    Of results{c, Unchanged{}, ring.pieces + warp * SLOTS * Of::slot_elems, ring.loaded + warp * SLOTS, 0};
    visit_tiles([&](const Place& tile) {
        float sums[SETS][BLOCK_N / 2];
        products.tile(ring, sums);
        products.end(ring, sums);
#pragma unroll
        for (unsigned set = 0; set < SETS; set++) {
#pragma unroll
            for (unsigned i = 0; i < OF_HALF; i++) {
                sums[set][i] = (GELU ? gelu_tanh(sums[set][i]) : gate_silu(sums[set][i])) * sums[set][OF_HALF + i];
            }
        }
        Place place = tile;
        place.row += rows + warp % 4 * 16;
        results.store(place, sums);
    });
    if (threadIdx.x % 32 == 0) tma_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    mlp_glu_pair(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ CUtensorMap other, const __grid_constant__ CUtensorMap c) {
    by_warpgroups<Results<Unchanged, HALF>::slot_elems>(
        a, b, c, [&](const Ring& ring, unsigned) { load_tiles(a, b, other, ring); },
        [&](const Ring& ring, unsigned) { multiply_tiles(c, ring); });
}
