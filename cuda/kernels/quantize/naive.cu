// Codes of 8 bits with scales, a group per thread. The definition is in core/workloads/src/ops/quantize.rs.

#include "quantize/codes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    quantize_naive(const elem* __restrict__ x, unsigned* __restrict__ codes, float* __restrict__ scale) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)ROWS * GROUPS) return;
    const unsigned first = (unsigned)(index % GROUPS) * G, count = min(G, C - first);
    const u64 start = index / GROUPS * C + first;
    unsigned largest = 0;
    for (unsigned i = 0; i < count; i++) largest = max(largest, magnitude(load(x[start + i])));
    const float found = scale_of(largest), inverse = inverse_of(found);
    scale[index] = found;
    for (unsigned i = 0; i < count; i += 4) {
        const float four[4] = {load(x[start + i]), load(x[start + i + 1]), load(x[start + i + 2]), load(x[start + i + 3])};
        codes[(start + i) / 4] = not_finite(largest) ? 0 : word_of(four, inverse);
    }
}
