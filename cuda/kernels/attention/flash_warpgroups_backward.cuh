#pragma once
// Tiles, producer and consumers of the backward pass by warpgroups.

#include "attention/query_tiles.cuh"
#include "attention/warpgroups.cuh"
#include "lib/atomics.cuh"

constexpr unsigned KEYS = 128, WARPGROUPS = 2, THREADS = (WARPGROUPS + 1) * 128, COLUMNS = (D + 63) / 64, STAGES = 2;
constexpr unsigned KEY_TILES = (T + KEYS - 1) / KEYS, KEY_HEADS = HEADS / GROUP;
// Elements of the tiles: keys or values, queries or dO, and dS in boxes of 64 queries.
constexpr unsigned OF_KEYS = KEYS * 64 * COLUMNS, OF_QUERIES = QUERIES * 64 * COLUMNS, OF_SCORES = KEYS * QUERIES;
// Keys from the middle of the columns on, where half of the columns do not begin a box.
constexpr unsigned OF_HALF = BY_COLUMNS && WIDTH % 128 != 0 ? KEYS * 64 : 0;
// Whether registers have room for two products on all queries of a step at a time.
constexpr bool TWO_AT_A_TIME = QUERIES == 64;
static_assert(D % 8 == 0 && D <= 128, "rows of a tensor are multiples of 16 bytes");

// A head of keys and the first key of a block.
struct Place {
    unsigned head, first_key;
};

// Place number `index`. The number is below KEY_HEADS * KEY_TILES.
//
// Under a causal mask, the first keys are seen by the most queries and come first. Sections of SECTION heads follow each other:
// the L2 cache has room for the queries of one.
__device__ __forceinline__ Place place_of(unsigned index) {
    const unsigned section = index / (SECTION * KEY_TILES), within = index % (SECTION * KEY_TILES);
    const unsigned heads = min(SECTION, KEY_HEADS - section * SECTION);
    return {section * SECTION + within % heads, within / heads * KEYS};
}

// A block's part of the steps of a place: tiles of queries that see its keys, for each head of the group.
struct Steps {
    const Place place;
    const unsigned skipped, of_head, all, before, count;

    __device__ __forceinline__ Steps(const Place& place, const Masks& masks, unsigned keys, unsigned part)
        : place(place),
          skipped(min(masks.first_query(place.first_key) / QUERIES, QUERY_TILES - 1)),
          of_head(max((masks.window_end(place.first_key + KEYS - 1) + QUERIES - 1) / QUERIES, skipped + 1) - skipped),
          all(place.first_key < keys ? of_head * GROUP : 0),
          before(all * part / PARTS),
          count(all * (part + 1) / PARTS - before) {}

    __device__ __forceinline__ unsigned head(unsigned step) const { return place.head * GROUP + (before + step) / of_head; }
    __device__ __forceinline__ unsigned tile(unsigned step) const { return skipped + (before + step) % of_head; }
};

// Shared memory of a block, and its barriers.
struct Tiles {
    elem *keys, *values, *half, *queries, *douts, *dscores;
    float *gathered, *numbers;
    mbarrier *key_full, *query_full, *query_empty, *dout_full, *dout_empty, *dscore_full;

    // Tiles begin at multiples of 1024 bytes. Shared memory has room for the alignment.
    __device__ __forceinline__ Tiles(uint4* shared) {
        keys = reinterpret_cast<elem*>(shared) + (1024 - shared_address(shared) % 1024) % 1024 / 2;
        values = keys + OF_KEYS;
        half = values + OF_KEYS;
        queries = half + OF_HALF;
        douts = queries + STAGES * OF_QUERIES;
        dscores = douts + STAGES * OF_QUERIES;
        gathered = reinterpret_cast<float*>(dscores + 2 * OF_SCORES);
        numbers = gathered + (IN_BULK ? OF_SUMS : 0);
        key_full = reinterpret_cast<mbarrier*>(numbers + STAGES * OF_NUMBERS);
        query_full = key_full + 1;
        query_empty = query_full + STAGES;
        dout_full = query_empty + STAGES;
        dout_empty = dout_full + STAGES;
        dscore_full = dout_empty + STAGES;
    }

    // Initialises the barriers. One thread does this, before a barrier of the block.
    __device__ __forceinline__ void begin() const {
        mbarrier_begin(key_full, 1);
#pragma unroll
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_begin(query_full + i, 1);
            mbarrier_begin(query_empty + i, WARPGROUPS);
            mbarrier_begin(dout_full + i, 1);
            mbarrier_begin(dout_empty + i, WARPGROUPS);
            mbarrier_begin(dscore_full + i, WARPGROUPS * 4);
        }
        mbarrier_begun();
    }
};

// Copies all tiles of a block. One thread does this.
__device__ __forceinline__ void produce(const Tiles& tiles, const Steps& steps, const CUtensorMap& q, const CUtensorMap& k,
                                        const CUtensorMap& v, const CUtensorMap& dout, const float* numbers) {
    mbarrier_expect(tiles.key_full, (2 * OF_KEYS + OF_HALF) * 2);
#pragma unroll
    for (unsigned x = 0; x < COLUMNS; x++) {
        load_keys<FIRST_KEYS>(tiles.keys + x * KEYS * 64, k, tiles.key_full, x * 64, steps.place.first_key, steps.place.head);
        load_keys<FIRST_VALUES>(tiles.values + x * KEYS * 64, v, tiles.key_full, x * 64, steps.place.first_key, steps.place.head);
    }
    if constexpr (OF_HALF > 0) {
        load_keys<FIRST_KEYS>(tiles.half, k, tiles.key_full, WIDTH / 2, steps.place.first_key, steps.place.head);
    }
    for (unsigned step = 0; step < steps.count; step++) {
        const unsigned stage = step % STAGES, parity = step / STAGES % 2, head = steps.head(step), tile = steps.tile(step);
        mbarrier_wait(tiles.query_empty + stage, parity ^ 1);
        mbarrier_expect(tiles.query_full + stage, OF_QUERIES * 2 + OF_NUMBERS * 4);
#pragma unroll
        for (unsigned x = 0; x < COLUMNS; x++) {
            load_queries(tiles.queries + stage * OF_QUERIES + x * QUERIES * 64, q, tiles.query_full + stage, x * 64,
                         tile * QUERIES, head);
        }
        bulk_load(tiles.numbers + stage * OF_NUMBERS, numbers + ((u64)head * QUERY_TILES + tile) * OF_NUMBERS, OF_NUMBERS * 4,
                  tiles.query_full + stage);
        mbarrier_wait(tiles.dout_empty + stage, parity ^ 1);
        mbarrier_expect(tiles.dout_full + stage, OF_QUERIES * 2);
#pragma unroll
        for (unsigned x = 0; x < COLUMNS; x++) {
            load_queries(tiles.douts + stage * OF_QUERIES + x * QUERIES * 64, dout, tiles.dout_full + stage, x * 64,
                         tile * QUERIES, head);
        }
    }
}

// Keeps the compiler from using registers of an operand before this point, while a product may read them.
template <unsigned count>
__device__ __forceinline__ void hold_operand(unsigned (&a)[count][4]) {
#pragma unroll
    for (unsigned i = 0; i < count; i++) {
        asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
    }
}

// A warpgroup with 64 keys. Scores and their gradients have its keys as rows and the queries of a step as columns.
struct Consumer {
    const Tiles& tiles;
    const Steps& steps;
    const Masks& masks;
    const unsigned warpgroup, thread, keys;
    const float scale;
    float* const sums;
    float dk[WIDTH / 2], dv[WIDTH / 2];

    __device__ __forceinline__ Consumer(const Tiles& tiles, const Steps& steps, const Masks& masks, unsigned warpgroup,
                                        unsigned keys, float* sums)
        : tiles(tiles), steps(steps), masks(masks), warpgroup(warpgroup), thread(threadIdx.x % 128), keys(keys),
          scale(LOG2_E / sqrtf((float)D)), sums(sums) {}

    // Starts the product of own rows of keys or values and a tile of queries or dO.
    __device__ __forceinline__ void score(float (&scores)[QUERIES / 2], const elem* own, const elem* others) const {
        const u64 a = wgmma_along_k(own + warpgroup * (64 * 64)), b = wgmma_along_k(others);
        wgmma_fence();
#pragma unroll
        for (unsigned x = 0; x < WIDTH / 16; x++) {
            const unsigned box = x / 4, inside = x % 4;
            wgmma(scores, a + box * (KEYS * 128 >> 4) + inside * WGMMA_NEXT_ALONG_K,
                  b + box * (QUERIES * 128 >> 4) + inside * WGMMA_NEXT_ALONG_K, x > 0);
        }
        wgmma_commit();
    }

    // Starts to add a tile of queries or dO by weights.
    __device__ __forceinline__ void add(float (&to)[WIDTH / 2], const unsigned (&weights)[QUERIES / 16][4], const elem* others) const {
        const u64 b = wgmma_across_k(others, QUERIES);
        wgmma_fence();
#pragma unroll
        for (unsigned x = 0; x < QUERIES / 16; x++) wgmma<true>(to, weights[x], b + x * WGMMA_NEXT_ACROSS_K, true);
        wgmma_commit();
    }

    // Starts the product of dS of a step and all keys: this warpgroup's part of dQ.
    __device__ __forceinline__ void gather(float (&dq)[PART], unsigned step) const {
        const unsigned box = warpgroup * (KEYS * 64);
        const elem* const columns = OF_HALF > 0 && warpgroup > 0 ? tiles.half : tiles.keys + (BY_COLUMNS && OF_HALF == 0 ? box : 0);
        const u64 a = wgmma_across_k(tiles.dscores + step % 2 * OF_SCORES + (BY_COLUMNS ? 0 : box), KEYS);
        const u64 b = wgmma_across_k(columns, KEYS);
        wgmma_fence();
#pragma unroll
        for (unsigned x = 0; x < KEYS / 16; x++) {
            wgmma<true, true>(dq, a + x * WGMMA_NEXT_ACROSS_K, b + x * WGMMA_NEXT_ACROSS_K, x > 0);
        }
        wgmma_commit();
    }

    // Adds this warp's part of dQ of a step in device memory, in the order of registers.
    __device__ __forceinline__ void add_gathered(const float (&dq)[PART], unsigned step) const {
        const unsigned lane = thread % 32, warp = warpgroup * 4 + thread / 32;
        float* const to = sums + ((u64)steps.head(step) * QUERY_TILES + steps.tile(step)) * OF_SUMS;
        if constexpr (!IN_BULK) {
            float* const part = to + order_of(warp, lane, 0);
#pragma unroll
            for (unsigned i = 0; i < PART / 4; i++) {
                add_four(part + i * (TOGETHER * 128), dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
            }
            return;
        }
        float* const part = tiles.gathered + order_of(warp, 0, 0);
        // The part of the step before has been read.
        if (lane == 0) tma_wait_read<0>();
        __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < PART / 4; i++) {
            reinterpret_cast<float4*>(part)[i * 32 + lane] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        }
        tma_fence();
        __syncwarp();
        if (lane == 0) {
            bulk_add(to + order_of(warp, 0, 0), part, 128 * PART);
            tma_commit();
        }
    }

    // Replaces scores by weights.
    __device__ __forceinline__ void weigh(float (&scores)[QUERIES / 2], unsigned first_query, const float* lse) const {
        // Mask only in steps with a query that does not see all keys of the block.
        const bool after = steps.place.first_key + KEYS > min(masks.visible_keys(first_query), keys);
        if (after || steps.place.first_key < masks.window_start(first_query + QUERIES - 1)) {
            const unsigned key = steps.place.first_key + warpgroup * 64 + wgmma_row(0); //+ SEQUENCED: const Range seeing[2] = {masks.queries_seeing(key), masks.queries_seeing(key + 8)};
#pragma unroll
            for (unsigned i = 0; i < QUERIES / 2; i++) {
                const unsigned query = first_query + wgmma_column(i), of = key + i / 2 % 2 * 8;
                if (of < masks.window_start(query) || of >= min(masks.visible_keys(query), keys)) scores[i] = negative_infinity(); //= SEQUENCED: if (!seeing[i / 2 % 2].has(query)) scores[i] = negative_infinity();
            }
        }
#pragma unroll
        for (unsigned i = 0; i < QUERIES / 2; i += 4) {
            const float2 base = *reinterpret_cast<const float2*>(lse + wgmma_column(i));
            scores[i] = exp2_fast(fmaf(scores[i], scale, -base.x));
            scores[i + 1] = exp2_fast(fmaf(scores[i + 1], scale, -base.y));
            scores[i + 2] = exp2_fast(fmaf(scores[i + 2], scale, -base.x));
            scores[i + 3] = exp2_fast(fmaf(scores[i + 3], scale, -base.y));
        }
    }

    // Rounds numbers to an operand in registers.
    __device__ __forceinline__ void pack_operand(unsigned (&packed)[QUERIES / 16][4], const float (&x)[QUERIES / 2]) const {
#pragma unroll
        for (unsigned i = 0; i < QUERIES / 4; i++) packed[i / 4][i % 4] = pack(x[2 * i], x[2 * i + 1]);
    }

    // Gradients of scores, without the scale: it could underflow in 16 bits. Sums are scaled.
    __device__ __forceinline__ void differentiate(unsigned (&packed)[QUERIES / 16][4], const float (&weights)[QUERIES / 2],
                                                  const float (&dweights)[QUERIES / 2], const float* delta) const {
#pragma unroll
        for (unsigned i = 0; i < QUERIES / 2; i += 4) {
            const float2 of = *reinterpret_cast<const float2*>(delta + wgmma_column(i));
            packed[i / 8][i / 4 % 2 * 2] = pack(weights[i] * (dweights[i] - of.x), weights[i + 1] * (dweights[i + 1] - of.y));
            packed[i / 8][i / 4 % 2 * 2 + 1] =
                pack(weights[i + 2] * (dweights[i + 2] - of.x), weights[i + 3] * (dweights[i + 3] - of.y));
        }
    }

    // Publishes this warpgroup's rows of dS.
    __device__ __forceinline__ void publish(const unsigned (&packed)[QUERIES / 16][4], unsigned step) const {
        const unsigned lane = thread % 32, row = warpgroup * 64 + thread / 32 * 16 + lane % 16;
        elem* const tile = tiles.dscores + step % 2 * OF_SCORES + row * 64;
#pragma unroll
        for (unsigned n = 0; n < QUERIES / 16; n++) {
            const unsigned piece = n * 2 + lane / 16;
            store_matrices(tile + piece / 8 * (KEYS * 64) + (piece % 8 ^ row % 8) * 8, packed[n]);
        }
        tma_fence();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(tiles.dscore_full + step % 2);
    }

    // Ends the warpgroup's reads of a tile, after its wait for their products.
    __device__ __forceinline__ void release(mbarrier* empty) const {
        if (thread == 0) mbarrier_arrive(empty);
    }

    // Waits for dS of a step by both warpgroups. The step before the first counts as published.
    __device__ __forceinline__ void wait_dscores(unsigned step) const {
        mbarrier_wait(tiles.dscore_full + step % 2, step / 2 % 2);
    }

    // Keys and values beyond the length may be NaN: zeros replace them in shared memory.
    __device__ __forceinline__ void clear_unseen() const {
        if constexpr (!OWN_LENGTHS) return;
        if (steps.place.first_key + KEYS <= keys) return;
        for (unsigned i = thread; i < 64 * COLUMNS * 8; i += 128) {
            const unsigned row = warpgroup * 64 + i / 8 % 64, at = i / 512 * (KEYS * 8) + row * 8 + i % 8;
            if (steps.place.first_key + row < keys) continue;
            reinterpret_cast<uint4*>(tiles.keys)[at] = make_uint4(0, 0, 0, 0);
            reinterpret_cast<uint4*>(tiles.values)[at] = make_uint4(0, 0, 0, 0);
            if (OF_HALF > 0 && i < 512) reinterpret_cast<uint4*>(tiles.half)[at] = make_uint4(0, 0, 0, 0);
        }
        tma_fence();
        named_sync<128>(1 + warpgroup);
    }

    // Adds all steps of the block.
    __device__ __forceinline__ void add_steps() {
        float scores[QUERIES / 2], dweights[QUERIES / 2], dq[PART];
        unsigned packed[QUERIES / 16][4];
        mbarrier_wait(tiles.key_full, 0);
        clear_unseen();
        for (unsigned step = 0; step < steps.count; step++) {
            const unsigned stage = step % STAGES, parity = step / STAGES % 2;
            const elem* const q_tile = tiles.queries + stage * OF_QUERIES;
            const elem* const dout_tile = tiles.douts + stage * OF_QUERIES;
            const float* const lse = tiles.numbers + stage * OF_NUMBERS;
            mbarrier_wait(tiles.query_full + stage, parity);
            score(scores, tiles.keys, q_tile);
            // dQ of the step before. Before the first, its result is not used.
            wait_dscores(step - 1);
            gather(dq, step - 1);
            wgmma_wait<1>(scores);
            hold_operand(packed);
            if (step > 0) release(tiles.query_empty + (step - 1) % STAGES);
            weigh(scores, steps.tile(step) * QUERIES, lse);
            if constexpr (!TWO_AT_A_TIME) {
                wgmma_wait<0>(dq);
                if (step > 0) add_gathered(dq, step - 1);
            }
            pack_operand(packed, scores);
            mbarrier_wait(tiles.dout_full + stage, parity);
            add(dv, packed, dout_tile);
            if constexpr (!TWO_AT_A_TIME) {
                wgmma_wait<0>(dv);
                hold_operand(packed);
            } else {
                wgmma_wait<1>(dq);
                if (step > 0) add_gathered(dq, step - 1);
            }
            score(dweights, tiles.values, dout_tile);
            wgmma_wait<0>(dweights);
            hold_operand(packed);
            release(tiles.dout_empty + stage);
            differentiate(packed, scores, dweights, lse + QUERIES);
            publish(packed, step);
            add(dk, packed, q_tile);
        }
        wait_dscores(steps.count - 1);
        gather(dq, steps.count - 1);
        wgmma_wait<0>(dq);
        add_gathered(dq, steps.count - 1);
    }

    // Stores a gradient by way of shared memory that no product reads any more.
    template <unsigned first_head>
    __device__ __forceinline__ void store(float (&sum)[WIDTH / 2], float factor, elem* tile, const CUtensorMap& to) const {
        wgmma_hold(sum);
        const unsigned lane = thread % 32, row = warpgroup * 64 + thread / 32 * 16 + lane % 16;
#pragma unroll
        for (unsigned n = 0; n < WIDTH / 16; n++) {
            const float* const x = sum + n * 8;
            const unsigned piece = n * 2 + lane / 16;
            const unsigned packed[4] = {pack(x[0] * factor, x[1] * factor), pack(x[2] * factor, x[3] * factor),
                                        pack(x[4] * factor, x[5] * factor), pack(x[6] * factor, x[7] * factor)};
            store_matrices(tile + piece / 8 * (KEYS * 64) + row * 64 + (piece % 8 ^ row % 8) * 8, packed);
        }
        tma_fence();
        named_sync<128>(1 + warpgroup);
        const unsigned first = steps.place.first_key + warpgroup * 64;
        if (thread == 0 && first < T) {
#pragma unroll
            for (unsigned x = 0; x < COLUMNS; x++) {
                tma_store(to, tile + x * (KEYS * 64) + warpgroup * (64 * 64), x * 64, first,
                          first_head + steps.place.head % ITEM_KEY_HEADS, steps.place.head / ITEM_KEY_HEADS);
            }
            tma_commit();
        }
    }

    // Keeps a gradient for another block of the cluster.
    __device__ __forceinline__ void keep(float (&sum)[WIDTH / 2], float4* kept) const {
        wgmma_hold(sum);
#pragma unroll
        for (unsigned i = 0; i < WIDTH / 8; i++) {
            kept[i * 256 + threadIdx.x] = make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
        }
    }

    // Adds a gradient that another block has kept.
    __device__ __forceinline__ void add_kept(float (&sum)[WIDTH / 2], const float4* kept) const {
#pragma unroll
        for (unsigned i = 0; i < WIDTH / 8; i++) {
            const float4 x = kept[i * 256 + threadIdx.x];
            sum[4 * i] += x.x;
            sum[4 * i + 1] += x.y;
            sum[4 * i + 2] += x.z;
            sum[4 * i + 3] += x.w;
        }
    }

    // Adds the gradients of all blocks of the cluster, in order, and stores them: the first block dV, the second dK. Those have no
    // room for sums where their results pass.
    __device__ __forceinline__ void store_sums(const CUtensorMap& dk_out, const CUtensorMap& dv_out) {
        const unsigned rank = cluster_rank();
        float4* const first = reinterpret_cast<float4*>(tiles.queries);
        float4* const second = reinterpret_cast<float4*>(tiles.keys);
        // The other warpgroup has read its tiles.
        named_sync<256>(1 + WARPGROUPS);
        if (rank != 0) keep(dv, first);
        if (rank != 1) keep(dk, rank == 0 ? first : second);
        cluster_sync();
        if (rank == 0) {
            for (unsigned i = 1; i < PARTS; i++) add_kept(dv, cluster_pointer(first, i));
            store<FIRST_VALUES>(dv, 1.0f, tiles.values, dv_out);
        } else if (rank == 1) {
            add_kept(dk, cluster_pointer(first, 0));
            for (unsigned i = 2; i < PARTS; i++) add_kept(dk, cluster_pointer(second, i));
            store<FIRST_KEYS>(dk, 1.0f / sqrtf((float)D), tiles.keys, dk_out);
        }
        // The shared memory of a block lasts until the others have read it.
        cluster_sync();
    }

    // Computes and stores the gradients of the block's keys and values.
    __device__ __forceinline__ void differentiate_keys(const CUtensorMap& dk_out, const CUtensorMap& dv_out) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH / 2; i++) dk[i] = dv[i] = 0.0f;
        if (steps.count > 0) {
            add_steps();
        } else {
            mbarrier_wait(tiles.key_full, 0);
        }
        if constexpr (PARTS > 1) {
            store_sums(dk_out, dv_out);
            return;
        }
        store<FIRST_VALUES>(dv, 1.0f, tiles.values, dv_out);
        // The other warpgroup has read the keys.
        named_sync<256>(1 + WARPGROUPS);
        store<FIRST_KEYS>(dk, 1.0f / sqrtf((float)D), tiles.keys, dk_out);
    }
};
