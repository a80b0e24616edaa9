// Masks of attention. The causal mask is aligned to the last key. A window has WINDOW keys up to that mask, or all if it is zero.
// GROUP neighbouring heads of queries share a head of keys and values. With SEQUENCES, queries and keys are the same tokens, and a
// query sees keys of its own sequence alone.

#include "lib/elem.cuh"

// Whether the first key that a query sees depends on the query.
constexpr bool STARTS = WINDOW > 0 || SEQUENCES > 0;

// Tokens from the first to before the end.
struct Range {
    unsigned first, end;

    __device__ __forceinline__ bool has(unsigned i) const { return i >= first && i < end; }
};

// Length, or bounds of packed sequences, and additive mask. Absent parts are not read.
struct Masks {
    const unsigned* lengths;
    const elem* mask; //+ SINKS: const elem* sinks;

    // Own sequence of token `i`; empty for a token of none. Bounds ascend, and so do both results.
    __device__ __forceinline__ Range sequence_of(unsigned i) const {
        unsigned low = 0, high = SEQUENCES + 1;
        while (low < high) {
            const unsigned middle = (low + high) / 2;
            if (lengths[middle] <= i) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low == 0) return {0, 0};
        return {min(lengths[low - 1], T), min(lengths[min(low, SEQUENCES)], T)};
    }

    // Number of keys visible to query `i`, if T exist.
    __device__ __forceinline__ unsigned visible_keys(unsigned i) const {
        if constexpr (SEQUENCES > 0) return CAUSAL ? min(sequence_of(i).end, i + 1) : sequence_of(i).end;
        if constexpr (!CAUSAL) return T;
        const long long seen = (long long)i + 1 + (long long)T - (long long)S;
        return seen <= 0 ? 0 : seen < (long long)T ? (unsigned)seen : T;
    }

    // First key in the window of query `i`.
    __device__ __forceinline__ unsigned window_start(unsigned i) const {
        if constexpr (SEQUENCES > 0) {
            return max(sequence_of(i).first, WINDOW > 0 && i + 1 > WINDOW ? i + 1 - WINDOW : 0);
        }
        if constexpr (WINDOW == 0) return 0;
        const long long first = (long long)i + 1 + (long long)T - (long long)S - (long long)WINDOW;
        return first <= 0 ? 0 : first < (long long)T ? (unsigned)first : T;
    }

    // Query after the last whose window has key `j`.
    __device__ __forceinline__ unsigned window_end(unsigned j) const {
        if constexpr (SEQUENCES > 0) return min(sequence_of(min(j, T - 1)).end, WINDOW > 0 ? j + WINDOW : S);
        if constexpr (WINDOW == 0) return S;
        const long long end = (long long)j + (long long)WINDOW + (long long)S - (long long)T;
        return end <= 0 ? 0 : end < (long long)S ? (unsigned)end : S;
    }

    // First query that sees key `j`; S or more, or the window's end or more, if none does.
    __device__ __forceinline__ unsigned first_query(unsigned j) const {
        if constexpr (SEQUENCES > 0) return CAUSAL ? j : sequence_of(j).first;
        if constexpr (!CAUSAL) return 0;
        const long long first = (long long)j + (long long)S - (long long)T;
        return first <= 0 ? 0 : (unsigned)first;
    }

    // Number of keys of a head of queries.
    __device__ __forceinline__ unsigned keys_of(u64 head) const {
        if constexpr (!OWN_LENGTHS || SEQUENCES > 0) return T;
        return min(lengths[head / ITEM_HEADS], T);
    }

    // Number of keys visible to query `i` of a head.
    __device__ __forceinline__ unsigned seen_keys(u64 head, unsigned i) const {
        return min(visible_keys(i), keys_of(head));
    }

    // Whether query `i` of a head sees a key.
    __device__ __forceinline__ bool sees(u64 head, unsigned i, unsigned key) const {
        return key >= window_start(i) && key < seen_keys(head, i);
    }

    // Keys that query `i` of a head sees.
    __device__ __forceinline__ Range keys_seen(u64 head, unsigned i) const { return {window_start(i), seen_keys(head, i)}; }

    // Queries that see key `j` by causal mask, window and sequence.
    __device__ __forceinline__ Range queries_seeing(unsigned j) const { return {first_query(j), window_end(j)}; }

    // Score plus mask, in multiples of this unit: -inf for hidden keys.
    __device__ __forceinline__ float biased(float score, unsigned query, unsigned key, float unit) const {
        if constexpr (!BIASED) return score;
        if (query >= S || key >= T) return score;
        const float bias = load(mask[(u64)query * T + key]);
        // Finite values are clamped where scores could become infinite. A maximum would lose NaN.
        return bias == negative_infinity() ? bias : fmaf(bias < -2e38f ? -2e38f : bias, unit, score);
    }
};

// Base of exponents. While a row has seen no key, its maximum is -inf; a base of zero avoids inf - inf.
__device__ __forceinline__ float base_of(float highest) { return highest == negative_infinity() ? 0.0f : highest; }
