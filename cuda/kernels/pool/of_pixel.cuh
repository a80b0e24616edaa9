// Gradient of a pixel from those of its windows, for `count` neighbouring channels. The definition is in
// core/workloads/src/ops/pool/backward.rs.

#include "pool/window.cuh"

// `place` has the pixel that receives a window's gradient, where only one does.
template <unsigned count>
__device__ __forceinline__ void of_pixel(const elem* __restrict__ dout, const unsigned* __restrict__ place,
                                         const Element& own, float (&sum)[count]) {
    const Span rows = around(own.row, H, OH, KH), columns = around(own.column, W, OW, KW);
#pragma unroll
    for (unsigned c = 0; c < count; c++) sum[c] = 0.0f;
    for (unsigned y = rows.begin; y < rows.end; y++) {
        for (unsigned x = columns.begin; x < columns.end; x++) {
            const u64 at = position(own, y, x, OH, OW);
            const auto all = neighbours<count>(dout, at);
            if constexpr (LARGEST) {
                const auto chosen = neighbours<count>(place, at);
#pragma unroll
                for (unsigned c = 0; c < count; c++) {
                    sum[c] += chosen.at[c] == own.row * W + own.column ? load(all.at[c]) : 0.0f;
                }
            } else {
                unsigned pixels = KH * KW;
                if constexpr (ADAPTIVE) {
                    const Span i = window(y, H, OH, KH), j = window(x, W, OW, KW);
                    pixels = (i.end - i.begin) * (j.end - j.begin);
                }
#pragma unroll
                for (unsigned c = 0; c < count; c++) sum[c] += load(all.at[c]) / (float)pixels;
            }
        }
    }
}
