// Groups of weights with one scale and one zero point.

// Zero point of a group of a column.
__device__ __forceinline__ unsigned zero_point(const unsigned* __restrict__ zero, u64 col, unsigned group) {
    return zero[col * ZERO_WORDS + group / 8] >> (4 * (group % 8)) & 15;
}
