// Grouped GEMM, one output element per thread, which searches its row's group. The definition is in
// core/workloads/src/ops/grouped_matmul.

#include "lib/launch.cuh"
#include "grouped_matmul/groups.cuh"

extern "C" __global__ void __launch_bounds__(256)
    grouped_matmul_naive(const elem* __restrict__ a, const unsigned* __restrict__ offsets, const elem* __restrict__ b,
                         elem* __restrict__ c) {
    constexpr unsigned across = (N + 15) / 16;
    const u64 index = flat_workgroup();
    const u64 row = index / across * 16 + threadIdx.y, col = index % across * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    // The last group that begins at the row or before.
    unsigned group = 0;
    for (unsigned end = GROUPS; group + 1 < end;) {
        const unsigned middle = group + (end - group) / 2;
        if (begin_of(offsets, middle) <= row) {
            group = middle;
        } else {
            end = middle;
        }
    }
    b += (u64)group * K * N;
    float sum = 0.0f;
    for (unsigned i = 0; i < K; i++) sum = fmaf(load(a[row * K + i]), load(b[(u64)i * N + col]), sum);
    c[row * N + col] = to_elem(sum);
}
