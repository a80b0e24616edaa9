// Running sums in one pass. A block takes the next tile, tells its sum to all that come after it, and looks back over the tiles
// before it, 32 at a time, until one of them knows its running sum. The definition is in core/workloads/src/ops/scan.rs.
//
// Tiles are numbered in the order in which blocks begin, not by the blocks' own numbers: whoever is waited for has begun, and waits
// only for those before it, the first of which waits for nobody. What a tile tells is 64 bits, written and read at once: its upper
// half says what the lower half, an f32, is. Nothing else passes between blocks, so that no order of other accesses is needed.

#include "scan/common.cuh"

// What the upper half says; zero is nothing yet.
constexpr unsigned OF_TILE = 1, RUNNING = 2;

__device__ __forceinline__ void tell(u64* told, unsigned what, float sum) {
    const u64 word = (u64)what << 32 | __float_as_uint(sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(told), "l"(word) : "memory");
}

__device__ __forceinline__ u64 asked(const u64* told) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(told) : "memory");
    return word;
}

// The sum of all tiles before this one, for every lane of the warp that calls.
__device__ __forceinline__ float look_back(const u64* told, unsigned tile) {
    const unsigned lane = threadIdx.x % 32;
    float sum = 0.0f;
    // Lane 0 asks the nearest tile. Those before the first are sums of nothing.
    for (long long nearest = (long long)tile - 1;; nearest -= 32) {
        const long long other = nearest - lane;
        u64 word = (u64)RUNNING << 32;
        if (other >= 0) word = asked(told + other);
        while (__any_sync(0xFFFFFFFFu, word >> 32 == 0)) {
            if (word >> 32 == 0) word = asked(told + other);
        }
        // Tiles behind the nearest that knows its running sum are part of that.
        const unsigned running = __ballot_sync(0xFFFFFFFFu, word >> 32 == RUNNING);
        const unsigned last = running != 0 ? __ffs(running) - 1 : 31;
        float more = lane <= last ? __uint_as_float((unsigned)word) : 0.0f;
#pragma unroll
        for (unsigned step = 16; step > 0; step /= 2) more += __shfl_xor_sync(0xFFFFFFFFu, more, step);
        sum = more + sum;
        if (running != 0) return sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_decoupled(const elem* __restrict__ x, unsigned* __restrict__ told, elem* __restrict__ out) {
    __shared__ unsigned number;
    __shared__ float before;
    if (threadIdx.x == 0) number = atomicAdd(told, 1u);
    __syncthreads();
    const unsigned tile = number;
    // Blocks that only fill up the launch's rectangle.
    if (tile >= TILES) return;
    u64* const words = reinterpret_cast<u64*>(told) + 1;

    piece own[tile_rows];
    float start[tile_rows];
    load_tile(own, x, tile);
    const float total = tile_starts(own, start);
    if (threadIdx.x < 32) {
        float sum = 0.0f;
        if (tile > 0) {
            if (threadIdx.x == 0) tell(words + tile, OF_TILE, total);
            sum = look_back(words, tile);
        }
        if (threadIdx.x == 0) {
            tell(words + tile, RUNNING, sum + total);
            before = sum;
        }
    }
    __syncthreads();
    store_tile(out, own, start, before, tile);
}
