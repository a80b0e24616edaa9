// Convolution, one element of the result per thread, every factor read from device memory. The definition is in
// core/workloads/src/ops/conv2d.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_direct(const elem* __restrict__ source, const elem* __restrict__ w, elem* __restrict__ result
#if BIAS
    , const elem* __restrict__ bias
#endif
#if NORMALISED
    , const float* __restrict__ mean, const float* __restrict__ variance
    , const elem* __restrict__ gamma, const elem* __restrict__ beta
#endif
    ) {
#if !BIAS
    const elem* const bias = nullptr;
#endif
#if NORMALISED
    const Epilogue epilogue{bias, mean, variance, gamma, beta};
#else
    const Epilogue epilogue{bias};
#endif
    const u64 index = flat_workgroup() * THREADS + threadIdx.x;
    if (index >= (u64)IMAGES * GROUPS * TO_C * TO) return;
    const unsigned at = (unsigned)index;
    constexpr unsigned channels = GROUPS * TO_C;
    const unsigned channel = LAST ? at % channels : at / TO % channels;
    const unsigned column = LAST ? at / channels : at / (channels * TO) * TO + at % TO;
    const unsigned group = channel / TO_C;
    const Known known = known_of(column);
    float sum = 0.0f;
    for (unsigned tap = 0; tap < TAPS; tap++) {
        const Under found = under(known, tap_at(tap));
        if (!found.there) continue;
        for (unsigned from = 0; from < FROM_C; from++) {
            sum = fmaf(load(source[source_at(group, from, known.image, found.position)]),
                       load(w[weight_at(group, channel % TO_C, from, tap)]), sum);
        }
    }
    result[at] = to_elem(epilogue(channel, sum));
}
