// Gradient of the filters, one weight per thread, summed over all images and positions. The definition is in
// core/workloads/src/ops/conv2d/backward.rs.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_direct_weights(const elem* __restrict__ source, const elem* __restrict__ gradient, elem* __restrict__ weights) {
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)GROUPS * TO_C * FROM_C * TAPS) return;
    const unsigned at = (unsigned)index, m = at / (FROM_C * TAPS), group = m / TO_C;
    const unsigned c = LAST ? at % FROM_C : at / TAPS % FROM_C, tap = LAST ? at / FROM_C % TAPS : at % TAPS;
    const uint3 by = tap_at(tap);
    float sum = 0.0f;
    for (unsigned position = 0; position < TO; position++) {
        const Under found = under(known_of(position), by);
        if (!found.there) continue;
        for (unsigned image = 0; image < IMAGES; image++) {
            sum = fmaf(load(source[source_at(group, c, image, found.position)]),
                       load(gradient[result_at(group, m % TO_C, image, position)]), sum);
        }
    }
    weights[at] = to_elem(sum);
}
