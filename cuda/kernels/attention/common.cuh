// Shared by the variants of attention: the mask, aligned to the last key. Of the HEADS heads of queries, each GROUP
// neighbours have one head of keys and values.

// Number of keys that query `i` sees.
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
