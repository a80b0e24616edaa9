// fp8 GEMM, one output element per thread, words read from device memory and decoded code by code. The definition is in
// core/workloads/src/ops/matmul_f8.

#include "matmul_f8/codes.cuh"

// Words of a part, whose products have one scale.
constexpr unsigned PART_WORDS = SPAN / 4;

extern "C" __global__ void __launch_bounds__(256)
    matmul_f8_naive(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                    const float* __restrict__ b_scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 index = flat_workgroup();
    const u64 row = index / across * 16 + threadIdx.y, col = index % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (unsigned part = 0; part < PARTS; part++) {
        float of_part = 0.0f;
        for (unsigned i = part * PART_WORDS; i < min((part + 1) * PART_WORDS, WORDS); i++) {
            const unsigned left = a[row * WORDS + i], right = b[col * WORDS + i];
#pragma unroll
            for (unsigned place = 0; place < 32; place += 8) {
                of_part = fmaf(decoded_of_a(left >> place), decoded(right >> place), of_part);
            }
        }
        sum = fmaf(of_part, scale_of_a(a_scale, row, part) * scale_of_b(b_scale, col, part), sum);
    }
    c[row * N + col] = to_elem(sum);
}
