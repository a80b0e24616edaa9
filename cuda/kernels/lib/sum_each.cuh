// Sums of several values over lanes of a warp at once.

#include "lib/reduce.cuh"

// Sums `count` values over groups of `width` lanes, both powers of two. Each lane gets the sum of value `lane % width / (width /
// count)`: it gives half of its values away, keeps the other half, and so on.
template <unsigned count, unsigned width>
__device__ __forceinline__ float lanes_sum_of_each(const float (&x)[count]) {
    if constexpr (count == 1) {
        return lanes_sum(x[0], width);
    } else {
        constexpr unsigned half = count / 2, step = width / 2;
        const bool upper = (threadIdx.x & step) != 0;
        float fewer[half];
#pragma unroll
        for (unsigned i = 0; i < half; i++) {
            const float kept = upper ? x[i + half] : x[i], given = upper ? x[i] : x[i + half];
            fewer[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, step);
        }
        return lanes_sum_of_each<half, step>(fewer);
    }
}
