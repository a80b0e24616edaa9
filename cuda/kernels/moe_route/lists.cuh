// Lists of LIST entries in the order of choice, for 1, 2, 4 and 8.

#include "moe_route/entries.cuh"

struct List {
    entry at[LIST];
};

// Puts two entries of a list in order.
__device__ __forceinline__ void exchange(List& x, unsigned i, unsigned j) {
    const entry first = earlier(x.at[i], x.at[j]);
    x.at[j] = later(x.at[i], x.at[j]);
    x.at[i] = first;
}

// Puts pairs in order: each of `count` entries from `first` on, and the one `apart` behind it.
template <unsigned first, unsigned apart, unsigned count>
__device__ __forceinline__ void exchange_each(List& x) {
#pragma unroll
    for (unsigned i = first; i < first + count; i++) exchange(x, i, i + apart);
}

// Sorts a list by a network of least exchanges.
__device__ __forceinline__ void put_in_order(List& x) {
    if constexpr (LIST == 2) exchange(x, 0, 1);
    if constexpr (LIST == 4) {
        exchange_each<0, 2, 2>(x);
        exchange(x, 0, 1);
        exchange(x, 2, 3);
        exchange(x, 1, 2);
    }
    if constexpr (LIST == 8) {
        exchange_each<0, 2, 2>(x);
        exchange_each<4, 2, 2>(x);
        exchange_each<0, 4, 4>(x);
#pragma unroll
        for (unsigned i = 0; i < 8; i += 2) exchange(x, i, i + 1);
        exchange_each<2, 2, 2>(x);
        exchange(x, 1, 4);
        exchange(x, 3, 6);
#pragma unroll
        for (unsigned i = 1; i < 7; i += 2) exchange(x, i, i + 1);
    }
}

// Puts the first entries of two sorted lists into the first list, sorted. The earlier one of each pair from opposite ends is one of
// them (Batcher 1968).
__device__ __forceinline__ void merge(List& x, const List& other) {
#pragma unroll
    for (unsigned i = 0; i < LIST; i++) x.at[i] = earlier(x.at[i], other.at[LIST - 1 - i]);
    if constexpr (LIST == 8) exchange_each<0, 4, 4>(x);
    if constexpr (LIST >= 4) {
#pragma unroll
        for (unsigned i = 0; i < LIST; i += 4) {
            exchange(x, i, i + 2);
            exchange(x, i + 1, i + 3);
        }
    }
    if constexpr (LIST >= 2) {
#pragma unroll
        for (unsigned i = 0; i < LIST; i += 2) exchange(x, i, i + 1);
    }
}
