// Shared by the variants of copy that move 16 bytes at a time, as bits, whatever the element type.

#include "lib/elem.cuh"

// Elements in 16 bytes, and how many times that fits into the array.
constexpr unsigned per_vector = 16 / sizeof(elem);
constexpr unsigned whole_vectors = N / per_vector;

__device__ __forceinline__ uint4 load_vector(const elem* __restrict__ x, u64 index) {
    return reinterpret_cast<const uint4*>(x)[index];
}

__device__ __forceinline__ void store_vector(elem* __restrict__ out, u64 index, uint4 vector) {
    reinterpret_cast<uint4*>(out)[index] = vector;
}

// The elements after the last whole vector, by the thread whose vector that would be.
__device__ __forceinline__ void copy_rest(const elem* __restrict__ x, elem* __restrict__ out, u64 index) {
    if (index != whole_vectors) return;
    for (u64 i = index * per_vector; i < N; i++) out[i] = x[i];
}
