// Matrix product, one output element per thread, every factor read from device memory. The definition is in
// core/src/suite/workloads/matmul.rs.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_naive(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 tile = flat_workgroup();
    const u64 row = tile / across * 16 + threadIdx.y, col = tile % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < K; i++) sum = fmaf(load(a[row * K + i]), load(b[(u64)i * N + col]), sum);
    c[row * N + col] = to_elem(sum);
}
