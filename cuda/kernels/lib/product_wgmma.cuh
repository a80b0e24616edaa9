// GEMM by warpgroups on 16-bit floats from tensor maps, sums in f32. Compute capability 9.0 only.
//
// The last warpgroup of a block copies: its first thread loads tiles of A and B into a ring of STAGES stages. The others are
// consumers. The grid is persistent and the ring continues across tiles: copies for the next tile overlap with the epilogue.
// Blocks of a cluster have tiles one below the other. Each loads its part of the tile of B into all of them.
//
// Consumers share each tile by rows, or they ALTERNATE: each of two has every other tile of the block. Products of one then
// overlap with the epilogue of the other.
//
// K may be split into PARTS of whole steps, whose sums are matrices of C one after the other.
//
// Tiles may exceed the matrices: the copy engine reads zeros outside, and does not write there. Rows of groups with a B of their own
// are stored up to the group's end: see `Grouped`.

#include "lib/mma.cuh"
#include "lib/named.cuh"
#include "lib/product.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

constexpr unsigned BLOCK_K = 64, CONSUMERS = THREADS / 128 - 1;
// Sets of 64 rows that a consumer has of a tile.
constexpr unsigned SETS = BLOCK_M / 64 / (ALTERNATE ? 1 : CONSUMERS);
static_assert(SETS * 64 * (ALTERNATE ? 1 : CONSUMERS) == BLOCK_M && (!ALTERNATE || CONSUMERS == 2), "whole sets");
// Elements of staged tiles. Rows have 64 elements: along K, or along M or N in sets of BLOCK_K rows.
constexpr unsigned a_tile_elems = BLOCK_M * BLOCK_K, stage_elems = (BLOCK_M + BLOCK_N) * BLOCK_K;
// Elements of a piece of C: 16 rows of 128 bytes.
constexpr unsigned piece_elems = 16 * 64;
static_assert(BLOCK_N % 64 == 0 && BLOCK_N <= 256, "columns of an instruction");
static_assert(CLUSTER <= 8, "parts of tiles are whole groups of rows");

// An epilogue transforms two neighbouring sums of a row, with a value of their columns. It may read their neighbours in another
// matrix like C (READS), and write a second result (KEEPS).
struct Unchanged {
    static constexpr bool READS = false, KEEPS = false;
    __device__ __forceinline__ unsigned of_columns(unsigned) const { return 0; }
    __device__ __forceinline__ unsigned operator()(unsigned, float x, float y, unsigned, unsigned&) const { return pack(x, y); }
};

// Stores sums in f32.
struct Sums {
    static constexpr bool READS = false, KEEPS = false;
};

template <typename Epilogue>
constexpr bool wide = false;
template <>
constexpr bool wide<Sums> = true;

// Stores rows of groups to C, also by its address: the copy engine cannot end a piece between two rows.
struct Grouped : Unchanged {
    elem* c;
    __device__ __forceinline__ explicit Grouped(elem* c) : c(c) {}
};

template <typename Epilogue>
constexpr bool grouped = false;
template <>
constexpr bool grouped<Grouped> = true;

// Shared memory: stages, pieces of C by warp in SLOTS slots, barriers by stage, barriers by slot.
struct Ring {
    elem *stages, *pieces;
    mbarrier *full, *empty, *loaded;

    __device__ __forceinline__ elem* a_tile(unsigned stage) const { return stages + stage * stage_elems; }
    __device__ __forceinline__ elem* b_tile(unsigned stage) const { return a_tile(stage) + a_tile_elems; }
};

// Position in the ring: a stage, and the parity of its round.
struct Position {
    unsigned stage = 0, parity = 0;

    template <unsigned steps>
    __device__ __forceinline__ void skip() {
        stage += steps % STAGES;
        parity ^= steps / STAGES & 1;
        if (stage >= STAGES) {
            stage -= STAGES;
            parity ^= 1;
        }
    }
};

// Steps of a part of K. The last part may reach beyond K.
constexpr unsigned STEPS = ((K + BLOCK_K - 1) / BLOCK_K + PARTS - 1) / PARTS;

// A tile: its index among parts of the batch, its B among all, its first row and column, the end of rows to store, and whether the
// block has tiles before and after it.
struct Place {
    unsigned batch, of_b, row, column, end;
    bool before, after;
};

constexpr unsigned TILES_ACROSS = (N + BLOCK_N - 1) / BLOCK_N;

// Tiles of all parts of the batch.
struct AllTiles {
    // Calls `then(place)` for each tile of this block whose number is `first` modulo `each`.
    template <unsigned each, typename Then>
    __device__ __forceinline__ void visit(unsigned rank, unsigned first, const Then& then) const {
        constexpr unsigned rows = BLOCK_M * CLUSTER, down = (M + rows - 1) / rows, tiles = TILES_ACROSS * down;
        const unsigned blocks = gridDim.x / CLUSTER;
#pragma unroll 1
        for (unsigned index = blockIdx.x / CLUSTER + first * blocks; index < BATCH * PARTS * tiles; index += each * blocks) {
            const uint2 tile = tile_at(index % tiles, TILES_ACROSS, down);
            then(Place{index / tiles, index / tiles / PARTS, (tile.y * CLUSTER + rank) * BLOCK_M, tile.x * BLOCK_N, M,
                       index >= blocks, index + blocks < BATCH * PARTS * tiles});
        }
    }
};

// Tiles of rows of groups. The table has their number, then for each its group, its first row and the end of the group's rows.
struct GroupedTiles {
    const uint4* table;

    template <unsigned each, typename Then>
    __device__ __forceinline__ void visit(unsigned rank, unsigned first, const Then& then) const {
        const unsigned blocks = gridDim.x / CLUSTER, down = table[0].x, tiles = TILES_ACROSS * down;
#pragma unroll 1
        for (unsigned index = blockIdx.x / CLUSTER + first * blocks; index < tiles; index += each * blocks) {
            const uint2 tile = tile_at(index, TILES_ACROSS, down);
            const uint4 rows = table[1 + tile.y];
            then(Place{0, rows.x, rows.y + rank * BLOCK_M, tile.x * BLOCK_N, rows.z, index >= blocks, index + blocks < tiles});
        }
    }
};

// Loads a step of a place's tiles of A and B, once its stage is empty. `batch` is the matrix of A.
__device__ __forceinline__ void load_step(const CUtensorMap& a, const CUtensorMap& b, const Ring& ring, const Position& at,
                                          unsigned rank, const Place& place, unsigned batch, unsigned step) {
    const unsigned k = step * BLOCK_K;
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
        for (unsigned i = 0; i < BLOCK_M; i += 64) {
            tma_load(a_tile + i * BLOCK_K, a, full, place.row + i, k, batch);
        }
    } else {
        tma_load(a_tile, a, full, k, place.row, batch);
    }
    // Rows of the block's part of B, of the tile or of each set of 64 columns.
    constexpr unsigned part = (B_TRANSPOSED ? BLOCK_N : BLOCK_K) / CLUSTER;
    const auto load_b = [&](elem* to, int x, int y) {
        if constexpr (CLUSTER > 1) {
            tma_multicast(to + rank * part * 64, b, full, (1 << CLUSTER) - 1, x, y + rank * part, place.of_b);
        } else {
            tma_load(to, b, full, x, y, place.of_b);
        }
    };
    if constexpr (B_TRANSPOSED) {
        load_b(b_tile, k, place.column);
    } else {
#pragma unroll
        for (unsigned i = 0; i < BLOCK_N; i += 64) load_b(b_tile + i * BLOCK_K, place.column + i, k);
    }
}

// Producer of the ring. One thread calls it.
template <typename Tiles>
__device__ __forceinline__ void produce(const CUtensorMap& a, const CUtensorMap& b, const Ring& ring, unsigned rank,
                                        const Tiles& tiles) {
    Position at;
    tiles.template visit<1>(rank, 0, [&](const Place& place) {
        const unsigned batch = place.batch / PARTS, first = place.batch % PARTS * STEPS;
#pragma unroll 1
        for (unsigned step = first; step < first + STEPS; step++) {
            load_step(a, b, ring, at, rank, place, batch, step);
            at.skip<1>();
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

// Results of a warp: pieces of 16 rows in its slots of shared memory, from and to tensors like C. No other warp is involved.
template <typename Epilogue, unsigned ALL_COLUMNS = BLOCK_N>
struct Results {
    // Columns of a piece, pieces of the results of a tile in the order of their columns, and elements of a slot.
    static constexpr unsigned COLUMNS = wide<Epilogue> ? 32 : 64;
    static constexpr unsigned PIECES = ALL_COLUMNS / COLUMNS * SETS, slot_elems = (1 + Epilogue::KEEPS) * piece_elems;

    const CUtensorMap& c;
    const Epilogue& epilogue;
    elem* slots;
    mbarrier* loaded;
    // Parities of the slots' barriers, one bit each.
    unsigned parities;

    __device__ __forceinline__ static unsigned column_of(const Place& place, unsigned piece) {
        return place.column + piece / SETS * COLUMNS;
    }

    __device__ __forceinline__ static unsigned row_of(const Place& place, unsigned piece) {
        return place.row + piece % SETS * 64;
    }

    // Loads a piece of the other matrix into its slot. One lane calls it.
    __device__ __forceinline__ void load(const Place& place, unsigned piece) const {
        const unsigned slot = piece % SLOTS;
        mbarrier_expect(&loaded[slot], piece_elems * sizeof(elem));
        tma_load(slots + slot * slot_elems, epilogue.read(), &loaded[slot], column_of(place, piece), row_of(place, piece),
                 place.batch);
    }

    // Loads the first pieces, once the copy engine has read the results of the tile before.
    __device__ __forceinline__ void begin(const Place& place) const {
        if constexpr (Epilogue::READS) {
            if (threadIdx.x % 32 == 0) {
                tma_wait_read<0>();
                for (unsigned piece = 0; piece < min(SLOTS, PIECES); piece++) load(place, piece);
            }
            __syncwarp();
        }
    }

    // Waits until a piece's slot may be used.
    __device__ __forceinline__ void wait(const Place& place, unsigned piece) {
        const unsigned slot = piece % SLOTS;
        const bool first = threadIdx.x % 32 == 0;
        if constexpr (Epilogue::READS) {
            // The slot of the piece before becomes free first.
            if (first && piece > 0 && piece - 1 + SLOTS < PIECES) {
                tma_wait_read<0>();
                load(place, piece - 1 + SLOTS);
            }
            mbarrier_wait(&loaded[slot], parities >> slot & 1);
            parities ^= 1 << slot;
        } else {
            // The first piece waits for all of the tile before.
            if (first) {
                if (piece == 0) {
                    tma_wait_read<0>();
                } else {
                    tma_wait_read<SLOTS - 1>();
                }
            }
        }
        __syncwarp();
    }

    // Epilogue of a piece, from sums to shared memory.
    __device__ __forceinline__ void finish(elem* slot, const float* sums, const unsigned (&of_columns)[8]) const {
        // Row of a piece whose address this lane gives, and which of two 16-byte places.
        const unsigned lane = threadIdx.x % 32, row = lane % 16, half = lane / 16;
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            elem* const at = slot + row * 64 + ((j * 2 + half) ^ row % 8) * 8;
            unsigned read[4] = {}, kept[4], x[4];
            if constexpr (Epilogue::READS) load_matrices(read, at);
#pragma unroll
            for (unsigned r = 0; r < 4; r++) {
                const unsigned i = j * 8 + r * 2;
                x[r] = epilogue(of_columns[j * 2 + r / 2], sums[i], sums[i + 1], read[r], kept[r]);
            }
            if constexpr (Epilogue::KEEPS) store_matrices(at, kept);
            store_matrices(at + Epilogue::KEEPS * piece_elems, x);
        }
    }

    // The same without an epilogue, in f32.
    __device__ __forceinline__ void finish(elem* slot, const float* sums) const {
        const unsigned lane = threadIdx.x % 32;
#pragma unroll
        for (unsigned i = 0; i < 16; i += 2) {
            const unsigned row = lane / 4 + i / 2 % 2 * 8, place = i / 4 * 2 + lane % 4 / 2;
            float2* const at = reinterpret_cast<float2*>(slot + row * 64 + (place ^ row % 8) * 8) + lane % 2;
            *at = make_float2(sums[i], sums[i + 1]);
        }
    }

    // Stores the rows of a piece before the end of their group.
    __device__ __forceinline__ void store_before_end(const elem* slot, unsigned row, unsigned column, unsigned end) const {
        const unsigned lane = threadIdx.x % 32, place = lane % 8, to = column + place * 8;
#pragma unroll
        for (unsigned i = lane / 8; i < 16; i += 4) {
            if (row + i < end && to < N) {
                const elem* const from = slot + i * 64 + (place ^ i % 8) * 8;
                *reinterpret_cast<uint4*>(epilogue.c + (u64)(row + i) * N + to) = *reinterpret_cast<const uint4*>(from);
            }
        }
    }

    __device__ __forceinline__ void store(const Place& place, const float (&sums)[SETS][BLOCK_N / 2]) {
        unsigned of_columns[8];
#pragma unroll
        for (unsigned piece = 0; piece < PIECES; piece++) {
            const unsigned column = column_of(place, piece), row = row_of(place, piece);
            if constexpr (!wide<Epilogue>) {
#pragma unroll
                for (unsigned i = 0; i < 8 && piece % SETS == 0; i++) {
                    of_columns[i] = epilogue.of_columns(min(column + i * 8 + threadIdx.x % 4 * 2, N - 2));
                }
            }
            wait(place, piece);
            elem* const slot = slots + piece % SLOTS * slot_elems;
            const float* const of_piece = sums[piece % SETS] + piece / SETS * (COLUMNS / 2);
            if constexpr (wide<Epilogue>) {
                finish(slot, of_piece);
            } else {
                finish(slot, of_piece, of_columns);
            }
            if constexpr (grouped<Epilogue>) {
                if (row + 16 > place.end) {
                    __syncwarp();
                    store_before_end(slot, row, column, place.end);
                    // Waits count a group of copies for each piece, and this one is empty.
                    if (threadIdx.x % 32 == 0) tma_commit();
                    continue;
                }
            }
            tma_fence();
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                if constexpr (Epilogue::KEEPS) tma_store(epilogue.kept(), slot, column, row, place.batch);
                tma_store(c, slot + Epilogue::KEEPS * piece_elems, column, row, place.batch);
                tma_commit();
            }
        }
    }
};

// Consumer of the ring: products of its rows of a tile.
struct Products {
    u64 a_first, b_first;
    Position at;

    __device__ __forceinline__ void step(const Ring& ring, float (&sums)[SETS][BLOCK_N / 2], bool add) const {
        constexpr u64 next_a = A_TRANSPOSED ? WGMMA_NEXT_ACROSS_K : WGMMA_NEXT_ALONG_K;
        constexpr u64 next_b = B_TRANSPOSED ? WGMMA_NEXT_ALONG_K : WGMMA_NEXT_ACROSS_K;
        constexpr unsigned next_stage = stage_elems * sizeof(elem) >> 4, next_set = 64 * BLOCK_K * sizeof(elem) >> 4;
        mbarrier_wait(&ring.full[at.stage], at.parity);
        const u64 a = a_first + at.stage * next_stage, b = b_first + at.stage * next_stage;
        wgmma_fence();
#pragma unroll
        for (unsigned i = 0; i < BLOCK_K / 16; i++) {
#pragma unroll
            for (unsigned set = 0; set < SETS; set++) {
                wgmma<A_TRANSPOSED, !B_TRANSPOSED>(sums[set], a + set * next_set + i * next_a, b + i * next_b, add || i > 0);
            }
        }
        wgmma_commit();
    }

    // Adds the next steps of the ring. Those of all but the last have ended at the return.
    __device__ __forceinline__ void tile(const Ring& ring, float (&sums)[SETS][BLOCK_N / 2], unsigned steps = STEPS) {
        unsigned last = 0;
#pragma unroll 1
        for (unsigned k = 0; k < steps; k++) {
            step(ring, sums, k > 0);
            // The step before has ended.
            wgmma_wait<1>();
            if (k > 0) release(&ring.empty[last]);
            last = at.stage;
            at.skip<1>();
        }
    }

    // Waits for the last step.
    __device__ __forceinline__ void end(const Ring& ring, float (&sums)[SETS][BLOCK_N / 2]) const {
        wgmma_wait<0>();
#pragma unroll
        for (unsigned set = 0; set < SETS; set++) wgmma_hold(sums[set]);
        release(&ring.empty[(at.stage == 0 ? STAGES : at.stage) - 1]);
    }
};

// Products from the first stage on, of the rows of a tile from this one on. Descriptors of other stages differ in the address alone.
__device__ __forceinline__ Products products_of(const Ring& ring, unsigned rows) {
    elem *const a_rows = ring.a_tile(0) + rows * BLOCK_K, *const b_rows = ring.b_tile(0);
    return {A_TRANSPOSED ? wgmma_across_k(a_rows, BLOCK_K) : wgmma_along_k(a_rows),
            B_TRANSPOSED ? wgmma_along_k(b_rows) : wgmma_across_k(b_rows, BLOCK_K), Position{}};
}

template <typename Epilogue, typename Tiles>
__device__ __forceinline__ void consume(const CUtensorMap& c, const Ring& ring, unsigned rank, const Epilogue& epilogue,
                                        const Tiles& tiles) {
    // Uniform, which the compiler cannot know.
    const unsigned warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0), warpgroup = warp / 4;
    const unsigned rows = ALTERNATE ? 0 : warpgroup * SETS * 64;
    Products products = products_of(ring, rows);
    using Of = Results<Epilogue>;
    Of results{c, epilogue, ring.pieces + warp * SLOTS * Of::slot_elems, ring.loaded + warp * SLOTS, 0};
    if (ALTERNATE && warpgroup == 1) products.at.skip<STEPS>();
    tiles.template visit<ALTERNATE ? 2 : 1>(rank, ALTERNATE ? warpgroup : 0, [&](const Place& tile) {
        Place place = tile;
        place.row += rows + warp % 4 * 16;
        float sums[SETS][BLOCK_N / 2];
        results.begin(place);
        // A barrier of the ring tells the latest two rounds apart: the other consumer must have waited for its stages.
        if (ALTERNATE && place.before) named_sync<256>(1 + warpgroup);
        products.tile(ring, sums);
        if (ALTERNATE && place.after) named_arrive<256>(2 - warpgroup);
        products.end(ring, sums);
        results.store(place, sums);
        if (ALTERNATE) products.at.skip<STEPS>();
    });
    if (threadIdx.x % 32 == 0) tma_wait_read<0>();
}

// Calls `load(ring, rank)` in one thread of the last warpgroup, and `multiply(ring, rank)` in all threads of the others. A slot of
// results has this number of elements.
template <unsigned slot_elems, typename Load, typename Multiply>
__device__ __forceinline__ void by_warpgroups(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& c, const Load& load,
                                              const Multiply& multiply) {
    extern __shared__ __align__(1024) unsigned char shared[];
    elem* const stages = reinterpret_cast<elem*>(shared);
    elem* const pieces = stages + STAGES * stage_elems;
    constexpr unsigned warps = CONSUMERS * 4;
    mbarrier* const barriers = reinterpret_cast<mbarrier*>(pieces + warps * SLOTS * slot_elems);
    const Ring ring{stages, pieces, barriers, barriers + STAGES, barriers + 2 * STAGES};
    const unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        tma_prefetch(a);
        tma_prefetch(b);
        tma_prefetch(c);
        for (unsigned stage = 0; stage < STAGES; stage++) {
            mbarrier_begin(&ring.full[stage], 1);
            mbarrier_begin(&ring.empty[stage], (ALTERNATE ? 4 : warps) * CLUSTER);
        }
        for (unsigned slot = 0; slot < warps * SLOTS; slot++) mbarrier_begin(&ring.loaded[slot], 1);
        mbarrier_begun();
    }
    if constexpr (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    if (threadIdx.x >= CONSUMERS * 128) {
        give_registers<24>();
        if (threadIdx.x == CONSUMERS * 128) load(ring, rank);
        __syncwarp();
    } else {
        take_registers<CONSUMERS == 2 ? 240 : 160>();
        multiply(ring, rank);
    }
    // Other blocks arrive at this block's barriers.
    if constexpr (CLUSTER > 1) cluster_sync();
}

template <typename Epilogue, typename Tiles = AllTiles>
__device__ __forceinline__ void product_wgmma(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& c,
                                              const Epilogue& epilogue, const Tiles& tiles = Tiles{}) {
    by_warpgroups<Results<Epilogue>::slot_elems>(
        a, b, c, [&](const Ring& ring, unsigned rank) { produce(a, b, ring, rank, tiles); },
        [&](const Ring& ring, unsigned rank) { consume(c, ring, rank, epilogue, tiles); });
}
