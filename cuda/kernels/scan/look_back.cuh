// Exchange of sums between tiles, by decoupled look-back.
//
// A tile publishes its sum, and looks back over the earlier tiles, 32 at a time, until one has a running sum. Tiles are numbered
// in the order in which blocks take them, and a block finishes its tiles in that order. A block then waits only for blocks that
// have started. A tile publishes 64 bits at once: the upper half is the kind of the lower half, an f32. Blocks exchange nothing
// else, so no other accesses need an order.

#include "scan/common.cuh"

// Kinds in the upper half; zero means unpublished.
constexpr unsigned OF_TILE = 1, RUNNING = 2;

__device__ __forceinline__ void publish(u64* state, unsigned kind, float sum) {
    const u64 word = (u64)kind << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(state), "l"(word) : "memory");
}

__device__ __forceinline__ u64 read_word(const u64* state) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(state) : "memory");
    return word;
}

// Sum of all tiles before this one, for every lane of the calling warp.
__device__ __forceinline__ float look_back(const u64* state, unsigned tile) {
    const unsigned lane = threadIdx.x % 32;
    float sum = 0.0f;
    // Lane 0 reads the nearest tile. Tiles before the first have sum zero.
    for (long long nearest = (long long)tile - 1;; nearest -= 32) {
        const long long other = nearest - lane;
        u64 word = (u64)RUNNING << 32;
        if (other >= 0) word = read_word(state + other);
        while (__any_sync(0xFFFFFFFFu, word >> 32 == 0)) {
            if (word >> 32 == 0) word = read_word(state + other);
        }
        // The nearest running sum includes the tiles before it.
        const unsigned running = __ballot_sync(0xFFFFFFFFu, word >> 32 == RUNNING);
        const unsigned last = running != 0 ? __ffs(running) - 1 : 31;
        float more = lane <= last ? __uint_as_float((unsigned)word) : 0.0f;
#pragma unroll
        for (unsigned step = 16; step > 0; step /= 2) more += __shfl_xor_sync(0xFFFFFFFFu, more, step);
        sum = more + sum;
        if (running != 0) return sum;
    }
}

// Publishes the sum of a tile, and returns the sum of all tiles before it. All lanes of the calling warp must call.
__device__ __forceinline__ float exchanged(u64* words, unsigned tile, float total) {
    float sum = 0.0f;
    if (tile > 0) {
        if (threadIdx.x % 32 == 0) publish(words + tile, OF_TILE, total);
        sum = look_back(words, tile);
    }
    if (threadIdx.x % 32 == 0) publish(words + tile, RUNNING, sum + total);
    return sum;
}
