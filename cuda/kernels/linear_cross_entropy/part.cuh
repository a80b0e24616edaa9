// Parts of rows of logits: the maximum, and the sum of exponentials of the logits minus it. PARTS parts of all ROWS rows are
// stored one after the other.

#include "lib/exponential.cuh"
#include "lib/reduce.cuh"

// Part of no logits.
__device__ __forceinline__ float2 no_part() { return make_float2(LOWEST, 0.0f); }

// Part of the logits of both. The maximum may lose NaN, and the sum keeps it.
__device__ __forceinline__ float2 joined(float2 a, float2 b) {
    const float top = fmaxf(a.x, b.x);
    return make_float2(top, fmaf(a.y, exponential(a.x - top), b.y * exponential(b.x - top)));
}

// Logarithm of the sum of exponentials of a whole row.
__device__ __forceinline__ float log_sum(float2 whole) { return whole.x + logf(whole.y); }

// Part of the COUNT logits of each of LANES neighbouring lanes. `logit(k)` and `column(k)` have those of this lane. Columns from
// CLASSES on do not count; none is one of them if all are `inside`. All lanes of the warp must call.
template <unsigned COUNT, unsigned LANES, bool inside, typename Logit, typename Column>
__device__ __forceinline__ float2 part_of(const Logit& logit, const Column& column) {
    float top = LOWEST, sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < COUNT; k++) {
        if (inside || column(k) < CLASSES) top = fmaxf(top, logit(k));
    }
    top = lanes_max(top, LANES);
#pragma unroll
    for (unsigned k = 0; k < COUNT; k++) {
        if (inside || column(k) < CLASSES) sum += exponential(logit(k) - top);
    }
    return make_float2(top, lanes_sum(sum, LANES));
}

// Destination of parts, and of the logits of targets.
struct Parts {
    const unsigned* __restrict__ targets;
    float* __restrict__ parts;
    float* __restrict__ picked;

    // Stores a part of a row, and the logit of its target if it is one of them. All lanes of the warp must call.
    template <unsigned COUNT, unsigned LANES, bool inside = false, typename Logit, typename Column>
    __device__ __forceinline__ void store(unsigned row, unsigned index, const Logit& logit, const Column& column) const {
        const float2 part = part_of<COUNT, LANES, inside>(logit, column);
        if (row >= ROWS || index >= PARTS) return;
        const unsigned target = targets[row];
        if (target < CLASSES) {
#pragma unroll
            for (unsigned k = 0; k < COUNT; k++) {
                if (column(k) == target) picked[row] = logit(k);
            }
        }
        if (threadIdx.x % LANES == 0) reinterpret_cast<float2*>(parts)[(u64)index * ROWS + row] = part;
    }
};
