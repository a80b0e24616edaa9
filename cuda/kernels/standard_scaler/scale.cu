// Columns scaled by what is known of them, by strips: each thread keeps the mean and the factor of its columns. The definition is
// in core/src/suite/workloads/standard_scaler.rs.

#include "standard_scaler/place.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    standard_scaler_scale(const elem* __restrict__ x, const float* __restrict__ mean,
                          const float* __restrict__ variance, elem* __restrict__ out) {
    if (beyond_all()) return;
    const Place place = place_of();
    if (place.piece_at >= row_pieces) return;
    const piece middle = load_floats(mean, place.piece_at);
    piece factor = load_floats(variance, place.piece_at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) factor.at[i] = 1.0f / sqrtf(factor.at[i] + EPS);
    const unsigned first = place.begin + threadIdx.x / LANES;
    constexpr unsigned turn = 4;
    for (unsigned row = first; row < place.end; row += turn * rows_at_once) {
        stored from[turn];
#pragma unroll
        for (unsigned k = 0; k < turn; k++) {
            const unsigned at = row + k * rows_at_once;
            if (at < place.end) from[k] = load_stored(x, (u64)at * row_pieces + place.piece_at);
        }
#pragma unroll
        for (unsigned k = 0; k < turn; k++) {
            const unsigned at = row + k * rows_at_once;
            if (at >= place.end) break;
            piece own = widened(from[k]);
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) own.at[i] = (own.at[i] - middle.at[i]) * factor.at[i];
            store_piece(out, (u64)at * row_pieces + place.piece_at, own);
        }
    }
}
