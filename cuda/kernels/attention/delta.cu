// First stage of attention's backward passes. The definition is in core/workloads/src/ops/attention.
//
// attention_delta  delta = dout . out, by LANES neighbouring threads per row

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void attention_delta(float* __restrict__ delta, const elem* __restrict__ dout,
                                           const elem* __restrict__ out) {
    const u64 row = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    float sum = 0.0f;
    if (row < (u64)HEADS * S) {
        for (unsigned x = threadIdx.x % LANES; x < D; x += LANES) {
            sum = fmaf(load(dout[row * D + x]), load(out[row * D + x]), sum);
        }
    }
    sum = lanes_sum(sum, LANES);
    if (row < (u64)HEADS * S && threadIdx.x % LANES == 0) delta[row] = sum;
}
