// GEMM, one output element per thread, every factor read from device memory. The definition is in
// core/workloads/src/ops/matmul.

#include "lib/launch.cuh"
#include "lib/product.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_naive(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16, down = (M + 15) / 16;
    const u64 index = flat_workgroup(), batch = index / ((u64)across * down);
    const u64 tile = index % ((u64)across * down);
    const u64 row = tile / across * 16 + threadIdx.y, col = tile % across * 16 + threadIdx.x;
    if (batch >= BATCH || row >= M || col >= N) return;
    a += batch * a_elements;
    b += batch * b_elements;
    float sum = 0.0f;
    for (u64 i = 0; i < K; i++) {
        const u64 left = A_TRANSPOSED ? i * M + row : row * K + i, right = B_TRANSPOSED ? col * K + i : i * N + col;
        sum = fmaf(load(a[left]), load(b[right]), sum);
    }
    c[batch * c_elements + row * N + col] = to_elem(sum);
}
