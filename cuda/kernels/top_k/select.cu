// The K largest of each row, by a block, from the largest keys of its groups in device memory. The definition is in
// core/workloads/src/ops/top_k.rs.

#include "top_k/select.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 5 : 2)
    top_k_select(const elem* __restrict__ x, const unsigned* __restrict__ maxima, elem* __restrict__ values,
                 unsigned* __restrict__ indices) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const unsigned* const own = maxima + row * GROUPS;
    select_row(x + row * COLUMNS, [&](unsigned group) { return __ldg(own + group); }, values + row * K, indices + row * K);
}
