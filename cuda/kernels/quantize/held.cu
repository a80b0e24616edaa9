// Codes of 8 bits with scales: LANES neighbouring threads share a group and hold its numbers. The definition is in
// core/workloads/src/ops/quantize.rs.

#include "lib/pieces.cuh"
#include "quantize/codes.cuh"

constexpr unsigned IN_BLOCK = THREADS / LANES, WARPS_OF_GROUP = LANES / 32;

// Words of a vector's codes, moved as one.
struct alignas(WIDTH) words {
    unsigned at[WIDTH / 4];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    quantize_held(const elem* __restrict__ x, unsigned* __restrict__ codes, float* __restrict__ scale) {
    __shared__ unsigned of_warps[THREADS / 32];
    const unsigned lane = threadIdx.x % LANES;
    const u64 index = flat_workgroup() * IN_BLOCK + threadIdx.x / LANES;
    // Vectors of a row, and of the group.
    const unsigned first = (unsigned)(index % GROUPS) * (G / WIDTH);
    const u64 start = index / GROUPS * (C / WIDTH) + first;
    const unsigned count = index < (u64)ROWS * GROUPS ? min(G / WIDTH, C / WIDTH - first) : 0;
    stored numbers[HELD];
#pragma unroll
    for (unsigned i = 0; i < HELD; i++) {
        if (lane + i * LANES < count) {
            numbers[i] = load_stored(x, start + lane + i * LANES);
        } else {
#pragma unroll
            for (unsigned j = 0; j < WIDTH; j++) numbers[i].at[j] = to_elem(0.0f);
        }
    }
    unsigned largest = 0;
#pragma unroll
    for (unsigned i = 0; i < HELD; i++) {
#pragma unroll
        for (unsigned j = 0; j < WIDTH; j++) largest = max(largest, magnitude(load(numbers[i].at[j])));
    }
#pragma unroll
    for (unsigned apart = 1; apart < LANES && apart < 32; apart *= 2) {
        largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, apart));
    }
    if constexpr (LANES > 32) {
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
        __syncthreads();
        const unsigned first_warp = threadIdx.x / LANES * WARPS_OF_GROUP;
#pragma unroll
        for (unsigned i = 0; i < WARPS_OF_GROUP; i++) largest = max(largest, of_warps[first_warp + i]);
    }
    const float found = scale_of(largest), inverse = inverse_of(found);
    if (lane == 0 && count > 0) scale[index] = found;
#pragma unroll
    for (unsigned i = 0; i < HELD; i++) {
        if (lane + i * LANES >= count) continue;
        const piece wide = widened(numbers[i]);
        words to;
#pragma unroll
        for (unsigned j = 0; j < WIDTH / 4; j++) to.at[j] = not_finite(largest) ? 0 : word_of(wide.at + 4 * j, inverse);
        reinterpret_cast<words*>(codes)[start + lane + i * LANES] = to;
    }
}
