// Gradient of a pixel from those of its outputs, for `count` neighbouring channels. The definition is in
// core/workloads/src/ops/resize/backward.rs.

#include "resize/taps.cuh"

template <unsigned count>
__device__ __forceinline__ void of_pixel(const elem* __restrict__ dout, const Element& own, float (&sum)[count]) {
    const Span rows = around(own.row, H, OH), columns = around(own.column, W, OW);
#pragma unroll
    for (unsigned c = 0; c < count; c++) sum[c] = 0.0f;
    for (unsigned y = rows.begin; y < rows.end; y++) {
        const float down = weight_in(own.row, y, H, OH);
        for (unsigned x = columns.begin; x < columns.end; x++) {
            const float weight = down * weight_in(own.column, x, W, OW);
            const auto all = neighbours<count>(dout, position(own, y, x, OH, OW));
#pragma unroll
            for (unsigned c = 0; c < count; c++) sum[c] += weight * load(all.at[c]);
        }
    }
}
