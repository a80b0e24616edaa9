// Shared by the variants of attention: the mask, aligned to the last key.

// Number of keys that query `i` sees.
__device__ __forceinline__ unsigned visible_keys(unsigned i) {
    if constexpr (!CAUSAL) return T;
    const long long seen = (long long)i + 1 + (long long)T - (long long)S;
    return seen <= 0 ? 0 : seen < (long long)T ? (unsigned)seen : T;
}
