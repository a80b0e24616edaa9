// Rows of queries beside a shared prefix, in place of attention_decode/cache alone.
//
// A stage has SETS sets of rows for each head of keys, and tokens from FIRST to before LAST: rows of one sequence each, or those of
// all sequences. Its parts follow FIRST_PART others of ALL_PARTS.

#include "attention_decode/cache.cuh"

// Row of the output that is number `i` of a set, whose first row is `base`: sequence by sequence.
__device__ __forceinline__ u64 row_of(u64 base, unsigned i) {
    constexpr unsigned group = HEADS / KEY_HEADS;
    return base + i / group * HEADS + i % group;
}

// Tokens of a row's sequence. Rows past the set have those of its last.
__device__ __forceinline__ unsigned tokens_of(const unsigned* __restrict__ lengths, u64 base, unsigned i) {
    return lengths[row_of(base, min(i, ROWS_OF_HEAD - 1)) / HEADS];
}

// Rows of a set from number `first` on.
struct Rows {
    const elem* q;
    u64 base;
    unsigned first;
};

// Two neighbours of a query, zeros past the rows and past its end.
__device__ __forceinline__ unsigned query_pair(const Rows& rows, unsigned count, unsigned i, unsigned column) {
    if (i >= count || column >= D) return 0;
    return *reinterpret_cast<const unsigned*>(rows.q + row_of(rows.base, rows.first + i) * D + column);
}
