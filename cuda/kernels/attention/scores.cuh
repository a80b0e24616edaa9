// Changes of scores and of their sums, in place of attention/common alone. Scores are products of queries and keys, not scaled.
//
// CAPPED  a soft cap: SOFTCAP * tanh(score / SOFTCAP) of scaled scores
// ALIBI   slopes over the distance of query and key
// SINKS   a number per head that joins the sum of weights

#include "attention/common.cuh"
#include "lib/exp2.cuh"

// Ratio of products to scaled scores.
__device__ __forceinline__ float to_product() { return sqrtf((float)D); }

#if CHANGES
// Slope of a head over distances, in scaled scores.
__device__ __forceinline__ float slope_of(u64 head) {
    return ALIBI ? exp2f(-8.0f * (float)(unsigned)(head % ITEM_HEADS + 1) / (float)ITEM_HEADS) : 0.0f;
}

// Product under the soft cap. The logistic function is zero or one where the exponential is infinite or zero.
__device__ __forceinline__ float capped(float score) {
    if constexpr (!CAPPED) return score;
    const float bound = SOFTCAP * to_product();
    return bound - __fdividef(2.0f * bound, 1.0f + exp2_fast(score * (2.0f * LOG2_E / bound)));
}

// Slope of the soft cap where it has this value.
__device__ __forceinline__ float slope_of_cap(float bounded) {
    if constexpr (!CAPPED) return 1.0f;
    const float share = bounded * (1.0f / (SOFTCAP * to_product()));
    return 1.0f - share * share;
}

// Product less the slope's share. The last query is at the last key.
__device__ __forceinline__ float sloped(float score, float slope, unsigned query, unsigned key) {
    if constexpr (!ALIBI) return score;
    return fmaf(-slope * to_product(), fabsf((float)((int)(query + T) - (int)(S + key))), score);
}

// Product with all changes.
__device__ __forceinline__ float changed(float score, float slope, unsigned query, unsigned key) {
    return sloped(capped(score), slope, query, key);
}

// Products of a thread with all changes: rows and columns by the functions of their layout, from the first ones on.
template <unsigned count>
__device__ __forceinline__ void change(float (&scores)[count], float slope, unsigned first_query, unsigned first_key,
                                       unsigned row_of(unsigned), unsigned column_of(unsigned)) {
#pragma unroll
    for (unsigned i = 0; i < count; i++) {
        scores[i] = changed(scores[i], slope, first_query + row_of(i), first_key + column_of(i));
    }
}
#endif

#if SINKS
// Sum of weights with the sink's, for scaled scores above this maximum. Zero stays: a row without a visible key has no output.
// Weights are zero beside a sink that is higher by 80 or more. A minimum would lose NaN.
__device__ __forceinline__ float with_sink(const elem* sinks, u64 head, float highest, float sum) {
    const float over = load(sinks[head % ITEM_HEADS]) - highest;
    return sum == 0.0f ? 0.0f : sum + expf(over > 80.0f ? 80.0f : over);
}

// Logarithm of that sum of exponentials, or zero.
__device__ __forceinline__ float log_with_sink(const elem* sinks, u64 head, float highest, float sum) {
    const float sink = load(sinks[head % ITEM_HEADS]), base = fmaxf(highest, sink);
    return sum == 0.0f ? 0.0f : base + logf(sum * expf(highest - base) + expf(sink - base));
}
#endif
