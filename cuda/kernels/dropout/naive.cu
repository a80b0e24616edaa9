// Dropout, one element per thread. The definition is in core/workloads/src/ops/dropout.

#include "lib/launch.cuh"
#include "lib/philox.cuh"

extern "C" __global__ void dropout_naive(const elem* __restrict__ x, const unsigned* __restrict__ seed,
                                         elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const uint4 drawn = philox(make_uint4((unsigned)(at / 4), 0, 0, 0), make_uint2(seed[0], seed[1]));
    const unsigned words[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
    out[at] = to_elem(words[at % 4] >= THRESHOLD ? FACTOR * load(x[at]) : 0.0f);
}
