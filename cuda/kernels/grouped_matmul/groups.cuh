// Groups of rows. Group `g` begins at `offsets[g]`; the first begins at 0, and the last ends at M.

__device__ __forceinline__ unsigned begin_of(const unsigned* __restrict__ offsets, unsigned group) {
    return group == 0 ? 0 : group >= GROUPS ? M : min(offsets[group], M);
}
