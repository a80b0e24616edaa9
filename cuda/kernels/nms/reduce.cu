// Kept boxes by the masks of overlaps, tile by tile, in one workgroup. The definition is in core/workloads/src/ops/nms.rs.

#include "lib/launch.cuh"
#include "nms/rank.cuh"

constexpr unsigned TEAMS = THREADS / LANES;
// Rows that a thread reads at a time.
constexpr unsigned AT_ONCE = 4;

// Bits of the 32 boxes of a word: none past the last box.
__device__ __forceinline__ unsigned present(unsigned tile, unsigned word) {
    const unsigned first = tile * TILE + 32 * word;
    if (first >= N) return 0;
    return 0xFFFFFFFFu >> (32 - min(N - first, 32u));
}

// Kept boxes of a tile among those that no earlier tile excludes.
__device__ __forceinline__ void keep_of(unsigned (&alive)[4], const uint4* within) {
#pragma unroll
    for (unsigned word = 0; word < 4; word++) {
#pragma unroll
        for (unsigned i = 0; i < 32; i++) {
            const uint4 own = within[32 * word + i];
            if (alive[word] & 1u << i) {
                alive[0] &= ~own.x;
                alive[1] &= ~own.y;
                alive[2] &= ~own.z;
                alive[3] &= ~own.w;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    nms_reduce(const unsigned* __restrict__ masks, unsigned* __restrict__ keep
#if SCORED
               ,
               const unsigned* __restrict__ order
#endif
    ) {
    // Bits of boxes that a kept one excludes.
    __shared__ unsigned excluded[TILES * 4];
    // Masks of the tile within itself, its kept boxes, and the rows of these.
    const uint4* __restrict__ const rows_of = reinterpret_cast<const uint4*>(masks);
    __shared__ uint4 within[TILE];
    __shared__ unsigned kept[4];
    __shared__ unsigned rows[TILE];
    for (unsigned i = threadIdx.x; i < TILES * 4; i += THREADS) excluded[i] = 0;
    const unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    const auto own_mask = [&](unsigned tile) {
        const u64 row = (u64)tile * TILE + threadIdx.x;
        return threadIdx.x < TILE && row < N ? rows_of[row * TILES + tile] : make_uint4(0, 0, 0, 0);
    };
    uint4 next = own_mask(0);
    for (unsigned tile = 0; tile < TILES; tile++) {
        if (threadIdx.x < TILE) within[threadIdx.x] = next;
        __syncthreads();
        // The load of the next tile's masks is under way while this one is reduced.
        if (tile + 1 < TILES) next = own_mask(tile + 1);
        if (threadIdx.x == 0) {
            unsigned alive[4];
#pragma unroll
            for (unsigned word = 0; word < 4; word++) alive[word] = present(tile, word) & ~excluded[4 * tile + word];
            keep_of(alive, within);
#pragma unroll
            for (unsigned word = 0; word < 4; word++) kept[word] = alive[word];
        }
        __syncthreads();
        const unsigned counts[4] = {(unsigned)__popc(kept[0]), (unsigned)__popc(kept[1]), (unsigned)__popc(kept[2]),
                                    (unsigned)__popc(kept[3])};
        const unsigned count = counts[0] + counts[1] + counts[2] + counts[3];
        if (threadIdx.x < TILE) {
            const unsigned word = threadIdx.x / 32, bit = 1u << threadIdx.x % 32, mine = kept[word] & bit;
            // Kept boxes before this one.
            unsigned place = __popc(kept[word] & (bit - 1));
#pragma unroll
            for (unsigned before = 0; before < 3; before++) place += before < word ? counts[before] : 0;
            const unsigned row = tile * TILE + threadIdx.x;
            if (mine != 0) rows[place] = row;
            if (row < N) keep[BOX_OF(row)] = mine != 0;
        }
        __syncthreads();
        for (unsigned vector = tile + 1 + lane; vector < TILES; vector += LANES) {
            uint4 found = make_uint4(0, 0, 0, 0);
            for (unsigned k = team; k < count; k += TEAMS * AT_ONCE) {
                uint4 read[AT_ONCE];
                // Past the last row, the last one once more.
#pragma unroll
                for (unsigned i = 0; i < AT_ONCE; i++) {
                    read[i] = rows_of[(u64)rows[min(k + i * TEAMS, count - 1)] * TILES + vector];
                }
#pragma unroll
                for (unsigned i = 0; i < AT_ONCE; i++) {
                    found.x |= read[i].x;
                    found.y |= read[i].y;
                    found.z |= read[i].z;
                    found.w |= read[i].w;
                }
            }
            if (found.x != 0) atomicOr(excluded + 4 * vector, found.x);
            if (found.y != 0) atomicOr(excluded + 4 * vector + 1, found.y);
            if (found.z != 0) atomicOr(excluded + 4 * vector + 2, found.z);
            if (found.w != 0) atomicOr(excluded + 4 * vector + 3, found.w);
        }
    }
}
