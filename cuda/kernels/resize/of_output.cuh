// Pixel of a resized image, for `count` neighbouring channels. The definition is in core/workloads/src/ops/resize/mod.rs.

#include "resize/taps.cuh"

// The second does not count at a weight of zero, even if it is NaN.
__device__ __forceinline__ float blend(float weight, float first, float second) {
    return weight == 0.0f ? first : (1.0f - weight) * first + weight * second;
}

template <unsigned count>
__device__ __forceinline__ void of_row(const elem* __restrict__ x, const Element& own, unsigned row,
                                       const Taps& columns, float (&value)[count]) {
    const auto left = neighbours<count>(x, position(own, row, columns.first, H, W));
#pragma unroll
    for (unsigned c = 0; c < count; c++) value[c] = load(left.at[c]);
    if constexpr (!NEAREST) {
        const auto right = neighbours<count>(x, position(own, row, columns.second, H, W));
#pragma unroll
        for (unsigned c = 0; c < count; c++) {
            value[c] = blend(columns.weight, value[c], load(right.at[c]));
        }
    }
}

template <unsigned count>
__device__ __forceinline__ void of_output(const elem* __restrict__ x, const Element& own, float (&value)[count]) {
    const Taps rows = taps(own.row, H, OH), columns = taps(own.column, W, OW);
    of_row(x, own, rows.first, columns, value);
    if constexpr (!NEAREST) {
        float lower[count];
        of_row(x, own, rows.second, columns, lower);
#pragma unroll
        for (unsigned c = 0; c < count; c++) value[c] = blend(rows.weight, value[c], lower[c]);
    }
}
