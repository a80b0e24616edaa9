// A token of each row from its K largest logits in falling order, by a warp a row: rows of 32 logits are scanned by shuffles. The
// definition is in core/workloads/src/ops/sample.rs.

#include "sample/weight.cuh"

constexpr unsigned ALL = 0xFFFFFFFFu;

// Number of a warp's lanes before the first that has the condition; 32 if none has it.
__device__ __forceinline__ unsigned before_first(bool condition) {
    const unsigned lanes = __ballot_sync(ALL, condition);
    return lanes == 0 ? 32 : __ffs((int)lanes) - 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_pick(const elem* __restrict__ values, const unsigned* __restrict__ indices, const float* __restrict__ u,
                unsigned* __restrict__ token, float* __restrict__ probability) {
    const unsigned lane = threadIdx.x % 32;
    const u64 row = flat_workgroup() * (THREADS / 32) + threadIdx.x / 32;
    // Whole warps end.
    if (row >= ROWS) return;
    const elem* const own = values + row * K;
    const float top = load(own[0]);
    // Weights of this lane, 32 apart, and the sums up to each.
    float weights[OWN], upto[OWN], sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) weights[i] = i * 32 + lane < K ? weight(load(own[i * 32 + lane]), top) : 0.0f;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        upto[i] = weights[i];
#pragma unroll
        for (unsigned step = 1; step < 32; step *= 2) {
            const float more = __shfl_up_sync(ALL, upto[i], step);
            if (lane >= step) upto[i] += more;
        }
        upto[i] += sum;
        sum = __shfl_sync(ALL, upto[i], 31);
    }
    unsigned kept = K, less = K;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const bool there = i * 32 + lane < K;
        const unsigned reaches = before_first(there && !ALL_P && upto[i] >= TOP_P * sum);
        const unsigned lacks = before_first(there && weights[i] < MIN_P);
        if (kept == K && reaches < 32) kept = i * 32 + reaches + 1;
        if (less == K && lacks < 32) less = i * 32 + lacks;
    }
    kept = kept < less ? kept : less;
    kept = kept > 0 && is_finite(top) ? kept : 1;
    float total = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const float other = __shfl_sync(ALL, upto[i], (kept - 1) % 32);
        if ((kept - 1) / 32 == i) total = other;
    }
    const float wanted = u[row] * total;
    unsigned place = kept - 1;
#pragma unroll
    for (unsigned i = 0; i < OWN; i++) {
        const unsigned beyond = before_first(i * 32 + lane < kept && upto[i] > wanted);
        if (place == kept - 1 && beyond < 32) place = i * 32 + beyond;
    }
    if (lane == 0) {
        token[row] = indices[row * K + place];
        probability[row] = is_finite(top) ? weight(load(own[place]), top) / total : not_a_number();
    }
}
