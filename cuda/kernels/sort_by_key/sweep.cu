// Pass of `onesweep`: keys and their values moved to the place of a digit, each read once and written once. The definition is in
// core/workloads/src/ops/sort_by_key.rs.
//
// A block takes the next tile of keys, counts its digits, and publishes the counts. It looks back over the earlier tiles until
// one has the sum up to itself. Tiles are numbered in the order in which blocks start, so that a block waits only for blocks that
// have started. Sums are of integers: the order is the same in every run.
//
// In a tile, a warp has OWN consecutive rows of 32 keys. In each row, lanes of the same digit find each other by a ballot per
// bit, and the first of them advances the warp's count of this digit. Keys are then sorted in shared memory, so that those of one
// digit are written as neighbours.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/launch.cuh"

constexpr unsigned ALL = 0xFFFFFFFFu;
constexpr unsigned WARPS = THREADS / 32, TILE = THREADS * OWN;
// Word of a tile: kind and number; zero means unpublished.
constexpr unsigned OF_TILE = 1u << 30, RUNNING = 2u << 30, NUMBER = OF_TILE - 1;

__device__ __forceinline__ void publish(unsigned* word, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ unsigned read_word(const unsigned* word) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ unsigned digit_of(unsigned key) { return (key >> SHIFT) % BINS; }

// Number of keys of this digit in all tiles before this one; `words` has a row per tile.
__device__ __forceinline__ unsigned look_back(const unsigned* words, unsigned tile, unsigned digit) {
    // Tiles read at once.
    constexpr unsigned window = 4;
    unsigned sum = 0;
    for (int nearest = (int)tile - 1;;) {
        unsigned word[window];
#pragma unroll
        for (unsigned i = 0; i < window; i++) {
            word[i] = nearest >= (int)i ? read_word(words + (u64)(nearest - i) * BINS + digit) : RUNNING;
        }
#pragma unroll
        for (unsigned i = 0; i < window; i++) {
            // An unpublished tile is read again.
            if (word[i] == 0) break;
            sum += word[i] & NUMBER;
            if (word[i] >= RUNNING) return sum;
            nearest--;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sort_by_key_sweep(unsigned* __restrict__ told, const unsigned* __restrict__ keys,
                      const unsigned* __restrict__ values, unsigned* __restrict__ sorted,
                      unsigned* __restrict__ carried) {
    static_assert(BINS == 256 && BINS <= THREADS && OWN * 32 >= BINS, "a thread for each digit, and room for counts");
    extern __shared__ unsigned in_order[];
    unsigned* const keys_in_order = in_order;
    unsigned* const values_in_order = in_order + TILE;
    // Until keys are sorted: counts of each digit per warp.
    unsigned(*const of_warps)[BINS] = reinterpret_cast<unsigned(*)[BINS]>(in_order);
    // Per digit: the begin of its keys in the tile, and the place of a key less its place in the tile.
    __shared__ unsigned starts[BINS], places[BINS];
    __shared__ unsigned sums[2][BINS / 32];
    __shared__ unsigned number;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, digit = threadIdx.x;

    if (threadIdx.x == 0) number = atomicAdd(told + PASS, 1u);
#pragma unroll
    for (unsigned bin = 0; bin < BINS; bin += 32) of_warps[warp][bin + lane] = 0;
    __syncthreads();
    const unsigned tile = number;
    unsigned* const words = told + TICKETS + PASSES * BINS + (u64)PASS * TILES * BINS;

    const u64 first = (u64)tile * TILE + warp * (32 * OWN) + lane;
    unsigned key[OWN], value[OWN], rank[OWN];
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        // Keys beyond the last have the highest digit, and follow all others.
        key[i] = first + i * 32 < ITEMS ? keys[first + i * 32] : ALL;
    }
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) value[i] = first + i * 32 < ITEMS ? values[first + i * 32] : 0;

#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned own = digit_of(key[i]);
        unsigned alike = ALL;
#pragma unroll
        for (unsigned bit = 1; bit < BINS; bit *= 2) {
            const bool set = own & bit;
            const unsigned those = __ballot_sync(ALL, set);
            alike &= set ? those : ~those;
        }
        const unsigned below = __popc(alike & ((1u << lane) - 1));
        const unsigned before = of_warps[warp][own];
        __syncwarp();
        if (below == 0) of_warps[warp][own] = before + __popc(alike);
        __syncwarp();
        rank[i] = before + below;
    }
    __syncthreads();

    // Of this thread's digit: its keys in the tile, those of smaller digits in the tile, and in all tiles.
    unsigned count = 0, smaller = 0, everywhere = 0;
    if (threadIdx.x < BINS) {
#pragma unroll
        for (unsigned other = 0; other < WARPS; other++) {
            const unsigned of_warp = of_warps[other][digit];
            of_warps[other][digit] = count;
            count += of_warp;
        }
        publish(words + (u64)tile * BINS + digit, (tile == 0 ? RUNNING : OF_TILE) | count);
        const unsigned total = told[TICKETS + PASS * BINS + digit];
        smaller = count, everywhere = total;
#pragma unroll
        for (unsigned step = 1; step < 32; step *= 2) {
            const unsigned more = __shfl_up_sync(ALL, smaller, step), most = __shfl_up_sync(ALL, everywhere, step);
            smaller += lane >= step ? more : 0;
            everywhere += lane >= step ? most : 0;
        }
        if (lane == 31) sums[0][warp] = smaller, sums[1][warp] = everywhere;
        smaller -= count, everywhere -= total;
    }
    __syncthreads();
    if (threadIdx.x < BINS) {
#pragma unroll
        for (unsigned other = 0; other < BINS / 32; other++) {
            smaller += other < warp ? sums[0][other] : 0;
            everywhere += other < warp ? sums[1][other] : 0;
        }
        starts[digit] = smaller;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned own = digit_of(key[i]);
        rank[i] += of_warps[warp][own] + starts[own];
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        keys_in_order[rank[i]] = key[i];
        values_in_order[rank[i]] = value[i];
    }
    if (threadIdx.x < BINS) {
        unsigned before = 0;
        if (tile > 0) {
            before = look_back(words, tile, digit);
            publish(words + (u64)tile * BINS + digit, RUNNING | (before + count));
        }
        places[digit] = everywhere + before - smaller;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned at = i * THREADS + threadIdx.x;
        if ((u64)tile * TILE + at < ITEMS) {
            const unsigned moved = keys_in_order[at], to = places[digit_of(moved)] + at;
            sorted[to] = moved;
            carried[to] = values_in_order[at];
        }
    }
}
