#pragma once
// Tiles, producer and consumers of `flash_wgmma`.

#include "attention/warpgroups.cuh"

// Numbers of the places of a block: its own first, then the next that no block has yet, or those at equal distances.
struct Next {
#if DRAWN
    unsigned* drawn;
#endif
    unsigned index;

    __device__ __forceinline__ void advance() {
#if DRAWN
        index = gridDim.x * gridDim.y + atomicAdd(drawn, 1u);
#else
        index += gridDim.x * gridDim.y;
#endif
    }
};

constexpr unsigned ROWS = WARPGROUPS * 64, THREADS = (WARPGROUPS + 1) * 128;
// Columns of the products, a multiple of 16, and boxes of 64 columns that hold them. Those beyond D are zeros.
constexpr unsigned WIDTH = (D + 15) / 16 * 16, COLUMNS = (D + 63) / 64;
constexpr unsigned ROW_TILES = (S + ROWS - 1) / ROWS;
// Elements of the tiles: Q and the results of a warpgroup, and a tile of keys or values.
constexpr unsigned OF_QUERIES = COLUMNS * (64 * 64), OF_KEYS = COLUMNS * (KEYS * 64);
static_assert(D % 8 == 0 && KEYS % 16 == 0, "rows of a tensor are multiples of 16 bytes");

// A head and the first of the query rows that a block computes together.
struct Place {
    unsigned head, first_row;
};

// Place number `index`. The number is below HEADS * ROW_TILES.
//
// Under a causal mask, the last rows see the most keys and come first. Sections of SECTION heads follow each other: the L2 cache
// has room for the keys of one.
__device__ __forceinline__ Place place_of(unsigned index) {
    if constexpr (!CAUSAL) return {index / ROW_TILES, index % ROW_TILES * ROWS};
    const unsigned section = index / (SECTION * ROW_TILES), within = index % (SECTION * ROW_TILES);
    const unsigned heads = min(SECTION, HEADS - section * SECTION);
    return {section * SECTION + within % heads, (ROW_TILES - 1 - within / heads) * ROWS};
}

// Tiles of keys of a place, from `first` to before `end`: at least one. The first row sees the first keys, the last row the last.
struct Span {
    unsigned first, end;

    __device__ __forceinline__ Span(const Place& place, const Masks& masks)
        : first(masks.window_start(place.first_row) / KEYS),
          end(max((masks.seen_keys(place.head, min(place.first_row + ROWS, S) - 1) + KEYS - 1) / KEYS, first + 1)) {}
};

// Shared memory of a block, and its barriers.
struct Tiles {
    elem *queries, *results, *keys, *values;
    // Numbers of the latest two places.
    unsigned* places;
    mbarrier *query_full, *query_empty, *key_full, *key_empty, *value_full, *value_empty;

    // Tiles begin at multiples of 1024 bytes. Shared memory has room for the alignment.
    __device__ __forceinline__ Tiles(uint4* shared) {
        queries = reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
        results = queries + WARPGROUPS * OF_QUERIES;
        keys = results + WARPGROUPS * OF_QUERIES;
        values = keys + STAGES * OF_KEYS;
        query_full = reinterpret_cast<mbarrier*>(values + STAGES * OF_KEYS);
        query_empty = query_full + WARPGROUPS;
        key_full = query_empty + WARPGROUPS;
        key_empty = key_full + STAGES;
        value_full = key_empty + STAGES;
        value_empty = value_full + STAGES;
        places = reinterpret_cast<unsigned*>(value_empty + STAGES);
    }

    // Initialises the barriers. One thread does this, before a barrier of the block.
    __device__ __forceinline__ void begin() const {
#pragma unroll
        for (unsigned i = 0; i < WARPGROUPS; i++) {
            mbarrier_begin(query_full + i, 1);
            mbarrier_begin(query_empty + i, 1);
        }
#pragma unroll
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_begin(key_full + i, 1);
            mbarrier_begin(key_empty + i, WARPGROUPS);
            mbarrier_begin(value_full + i, 1);
            mbarrier_begin(value_empty + i, WARPGROUPS);
        }
        mbarrier_begun();
    }
};

// Copies a tile of keys or values, once its stage is empty. `count` numbers the tiles of the block.
template <unsigned first_head>
__device__ __forceinline__ void copy_keys(elem* ring, mbarrier* full, mbarrier* empty, const CUtensorMap& map, unsigned count,
                                          unsigned first, unsigned head) {
    const unsigned stage = count % STAGES;
    mbarrier_wait(empty + stage, count / STAGES % 2 ^ 1);
    mbarrier_expect(full + stage, OF_KEYS * 2);
#pragma unroll
    for (unsigned x = 0; x < COLUMNS; x++) {
        load_keys<first_head>(ring + stage * OF_KEYS + x * KEYS * 64, map, full + stage, x * 64, first, head);
    }
}

// Copies all tiles of a block. One thread does this.
__device__ __forceinline__ void produce(const Tiles& tiles, const Masks& masks, Next next, const CUtensorMap& q,
                                        const CUtensorMap& k, const CUtensorMap& v) {
    unsigned count = 0;
    for (unsigned visit = 0;; visit++, next.advance()) {
        // The consumers read it once Q is full. A number past the last ends their loop.
        tiles.places[visit % 2] = next.index;
        const bool ends = next.index >= HEADS * ROW_TILES;
        const Place place = place_of(ends ? 0 : next.index);
        const Span span(place, masks);
        const unsigned head = place.head / GROUP;
#pragma unroll
        for (unsigned i = 0; i < WARPGROUPS; i++) {
            mbarrier_wait(tiles.query_empty + i, visit % 2 ^ 1);
            if (ends) {
                mbarrier_arrive(tiles.query_full + i);
                continue;
            }
            mbarrier_expect(tiles.query_full + i, OF_QUERIES * 2);
#pragma unroll
            for (unsigned x = 0; x < COLUMNS; x++) {
                load_queries(tiles.queries + i * OF_QUERIES + x * 64 * 64, q, tiles.query_full + i, x * 64,
                             place.first_row + i * 64, place.head);
            }
            // The first consumer starts with its rows and the keys.
            if (i == 0) {
                copy_keys<FIRST_KEYS>(tiles.keys, tiles.key_full, tiles.key_empty, k, count, (span.end - 1) * KEYS, head);
            }
        }
        if (ends) return;
        copy_keys<FIRST_VALUES>(tiles.values, tiles.value_full, tiles.value_empty, v, count, (span.end - 1) * KEYS, head);
        count++;
        for (unsigned step = span.end - 1; step-- > span.first; count++) {
            copy_keys<FIRST_KEYS>(tiles.keys, tiles.key_full, tiles.key_empty, k, count, step * KEYS, head);
            copy_keys<FIRST_VALUES>(tiles.values, tiles.value_full, tiles.value_empty, v, count, step * KEYS, head);
        }
    }
}

// Whether consumers start their products one after another. With rows of 128 columns, the products of one take long enough without.
constexpr bool IN_TURN = D < 128 && WARPGROUPS > 1;

// Order of the consumers: each starts its products, and then lets the next consumer start.
struct Order {
    unsigned mine, next;

    __device__ __forceinline__ Order(unsigned warpgroup) : mine(1 + warpgroup), next(1 + (warpgroup + 1) % WARPGROUPS) {
        if (warpgroup == WARPGROUPS - 1) pass();
    }

    __device__ __forceinline__ void wait() const {
        if constexpr (IN_TURN) named_sync<256>(mine);
    }

    __device__ __forceinline__ void pass() const {
        if constexpr (IN_TURN) named_arrive<256>(next);
    }
};

// A row's maximum is replaced where it rises by more than this, in powers of two. Weights stay below 2^8.
constexpr float RISE = 8.0f;

// Keys that rows of a consumer see, from `start` to before `seen`: a thread's two rows, and all rows. First tile within all windows,
// and keys of the head.
struct Rows {
    unsigned start[2], seen[2], seen_by_all, first_whole, keys; //+ CHANGES: unsigned first_query; float slope;

    __device__ __forceinline__ Rows(const Place& place, const Masks& masks, unsigned warpgroup) {
        const unsigned first = place.first_row + warpgroup * 64; //+ CHANGES: first_query = first; slope = slope_of(place.head);
        start[0] = masks.window_start(first + wgmma_row(0));
        start[1] = masks.window_start(first + wgmma_row(2));
        first_whole = (masks.window_start(min(first + 63, S - 1)) + KEYS - 1) / KEYS;
        seen[0] = masks.seen_keys(place.head, first + wgmma_row(0));
        seen[1] = masks.seen_keys(place.head, first + wgmma_row(2));
        seen_by_all = masks.seen_keys(place.head, first);
        keys = masks.keys_of(place.head);
    }
};

// A warpgroup with 64 query rows.
struct Consumer {
    const Tiles& tiles;
    const unsigned warpgroup, thread;
    // Scale of scores. Exponentials are to base two, as the hardware computes them.
    const float scale;
    unsigned count, visit;
    // A thread has elements of rows lane / 4 and lane / 4 + 8 of its warp's sixteen.
    float acc[WIDTH / 2], max[2], sum[2]; //+ SINKS: const elem* sinks;

    __device__ __forceinline__ Consumer(const Tiles& tiles, unsigned warpgroup)
        : tiles(tiles), warpgroup(warpgroup), thread(threadIdx.x % 128), scale(LOG2_E / sqrtf((float)D)), count(0), visit(0) {}

    // Starts the product of Q and the keys of tile `at`, which are there.
    __device__ __forceinline__ void score(float (&scores)[KEYS / 2], unsigned at) const {
        const u64 a = wgmma_along_k(tiles.queries + warpgroup * OF_QUERIES);
        const u64 b = wgmma_along_k(tiles.keys + at % STAGES * OF_KEYS);
        wgmma_fence();
#pragma unroll
        for (unsigned x = 0; x < WIDTH / 16; x++) {
            const unsigned box = x / 4, inside = x % 4;
            wgmma(scores, a + box * (64 * 128 >> 4) + inside * WGMMA_NEXT_ALONG_K,
                  b + box * (KEYS * 128 >> 4) + inside * WGMMA_NEXT_ALONG_K, x > 0);
        }
        wgmma_commit();
    }

    // Starts to add the values of tile `at`, which are there, by their weights.
    __device__ __forceinline__ void add_values(const unsigned (&weights)[KEYS / 16][4], unsigned at) {
        const u64 b = wgmma_across_k(tiles.values + at % STAGES * OF_KEYS, KEYS);
        wgmma_fence();
#pragma unroll
        for (unsigned x = 0; x < KEYS / 16; x++) wgmma<true>(acc, weights[x], b + x * WGMMA_NEXT_ACROSS_K, true);
        wgmma_commit();
    }

    // Ends the warpgroup's reads of a tile, after its wait for their products.
    __device__ __forceinline__ void release(mbarrier* empty) const {
        if (thread == 0) mbarrier_arrive(empty);
    }

    // Replaces scores by exponentials, and adds them. Returns whether the results must be multiplied by `rescale`.
    template <bool masked>
    __device__ __forceinline__ bool weigh(float (&scores)[KEYS / 2], float (&rescale)[2], unsigned first_key,
                                          const Rows& rows) { //+ CHANGES: change(scores, rows.slope, rows.first_query, first_key, wgmma_row, wgmma_column);
        if constexpr (masked) {
#pragma unroll
            for (unsigned i = 0; i < KEYS / 2; i++) {
                const unsigned key = first_key + wgmma_column(i);
                if (key >= rows.seen[i / 2 % 2]) scores[i] = negative_infinity();
                if (STARTS && key < rows.start[i / 2 % 2]) scores[i] = negative_infinity();
            }
        }
        float highest[2] = {max[0], max[1]};
#pragma unroll
        for (unsigned i = 0; i < KEYS / 2; i++) highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], scores[i]);
        bool rises = false;
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xFFFFFFFFu, highest[r], 1));
            highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xFFFFFFFFu, highest[r], 2));
            rises |= (highest[r] - max[r]) * scale > RISE;
        }
        // All lanes of a row agree.
        rises = __any_sync(0xFFFFFFFFu, rises);
        if (rises) {
#pragma unroll
            for (unsigned r = 0; r < 2; r++) {
                rescale[r] = exp2_fast((max[r] - base_of(highest[r])) * scale);
                max[r] = highest[r];
                sum[r] *= rescale[r];
            }
        }
        const float base[2] = {base_of(max[0]) * scale, base_of(max[1]) * scale};
#pragma unroll
        for (unsigned i = 0; i < KEYS / 2; i++) {
            scores[i] = exp2_fast(fmaf(scores[i], scale, -base[i / 2 % 2]));
            sum[i / 2 % 2] += scores[i];
        }
        return rises;
    }

    // Rounds exponentials to the operand of the second product.
    __device__ __forceinline__ void pack_weights(unsigned (&weights)[KEYS / 16][4], const float (&scores)[KEYS / 2]) const {
#pragma unroll
        for (unsigned i = 0; i < KEYS / 4; i++) weights[i / 4][i % 4] = pack(scores[2 * i], scores[2 * i + 1]);
    }

    // Values beyond the length may be NaN: zeros replace them in shared memory.
    __device__ __forceinline__ void clear_values(unsigned at, unsigned first_key, unsigned keys) const {
        if constexpr (!OWN_LENGTHS) return;
        if (first_key + KEYS <= keys) return;
        uint4* const rows = reinterpret_cast<uint4*>(tiles.values + at % STAGES * OF_KEYS);
        for (unsigned i = thread; i < (first_key + KEYS - keys) * COLUMNS * 8; i += 128) {
            const unsigned row = KEYS - 1 - i / (COLUMNS * 8);
            rows[i / 8 % COLUMNS * (KEYS * 8) + row * 8 + i % 8] = make_uint4(0, 0, 0, 0);
        }
        tma_fence();
        named_sync<128>(1 + WARPGROUPS + warpgroup);
    }

    // A step: scores of tile `step`, while values of the tile after it are added. Tile `last` ends the place.
    template <bool masked>
    __device__ __forceinline__ void advance(unsigned (&weights)[KEYS / 16][4], unsigned step, unsigned last,
                                            const Rows& rows, const Order& order) {
        float scores[KEYS / 2], rescale[2];
        const unsigned keys = (count + 1) % STAGES, values = count % STAGES;
        mbarrier_wait(tiles.key_full + keys, (count + 1) / STAGES % 2);
        order.wait();
        score(scores, count + 1);
        mbarrier_wait(tiles.value_full + values, count / STAGES % 2);
        add_values(weights, count);
        order.pass();
        wgmma_wait<1>(scores);
        release(tiles.key_empty + keys);
        if (step == last) release(tiles.query_empty + warpgroup);
        const bool rises = weigh<masked>(scores, rescale, step * KEYS, rows);
        wgmma_wait<0>(acc);
        release(tiles.value_empty + values);
        pack_weights(weights, scores);
        if (rises) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH / 2; i++) acc[i] *= rescale[i / 2 % 2];
        }
        count++;
    }

    // Waits for the queries of the next place. Returns false past the last.
    __device__ __forceinline__ bool next(Place& place) const {
        mbarrier_wait(tiles.query_full + warpgroup, visit % 2);
        const unsigned index = __shfl_sync(0xFFFFFFFFu, tiles.places[visit % 2], 0);
        if (index >= HEADS * ROW_TILES) return false;
        place = place_of(index);
        return true;
    }

    // Weights of the first tile of a place, whose scores are in flight. Others may be in flight before them.
    __device__ __forceinline__ void enter(unsigned (&weights)[KEYS / 16][4], float (&scores)[KEYS / 2], const Rows& rows,
                                          unsigned step, unsigned last) {
        float rescale[2];
        wgmma_wait<0>(scores);
        release(tiles.key_empty + count % STAGES);
        if (step == last) release(tiles.query_empty + warpgroup);
        weigh<true>(scores, rescale, step * KEYS, rows);
        pack_weights(weights, scores);
        if constexpr (OWN_LENGTHS) {
            mbarrier_wait(tiles.value_full + count % STAGES, count / STAGES % 2);
            clear_values(count, step * KEYS, rows.keys);
        }
    }

    // Computes and stores the results of all places of the block.
    __device__ __forceinline__ void attend(const Masks& masks, const CUtensorMap& out, float* lse) {
        const Order order(warpgroup); //+ SINKS: sinks = masks.sinks;
        Place place;
        if (!next(place)) return;
        unsigned weights[KEYS / 16][4];
        Rows rows(place, masks, warpgroup);
        Span span(place, masks);
        unsigned step = span.end - 1;
        {
            float scores[KEYS / 2];
            mbarrier_wait(tiles.key_full + count % STAGES, count / STAGES % 2);
            score(scores, count);
            begin();
            enter(weights, scores, rows, step, span.first);
        }
        while (true) {
            // Under a causal mask or with packed sequences, the first of these tiles also have keys that some row does not see.
            if constexpr (CAUSAL || SEQUENCES > 0) {
                while (step > span.first && step * KEYS > rows.seen_by_all) {
                    advance<true>(weights, --step, span.first, rows, order);
                }
            }
            while (step > span.first && (!STARTS || step > rows.first_whole)) {
                advance<false>(weights, --step, span.first, rows, order);
            }
            // Likewise the last ones in a window, or in a sequence.
            if constexpr (STARTS) {
                while (step > span.first) advance<true>(weights, --step, span.first, rows, order);
            }

            const unsigned values = count % STAGES;
            mbarrier_wait(tiles.value_full + values, count / STAGES % 2);
            visit++;
            const Place before = place;
            const bool more = next(place);
            if (!more) {
                add_values(weights, count);
                wgmma_wait<0>(acc);
                store(before, out, lse);
                return;
            }
            float scores[KEYS / 2];
            mbarrier_wait(tiles.key_full + (count + 1) % STAGES, (count + 1) / STAGES % 2);
            add_values(weights, count);
            count++;
            score(scores, count);
            wgmma_wait<1>(acc);
            release(tiles.value_empty + values);
            store(before, out, lse);
            begin();
            rows = Rows(place, masks, warpgroup);
            span = Span(place, masks);
            step = span.end - 1;
            enter(weights, scores, rows, step, span.first);
        }
    }

    // Resets the results and the rows' statistics.
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (unsigned i = 0; i < WIDTH / 2; i++) acc[i] = 0.0f;
        max[0] = max[1] = negative_infinity();
        sum[0] = sum[1] = 0.0f;
    }

    // Divides the results by the sums of weights, and stores them.
    __device__ __forceinline__ void store(const Place& place, const CUtensorMap& out, float* lse) {
        float inverse[2];
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], 2);
            inverse[r] = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r]; //= SINKS: inverse[r] = sum[r] == 0.0f ? 0.0f : 1.0f / with_sink(sinks, place.head, base_of(max[r]) * scale / LOG2_E, sum[r]);
        }
        elem* const tile = tiles.results + warpgroup * OF_QUERIES;
        // The latest stores have read the tile.
        if (thread == 0) tma_wait_read<0>();
        named_sync<128>(1 + WARPGROUPS + warpgroup);
        const unsigned lane = thread % 32, row = thread / 32 * 16 + lane % 16;
#pragma unroll
        for (unsigned n = 0; n < WIDTH / 16; n++) {
            const float* const x = acc + n * 8;
            const unsigned piece = n * 2 + lane / 16;
            const unsigned packed[4] = {pack(x[0] * inverse[0], x[1] * inverse[0]), pack(x[2] * inverse[1], x[3] * inverse[1]),
                                        pack(x[4] * inverse[0], x[5] * inverse[0]), pack(x[6] * inverse[1], x[7] * inverse[1])};
            store_matrices(tile + piece / 8 * (64 * 64) + row * 64 + (piece % 8 ^ row % 8) * 8, packed);
        }
        tma_fence();
        named_sync<128>(1 + WARPGROUPS + warpgroup);
        if (thread == 0 && place.first_row + warpgroup * 64 < S) {
#pragma unroll
            for (unsigned x = 0; x < COLUMNS; x++) {
                tma_store(out, tile + x * (64 * 64), x * 64, place.first_row + warpgroup * 64, place.head % ITEM_HEADS,
                          place.head / ITEM_HEADS);
            }
            tma_commit();
        }
        store_lse(place, lse);
    }

    // Stores the logarithm of each row's sum. A row without a visible key has none: zero is stored.
    __device__ __forceinline__ void store_lse(const Place& place, float* lse) const {
#if KEEPS_LSE
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            const unsigned row = place.first_row + warpgroup * 64 + wgmma_row(2 * r);
            if (thread % 4 != 0 || row >= S) continue;
            const float logarithm = sum[r] == 0.0f ? 0.0f : base_of(max[r]) * scale / LOG2_E + logf(sum[r]); //= SINKS: const float logarithm = log_with_sink(sinks, place.head, base_of(max[r]) * scale / LOG2_E, sum[r]);
            lse[(u64)place.head * S + row] = logarithm;
        }
#endif
    }
};
