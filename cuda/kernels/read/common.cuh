// Parts of the variants of read: widening a vector of 16 bytes, the end of the array, and the sum of a block.

#include "lib/elem.cuh"
#include "lib/reduce.cuh"

// Adds the elements of 16 bytes, widened, to four sums.
__device__ __forceinline__ void add_vector(float4& sum, const uint4 vector) {
#if defined(ELEM_F32)
    sum.x += __uint_as_float(vector.x);
    sum.y += __uint_as_float(vector.y);
    sum.z += __uint_as_float(vector.z);
    sum.w += __uint_as_float(vector.w);
#else
    // Lower and upper element of a word.
    const auto low = [](unsigned word) { return load(elem{(unsigned short)word}); };
    const auto high = [](unsigned word) { return load(elem{(unsigned short)(word >> 16)}); };
    sum.x += low(vector.x) + low(vector.z);
    sum.y += high(vector.x) + high(vector.z);
    sum.z += low(vector.y) + low(vector.w);
    sum.w += high(vector.y) + high(vector.w);
#endif
}

__device__ __forceinline__ uint4 load_vector(const elem* __restrict__ x, u64 index) {
    return reinterpret_cast<const uint4*>(x)[index];
}

// Adds a vector that may reach past the last element, element by element.
__device__ __forceinline__ void add_last_vector(float4& sum, const elem* __restrict__ x, u64 index) {
    const u64 begin = index * PER_VECTOR;
    for (u64 i = begin; i < begin + PER_VECTOR && i < N; i += 4) {
        sum.x += load(x[i]);
        if (i + 1 < N) sum.y += load(x[i + 1]);
        if (i + 2 < N) sum.z += load(x[i + 2]);
        if (i + 3 < N) sum.w += load(x[i + 3]);
    }
}

// Stores the sum of all threads' numbers.
__device__ __forceinline__ void write_sum(float* __restrict__ out, u64 chunk, const float4 mine) {
    __shared__ float partial[THREADS / 32];
    const float sum = block_sum((mine.x + mine.y) + (mine.z + mine.w), partial);
    if (threadIdx.x == 0) out[chunk] = sum;
}
