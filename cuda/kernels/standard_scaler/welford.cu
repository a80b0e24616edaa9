// Means of strips, and sums of squared distances from them, column by column. The definition is in
// core/workloads/src/ops/standard_scaler.rs.
//
// A thread loads eight rows at a time. Their mean, and the squared distances from it, are merged with those of its earlier rows.
// The number of rows of a thread follows from its place, and is the same for all columns. The threads of a column are merged at
// the end.

#include "standard_scaler/place.cuh"

constexpr unsigned block = 8;

extern "C" __global__ void __launch_bounds__(THREADS)
    standard_scaler_welford(const elem* __restrict__ x, float* __restrict__ parts) {
    __shared__ piece means[THREADS], square_sums[THREADS];
    if (beyond_all()) return;
    const Place place = place_of();
    float count = 0.0f;
    piece middle = piece_of(0.0f), around = piece_of(0.0f);
    if (place.piece_at < row_pieces) {
        for (unsigned row = place.begin + threadIdx.x / LANES; row < place.end; row += block * rows_at_once) {
            const unsigned here = min(block, (place.end - row + rows_at_once - 1) / rows_at_once);
            stored own[block];
#pragma unroll
            for (unsigned i = 0; i < block; i++) {
                // Rows beyond the strip are not counted: the first row is read again.
                const u64 from = row + (i < here ? i * rows_at_once : 0);
                own[i] = load_stored(x, from * row_pieces + place.piece_at);
            }
            const float more = (float)here, all = count + more, share = __fdividef(more, all);
            const float one = __fdividef(1.0f, more), both = count * share;
#pragma unroll
            for (unsigned column = 0; column < WIDTH; column++) {
                float sum = 0.0f, spread = 0.0f;
#pragma unroll
                for (unsigned i = 0; i < block; i++) sum += i < here ? load(own[i].at[column]) : 0.0f;
                const float their = sum * one;
#pragma unroll
                for (unsigned i = 0; i < block; i++) {
                    const float far = load(own[i].at[column]) - their;
                    spread += i < here ? far * far : 0.0f;
                }
                const float apart = their - middle.at[column];
                middle.at[column] += apart * share;
                around.at[column] += spread + apart * apart * both;
            }
            count = all;
        }
    }
    means[threadIdx.x] = middle;
    square_sums[threadIdx.x] = around;
    __syncthreads();
    if (threadIdx.x >= LANES || place.piece_at >= row_pieces) return;
    const unsigned rows = place.end - place.begin;
    for (unsigned down = 1; down < min(rows_at_once, rows); down++) {
        // Rows of that thread.
        const float more = (float)((rows - down + rows_at_once - 1) / rows_at_once), all = count + more;
        const float share = more / all, both = count * share;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) {
            const float apart = means[down * LANES + threadIdx.x].at[i] - middle.at[i];
            middle.at[i] += apart * share;
            around.at[i] += square_sums[down * LANES + threadIdx.x].at[i] + apart * apart * both;
        }
        count = all;
    }
    store_floats(parts, 2 * (u64)place.part * row_pieces + place.piece_at, middle);
    store_floats(parts, (2 * (u64)place.part + 1) * row_pieces + place.piece_at, around);
}
