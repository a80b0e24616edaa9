// Dot products of all A_ROWS rows of A with all B_ROWS rows of B by warpgroups, from tensor maps. Compute capability 9.0 only.
//
// A block has two warpgroups with 64 rows each of its tile of A, and a third whose first thread copies tiles of A and B into a
// ring of STAGES stages. The grid is persistent and the ring continues across tiles: copies for the next tile overlap with the
// use of the sums. Blocks of a cluster have tiles one below the other. Each loads its part of the tile of B into all of them.
//
// Each of STEPS steps has 128 bytes of every row of a tile. `place(step)` gives their columns in A and B, in elements of the tensor
// maps. The copy engine reads zeros outside the matrices.

#include "lib/product_order.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

constexpr unsigned BLOCK_M = 128, CONSUMERS = BLOCK_M / 64, STEP_BYTES = 128;
// Bytes of staged tiles.
constexpr unsigned a_tile_bytes = BLOCK_M * STEP_BYTES, stage_bytes = (BLOCK_M + BLOCK_N) * STEP_BYTES;
// Rows of a block's part of B.
constexpr unsigned PART_N = BLOCK_N / CLUSTER;
static_assert(THREADS == (CONSUMERS + 1) * 128 && BLOCK_N % 64 == 0 && BLOCK_N <= 256, "columns of an instruction");

// Stages in shared memory, and their barriers.
struct Ring {
    unsigned char* stages;
    mbarrier *full, *empty;

    // Barriers are behind the stages and `others` bytes.
    __device__ __forceinline__ Ring(unsigned char* shared, unsigned others)
        : stages(shared), full(reinterpret_cast<mbarrier*>(shared + STAGES * stage_bytes + others)), empty(full + STAGES) {}

    __device__ __forceinline__ unsigned char* a_tile(unsigned stage) const { return stages + stage * stage_bytes; }
    __device__ __forceinline__ unsigned char* b_tile(unsigned stage) const { return a_tile(stage) + a_tile_bytes; }

    // Initialises the barriers. All threads of the cluster call this.
    __device__ __forceinline__ void begin() const {
        if (threadIdx.x == 0) {
            for (unsigned stage = 0; stage < STAGES; stage++) {
                mbarrier_begin(&full[stage], 1);
                mbarrier_begin(&empty[stage], CONSUMERS * 4 * CLUSTER);
            }
            mbarrier_begun();
        }
        if constexpr (CLUSTER > 1) {
            cluster_sync();
        } else {
            __syncthreads();
        }
    }

    // Releases a stage for this warp in all blocks of the cluster, each of which loads a part of it.
    __device__ __forceinline__ void release(unsigned stage) const {
        const unsigned lane = threadIdx.x % 32;
        if constexpr (CLUSTER > 1) {
            if (lane < CLUSTER) mbarrier_release_at(&empty[stage], lane);
        } else {
            if (lane == 0) mbarrier_arrive(&empty[stage]);
        }
    }
};

// Position in the ring: a stage, and the parity of its round.
struct Position {
    unsigned stage = 0, parity = 0;

    __device__ __forceinline__ void next() {
        stage++;
        if (stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Calls `then(row, column)` for each tile of this block, with its first rows of A and of B.
template <typename Then>
__device__ __forceinline__ void each_tile(unsigned rank, const Then& then) {
    constexpr unsigned rows = BLOCK_M * CLUSTER;
    constexpr unsigned across = (B_ROWS + BLOCK_N - 1) / BLOCK_N, down = (A_ROWS + rows - 1) / rows;
#pragma unroll 1
    for (unsigned index = blockIdx.x / CLUSTER; index < across * down; index += gridDim.x / CLUSTER) {
        const uint2 tile = tile_at(index, across, down);
        then((tile.y * CLUSTER + rank) * BLOCK_M, tile.x * BLOCK_N);
    }
}

// Producer of the ring. One thread calls it.
template <typename Place>
__device__ __forceinline__ void produce(const CUtensorMap& a, const CUtensorMap& b, const Ring& ring, unsigned rank,
                                        const Place& place) {
    Position at;
    each_tile(rank, [&](unsigned a_row, unsigned b_row) {
#pragma unroll 1
        for (unsigned step = 0; step < STEPS; step++) {
            mbarrier *const full = &ring.full[at.stage], *const empty = &ring.empty[at.stage];
            if constexpr (CLUSTER > 1) {
                mbarrier_wait_cluster(empty, at.parity ^ 1);
            } else {
                mbarrier_wait(empty, at.parity ^ 1);
            }
            mbarrier_expect(full, stage_bytes);
            const uint2 columns = place(step);
            tma_load(ring.a_tile(at.stage), a, full, columns.x, a_row);
            unsigned char* const part = ring.b_tile(at.stage) + rank * PART_N * STEP_BYTES;
            if constexpr (CLUSTER > 1) {
                tma_multicast(part, b, full, (1 << CLUSTER) - 1, columns.y, b_row + rank * PART_N);
            } else {
                tma_load(part, b, full, columns.y, b_row);
            }
            at.next();
        }
    });
}

// Consumer of the ring: the products of 64 rows of each tile. `use(sums, row, column)` has the sums, and the warp's first rows of
// A and B. Element `i` of the sums is in column `wgmma_column(i)` and row `lane / 4 + i / 2 % 2 * 8`.
//
// Tensor cores truncate when they add. With `each` below STEPS, sums of that number of steps are added with rounding, in order.
template <typename Sum, unsigned each = STEPS, typename Use>
__device__ __forceinline__ void consume(const Ring& ring, unsigned rank, unsigned warp, const Use& use) {
    constexpr bool in_parts = each < STEPS;
    // Descriptors of the first stage. Those of others differ in the address alone.
    const u64 a_first = wgmma_along_k(ring.a_tile(0) + warp / 4 * 64 * STEP_BYTES), b_first = wgmma_along_k(ring.b_tile(0));
    constexpr unsigned next_stage = stage_bytes >> 4;
    Position at;
    each_tile(rank, [&](unsigned a_row, unsigned b_row) {
        Sum sums[BLOCK_N / 2], totals[in_parts ? BLOCK_N / 2 : 1] = {};
#pragma unroll 1
        for (unsigned first = 0; first < STEPS; first += each) {
            unsigned last = 0;
#pragma unroll 1
            for (unsigned step = 0; step < min(each, STEPS - first); step++) {
                mbarrier_wait(&ring.full[at.stage], at.parity);
                const u64 a = a_first + at.stage * next_stage, b = b_first + at.stage * next_stage;
                wgmma_fence();
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    wgmma(sums, a + i * WGMMA_NEXT_ALONG_K, b + i * WGMMA_NEXT_ALONG_K, step > 0 || i > 0);
                }
                wgmma_commit();
                // The step before has ended.
                wgmma_wait<1>();
                if (step > 0) ring.release(last);
                last = at.stage;
                at.next();
            }
            wgmma_wait<0>(sums);
            ring.release(last);
            if constexpr (in_parts) {
#pragma unroll
                for (unsigned i = 0; i < BLOCK_N / 2; i++) totals[i] += sums[i];
            }
        }
        if constexpr (in_parts) {
            use(totals, a_row + warp * 16, b_row);
        } else {
            use(sums, a_row + warp * 16, b_row);
        }
    });
}

// Columns of a step where both matrices have the same.
struct SameColumns {
    __device__ __forceinline__ uint2 operator()(unsigned step) const { return make_uint2(step * STEP, step * STEP); }
};

// Work of a block: `consuming(rank, warp)` calls `consume`. All threads call this.
template <typename Place, typename Consuming>
__device__ __forceinline__ void row_products(const CUtensorMap& a, const CUtensorMap& b, const Ring& ring, const Place& place,
                                             const Consuming& consuming) {
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        tma_prefetch(a);
        tma_prefetch(b);
    }
    ring.begin();
    if (threadIdx.x >= CONSUMERS * 128) {
        give_registers<24>();
        if (threadIdx.x == CONSUMERS * 128) produce(a, b, ring, rank, place);
        __syncwarp();
    } else {
        take_registers<240>();
        // Uniform, which the compiler cannot know.
        consuming(rank, __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0));
    }
    // Other blocks arrive at this block's barriers.
    if constexpr (CLUSTER > 1) cluster_sync();
}
