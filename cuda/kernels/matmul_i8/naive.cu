// int8 GEMM, one output element per thread, words read from device memory and multiplied number by number. The definition is in
// core/workloads/src/ops/matmul_i8.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_i8_naive(const unsigned* __restrict__ a, const unsigned* __restrict__ b, const float* __restrict__ a_scale,
                    const float* __restrict__ b_scale, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 index = flat_workgroup();
    const u64 row = index / across * 16 + threadIdx.y, col = index % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    int sum = 0;
    for (u64 i = 0; i < WORDS; i++) {
        const unsigned left = a[row * WORDS + i], right = b[col * WORDS + i];
#pragma unroll
        for (unsigned place = 0; place < 32; place += 8) {
            sum += (int)(signed char)(left >> place) * (int)(signed char)(right >> place);
        }
    }
    c[row * N + col] = to_elem(a_scale[row] * b_scale[col] * (float)sum);
}
