// Index in its channel of each window's maximum, for its gradient: the first of the largest pixels, or the last NaN. The
// definition is in core/workloads/src/ops/pool/backward.rs.

#include "pool/window.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    pool_place(const elem* __restrict__ x, unsigned* __restrict__ place) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const Element own = split(at, OH, OW);
    const Span rows = window(own.row, H, OH, KH), columns = window(own.column, W, OW, KW);
    unsigned found = rows.begin * W + columns.begin;
    float largest = load(x[position(own, rows.begin, columns.begin, H, W)]);
    for (unsigned i = rows.begin; i < rows.end; i++) {
        for (unsigned j = columns.begin; j < columns.end; j++) {
            const float value = load(x[position(own, i, j, H, W)]);
            if (value > largest || is_nan(value)) {
                largest = value;
                found = i * W + j;
            }
        }
    }
    place[at] = found;
}
