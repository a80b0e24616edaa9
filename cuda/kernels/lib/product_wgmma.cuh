// GEMM by warpgroups on 16-bit floats from tensor maps, sums in f32. Compute capability 9.0 only.
//
// A block has two warpgroups with 64 rows each of its tile of C, and a third whose first thread copies tiles of A and B into a
// ring of STAGES stages. The grid is persistent and the ring continues across tiles: copies for the next tile overlap with the
// epilogue. Blocks of a cluster have tiles one below the other. Each loads its part of the tile of B into all of them.
//
// Tiles may exceed the matrices: the copy engine reads zeros outside, and does not write there.

#include "lib/mma.cuh"
#include "lib/product.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

constexpr unsigned BLOCK_M = 128, BLOCK_K = 64, CONSUMERS = BLOCK_M / 64;
// Elements of staged tiles. Rows have 64 elements: along K, or along M or N in sets of BLOCK_K rows.
constexpr unsigned a_tile_elems = BLOCK_M * BLOCK_K, stage_elems = (BLOCK_M + BLOCK_N) * BLOCK_K;
// Elements of a piece of C: 16 rows of 64. A warp has two pieces in shared memory.
constexpr unsigned piece_elems = 16 * 64;
// Columns of a block's part of B.
constexpr unsigned PART_N = BLOCK_N / CLUSTER;
static_assert(THREADS == (CONSUMERS + 1) * 128 && BLOCK_N % 64 == 0 && BLOCK_N <= 256, "columns of an instruction");
static_assert(PART_N % (B_TRANSPOSED ? 8 : 64) == 0, "parts of tiles are whole groups of rows");

// Shared memory: stages, pieces of C by warp, barriers by stage.
struct Ring {
    elem* stages;
    mbarrier* full;
    mbarrier* empty;

    __device__ __forceinline__ elem* a_tile(unsigned stage) const { return stages + stage * stage_elems; }
    __device__ __forceinline__ elem* b_tile(unsigned stage) const { return a_tile(stage) + a_tile_elems; }
    __device__ __forceinline__ elem* pieces(unsigned warp) const {
        return stages + STAGES * stage_elems + warp * (2 * piece_elems);
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

// Calls `then(batch, row, column)` for each tile of this block, with its index in the batch and its first row and column.
template <typename Then>
__device__ __forceinline__ void each_tile(unsigned rank, const Then& then) {
    constexpr unsigned rows = BLOCK_M * CLUSTER, across = (N + BLOCK_N - 1) / BLOCK_N, down = (M + rows - 1) / rows;
    constexpr unsigned tiles = across * down;
#pragma unroll 1
    for (unsigned index = blockIdx.x / CLUSTER; index < BATCH * tiles; index += gridDim.x / CLUSTER) {
        const uint2 tile = tile_at(index % tiles, across, down);
        then(index / tiles, (tile.y * CLUSTER + rank) * BLOCK_M, tile.x * BLOCK_N);
    }
}

// Producer of the ring. One thread calls it.
__device__ __forceinline__ void produce(const CUtensorMap& a, const CUtensorMap& b, const Ring& ring, unsigned rank) {
    Position at;
    each_tile(rank, [&](unsigned batch, unsigned first_row, unsigned first_column) {
#pragma unroll 1
        for (unsigned k = 0; k < K; k += BLOCK_K) {
            mbarrier* const full = &ring.full[at.stage];
            elem *const a_tile = ring.a_tile(at.stage), *const b_tile = ring.b_tile(at.stage);
            if constexpr (CLUSTER > 1) {
                mbarrier_wait_cluster(&ring.empty[at.stage], at.parity ^ 1);
            } else {
                mbarrier_wait(&ring.empty[at.stage], at.parity ^ 1);
            }
            mbarrier_expect(full, stage_elems * sizeof(elem));
            if constexpr (A_TRANSPOSED) {
#pragma unroll
                for (unsigned i = 0; i < BLOCK_M; i += 64) tma_load(a_tile + i * BLOCK_K, a, full, first_row + i, k, batch);
            } else {
                tma_load(a_tile, a, full, k, first_row, batch);
            }
            const auto load_b = [&](unsigned column, int x, int y) {
                if constexpr (CLUSTER > 1) {
                    tma_multicast(b_tile + column * BLOCK_K, b, full, (1 << CLUSTER) - 1, x, y, batch);
                } else {
                    tma_load(b_tile + column * BLOCK_K, b, full, x, y, batch);
                }
            };
            const unsigned part = rank * PART_N;
            if constexpr (B_TRANSPOSED) {
                load_b(part, k, first_column + part);
            } else {
#pragma unroll
                for (unsigned i = 0; i < PART_N; i += 64) load_b(part + i, first_column + part + i, k);
            }
            at.next();
        }
    });
}

// Releases a stage for this warp in all blocks of the cluster, each of which loads a part of it.
__device__ __forceinline__ void release(mbarrier* empty) {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) mbarrier_release_at(empty, lane);
    } else {
        if (lane == 0) mbarrier_arrive(empty);
    }
}

// Whether an epilogue leaves sums unchanged.
template <typename Epilogue>
constexpr bool plain = false;
template <>
constexpr bool plain<Plain> = true;

// Transforms two neighbouring sums of a row, which counts through the batch.
template <typename Epilogue>
__device__ __forceinline__ unsigned finished(const Epilogue& epilogue, u64 row, unsigned column, float x, float y) {
    const u64 at = row * N + column;
    return pack(epilogue(at, column, x), epilogue(at + 1, column + 1, y));
}

// Epilogue and store of a warp's 16 rows, one piece at a time. No other warp is involved.
template <typename Epilogue>
__device__ __forceinline__ void store_rows(const float (&sums)[BLOCK_N / 2], const CUtensorMap& c, elem* pieces, unsigned batch,
                                           unsigned first_row, unsigned first_column, const Epilogue& epilogue) {
    const unsigned lane = threadIdx.x % 32;
    // Row of a piece whose address this lane gives, and which of two 16-byte places.
    const unsigned row = lane % 16, half = lane / 16;
#pragma unroll
    for (unsigned i = 0; i < BLOCK_N / 64; i++) {
        elem* const piece = pieces + i % 2 * piece_elems;
        // The copy engine must have read the piece. The first one waits for all pieces of the tile before.
        if (lane == 0) {
            if (i == 0) {
                tma_wait_read<0>();
            } else {
                tma_wait_read<1>();
            }
        }
        __syncwarp();
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            unsigned x[4];
#pragma unroll
            for (unsigned r = 0; r < 4; r++) {
                const unsigned of_tile = i * 32 + j * 8 + r * 2;
                const unsigned in_row = first_row + lane / 4 + r % 2 * 8, column = first_column + wgmma_column(of_tile);
                x[r] = 0;
                // An epilogue may read device memory, which ends here.
                if (plain<Epilogue> || in_row < M && column < N) {
                    x[r] = finished(epilogue, (u64)batch * M + in_row, column, sums[of_tile], sums[of_tile + 1]);
                }
            }
            store_matrices(piece + row * 64 + ((j * 2 + half) ^ row % 8) * 8, x);
        }
        tma_fence();
        __syncwarp();
        if (lane == 0) {
            tma_store(c, piece, first_column + i * 64, first_row, batch);
            tma_commit();
        }
    }
}

// Consumer of the ring: the GEMM of 64 rows of each tile.
template <typename Epilogue>
__device__ __forceinline__ void consume(const CUtensorMap& c, const Ring& ring, unsigned rank, const Epilogue& epilogue) {
    constexpr unsigned steps = (K + BLOCK_K - 1) / BLOCK_K;
    constexpr u64 next_a = A_TRANSPOSED ? WGMMA_NEXT_ACROSS_K : WGMMA_NEXT_ALONG_K;
    constexpr u64 next_b = B_TRANSPOSED ? WGMMA_NEXT_ALONG_K : WGMMA_NEXT_ACROSS_K;
    // Uniform, which the compiler cannot know.
    const unsigned warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0), warpgroup = warp / 4;
    // Descriptors of the first stage. Those of others differ in the address alone.
    elem* const rows = ring.a_tile(0) + warpgroup * 64 * BLOCK_K;
    const u64 a_first = A_TRANSPOSED ? wgmma_across_k(rows, BLOCK_K) : wgmma_along_k(rows);
    const u64 b_first = B_TRANSPOSED ? wgmma_along_k(ring.b_tile(0)) : wgmma_across_k(ring.b_tile(0), BLOCK_K);
    constexpr unsigned next_stage = stage_elems * sizeof(elem) >> 4;
    Position at;
    each_tile(rank, [&](unsigned batch, unsigned first_row, unsigned first_column) {
        float sums[BLOCK_N / 2];
        unsigned last = 0;
#pragma unroll 1
        for (unsigned step = 0; step < steps; step++) {
            mbarrier_wait(&ring.full[at.stage], at.parity);
            const u64 a = a_first + at.stage * next_stage, b = b_first + at.stage * next_stage;
            wgmma_fence();
#pragma unroll
            for (unsigned i = 0; i < BLOCK_K / 16; i++) {
                wgmma<A_TRANSPOSED, !B_TRANSPOSED>(sums, a + i * next_a, b + i * next_b, step > 0 || i > 0);
            }
            wgmma_commit();
            // The step before has ended.
            wgmma_wait<1>();
            if (step > 0) release(&ring.empty[last]);
            last = at.stage;
            at.next();
        }
        wgmma_wait<0>(sums);
        release(&ring.empty[last]);
        store_rows(sums, c, ring.pieces(warp), batch, first_row + warp * 16, first_column, epilogue);
    });
    if (threadIdx.x % 32 == 0) tma_wait_read<0>();
}

template <typename Epilogue>
__device__ __forceinline__ void product_wgmma(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& c,
                                              const Epilogue& epilogue) {
    extern __shared__ __align__(1024) unsigned char shared[];
    elem* const stages = reinterpret_cast<elem*>(shared);
    mbarrier* const barriers = reinterpret_cast<mbarrier*>(stages + STAGES * stage_elems + CONSUMERS * 4 * 2 * piece_elems);
    const Ring ring{stages, barriers, barriers + STAGES};
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        tma_prefetch(a);
        tma_prefetch(b);
        tma_prefetch(c);
        for (unsigned stage = 0; stage < STAGES; stage++) {
            mbarrier_begin(&ring.full[stage], 1);
            mbarrier_begin(&ring.empty[stage], CONSUMERS * 4 * CLUSTER);
        }
        mbarrier_begun();
    }
    if constexpr (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    if (threadIdx.x >= CONSUMERS * 128) {
        give_registers<24>();
        if (threadIdx.x == CONSUMERS * 128) produce(a, b, ring, rank);
        __syncwarp();
    } else {
        take_registers<240>();
        consume(c, ring, rank, epilogue);
    }
    // Other blocks arrive at this block's barriers.
    if constexpr (CLUSTER > 1) cluster_sync();
}
