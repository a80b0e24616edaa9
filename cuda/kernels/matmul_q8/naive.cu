// GEMM with weights of 8 bits, one output element per thread. The definition is in core/workloads/src/ops/matmul_q8.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_q8_naive(const elem* __restrict__ a, const unsigned* __restrict__ b, const elem* __restrict__ scale,
                    elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 index = flat_workgroup();
    const u64 row = index / across * 16 + threadIdx.y, col = index % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < WORDS; i++) {
        const float factor = load(scale[col * GROUPS + i / GROUP_WORDS]);
        const unsigned word = b[col * WORDS + i];
        const elem* const left = a + (row * WORDS + i) * 4;
#pragma unroll
        for (unsigned place = 0; place < 4; place++) {
            const float weight = (float)((int)(word << (24 - 8 * place)) >> 24);
            sum = fmaf(load(left[place]), weight * factor, sum);
        }
    }
    c[row * N + col] = to_elem(sum);
}
