// Result of a window, for `count` neighbouring channels. The definition is in core/workloads/src/ops/pool/mod.rs.

#include "pool/window.cuh"

template <unsigned count>
__device__ __forceinline__ void of_window(const elem* __restrict__ x, const Element& own, float (&value)[count]) {
    const Span rows = window(own.row, H, OH, KH), columns = window(own.column, W, OW, KW);
    // Padding takes no part in a maximum.
#pragma unroll
    for (unsigned c = 0; c < count; c++) value[c] = LARGEST ? negative_infinity() : 0.0f;
    for (unsigned i = rows.begin; i < rows.end; i++) {
#pragma unroll 4
        for (unsigned j = columns.begin; j < columns.end; j++) {
            const auto pixel = neighbours<count>(x, position(own, i, j, H, W));
#pragma unroll
            for (unsigned c = 0; c < count; c++) {
                const float more = load(pixel.at[c]);
                value[c] = LARGEST ? maximum(value[c], more) : value[c] + more;
            }
        }
    }
    if constexpr (LARGEST) return;
    const unsigned pixels = ADAPTIVE ? (rows.end - rows.begin) * (columns.end - columns.begin) : KH * KW;
#pragma unroll
    for (unsigned c = 0; c < count; c++) value[c] /= (float)pixels;
}
