// Copies of 16 bytes, as bits, for any element type.

#include "lib/elem.cuh"

// Elements in 16 bytes, and number of such vectors in the array.
constexpr unsigned per_vector = 16 / sizeof(elem);
constexpr unsigned whole_vectors = N / per_vector;

__device__ __forceinline__ uint4 load_vector(const elem* __restrict__ x, u64 index) {
    return reinterpret_cast<const uint4*>(x)[index];
}

__device__ __forceinline__ void store_vector(elem* __restrict__ out, u64 index, uint4 vector) {
    reinterpret_cast<uint4*>(out)[index] = vector;
}

// Copies the elements after the last vector, by the thread of the next index.
__device__ __forceinline__ void copy_rest(const elem* __restrict__ x, elem* __restrict__ out, u64 index) {
    if (index != whole_vectors) return;
    for (u64 i = index * per_vector; i < N; i++) out[i] = x[i];
}
