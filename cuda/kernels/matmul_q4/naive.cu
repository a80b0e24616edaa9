// GEMM with weights of 4 bits, one output element per thread. The definition is in core/workloads/src/ops/matmul_q4.rs.

#include "lib/launch.cuh"
#include "matmul_q4/groups.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_q4_naive(const elem* __restrict__ a, const unsigned* __restrict__ b, const unsigned* __restrict__ zero,
                    const elem* __restrict__ scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 index = flat_workgroup();
    const u64 row = index / across * 16 + threadIdx.y, col = index % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < WORDS; i++) {
        const unsigned group = i / GROUP_WORDS;
        const float point = (float)zero_point(zero, col, group), factor = load(scale[col * GROUPS + group]);
        const unsigned word = b[col * WORDS + i];
        const elem* const left = a + (row * WORDS + i) * 8;
#pragma unroll
        for (unsigned place = 0; place < 8; place++) {
            sum = fmaf(load(left[place]), ((float)(word >> (4 * place) & 15) - point) * factor, sum);
        }
    }
    c[row * N + col] = to_elem(sum);
}
