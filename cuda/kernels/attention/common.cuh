// Shared by the variants of attention: the masks, of which the causal one is aligned to the last key. Of the HEADS heads of queries, each GROUP
// neighbours have one head of keys and values.

#include "lib/elem.cuh"

// Number of keys that query `i` sees, if T are there.
__device__ __forceinline__ unsigned visible_keys(unsigned i) {
    if constexpr (!CAUSAL) return T;
    const long long seen = (long long)i + 1 + (long long)T - (long long)S;
    return seen <= 0 ? 0 : seen < (long long)T ? (unsigned)seen : T;
}

// The first query that sees key `j`, S or more where none does.
__device__ __forceinline__ unsigned first_query(unsigned j) {
    if constexpr (!CAUSAL) return 0;
    const long long first = (long long)j + (long long)S - (long long)T;
    return first <= 0 ? 0 : (unsigned)first;
}

// What narrows and weighs a query's keys beside that; what the shape does not have is not looked at.
struct Masks {
    const unsigned* lengths;
    const elem* mask;

    // Keys that there are for a head of queries.
    __device__ __forceinline__ unsigned keys_of(u64 head) const {
        if constexpr (!OWN_LENGTHS) return T;
        return min(lengths[head / ITEM_HEADS], T);
    }

    // Number of keys that query `i` of a head sees.
    __device__ __forceinline__ unsigned seen_keys(u64 head, unsigned i) const {
        return min(visible_keys(i), keys_of(head));
    }

    // A score with what the mask adds to it, which is counted in this unit: -inf for keys that it hides.
    __device__ __forceinline__ float biased(float score, unsigned query, unsigned key, float unit) const {
        if constexpr (!BIASED) return score;
        if (query >= S || key >= T) return score;
        const float bias = load(mask[(u64)query * T + key]);
        // Finite values are cut off where scores could become infinite. No maximum, which would lose NaN.
        return bias == negative_infinity() ? bias : fmaf(bias < -2e38f ? -2e38f : bias, unit, score);
    }
};

// Scores are held against the highest so far. While a row has seen no key, all are -inf; zero in its place keeps inf - inf
// away.
__device__ __forceinline__ float base_of(float highest) { return highest == negative_infinity() ? 0.0f : highest; }
