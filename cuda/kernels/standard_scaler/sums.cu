// Sums over the rows of strips, column by column. The definition is in core/workloads/src/ops/standard_scaler.rs.
//
// standard_scaler_sums     sums of the elements
// standard_scaler_squares  sums of the squared distances from the mean

#include "lib/over_rows.cuh"
#include "standard_scaler/place.cuh"

template <typename Term>
__device__ __forceinline__ void store_sums(const elem* __restrict__ x, float* __restrict__ parts, const Place place,
                                           Term term) {
    piece sums = piece_of(0.0f);
    if (place.piece_at < row_pieces) {
#pragma unroll 8
        for (unsigned row = place.begin + threadIdx.x / LANES; row < place.end; row += rows_at_once) {
            const piece own = load_piece(x, (u64)row * row_pieces + place.piece_at);
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) sums.at[i] += term(own.at[i], i);
        }
    }
    store_part(parts + (u64)place.part * COLUMNS, sums, place.piece_at);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    standard_scaler_sums(const elem* __restrict__ x, float* __restrict__ parts) {
    if (beyond_all()) return;
    store_sums(x, parts, place_of(), [](float own, unsigned) { return own; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    standard_scaler_squares(const elem* __restrict__ x, float* __restrict__ parts, const float* __restrict__ mean) {
    if (beyond_all()) return;
    const Place place = place_of();
    const piece middle = place.piece_at < row_pieces ? load_floats(mean, place.piece_at) : piece_of(0.0f);
    store_sums(x, parts, place, [&](float own, unsigned i) { return (own - middle.at[i]) * (own - middle.at[i]); });
}
