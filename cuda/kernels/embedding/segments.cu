// Gradients of rows, summed over items sorted by row. The definition is in core/workloads/src/ops/embedding/stages.rs.
//
// LANES threads process a stretch of STRETCH sorted items, with the pieces of several items in flight, and keep the current row's
// sum in registers. A row within the stretch is written to the table. The sum of a row that began in an earlier stretch goes to
// part 0. That of a row that continues in the next goes to part 1. Nothing is atomic.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

// Items in flight.
constexpr unsigned BATCH = 8;

// Winning items of the elements of a piece.
struct alignas(WIDTH * sizeof(unsigned)) numbers {
    unsigned at[WIDTH];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    embedding_segments(const unsigned* __restrict__ sorted, const unsigned* __restrict__ order,
                       const elem* __restrict__ dout, elem* __restrict__ dtable, float* __restrict__ parts
#if BAGS
    , const unsigned* __restrict__ bag
#endif
#if SCALED
    , const float* __restrict__ scale
#endif
#if PICKED
    , const unsigned* __restrict__ winner
#endif
    ) {
    const u64 group = flat_workgroup() * (THREADS / LANES) + threadIdx.x / LANES;
    if (group >= (u64)STRETCHES * ACROSS) return;
    const unsigned stretch = (unsigned)(group / ACROSS);
    const unsigned at = (unsigned)(group % ACROSS) * LANES + threadIdx.x % LANES;
    if (at >= PIECES) return;
    const unsigned first = stretch * STRETCH, end = min(ITEMS, first + STRETCH);

    unsigned row = sorted[first];
    // Whether its first item lies in an earlier stretch.
    bool entered = first > 0 && sorted[first - 1] == row;
    piece sum = piece_of(0.0f);
    for (unsigned item = first; item < end; item += BATCH) {
        unsigned rows[BATCH], from[BATCH];
        piece terms[BATCH];
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            const unsigned known = min(item + i, end - 1);
            rows[i] = sorted[known];
            from[i] = order[known];
        }
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
#if BAGS
            const unsigned source = bag[from[i]];
            const bool counts = source < SOURCES;
#else
            const unsigned source = from[i];
            constexpr bool counts = true;
#endif
            terms[i] = piece_of(0.0f);
            if (counts) {
                terms[i] = load_piece(dout, (u64)source * PIECES + at);
#if SCALED
                const float factor = scale[from[i]];
                for (unsigned x = 0; x < WIDTH; x++) terms[i].at[x] *= factor;
#endif
#if PICKED
                const numbers won = reinterpret_cast<const numbers*>(winner)[(u64)source * PIECES + at];
                for (unsigned x = 0; x < WIDTH; x++) terms[i].at[x] = won.at[x] == from[i] ? terms[i].at[x] : 0.0f;
#endif
            }
        }
#pragma unroll
        for (unsigned i = 0; i < BATCH; i++) {
            if (item + i >= end) break;
            if (rows[i] != row) {
                if (entered) {
                    store_floats(parts, (u64)stretch * 2 * PIECES + at, sum);
                } else {
                    store_piece(dtable, (u64)row * PIECES + at, sum);
                }
                entered = false;
                sum = piece_of(0.0f);
                row = rows[i];
            }
#pragma unroll
            for (unsigned x = 0; x < WIDTH; x++) sum.at[x] += terms[i].at[x];
        }
    }
    if (entered) {
        store_floats(parts, (u64)stretch * 2 * PIECES + at, sum);
    } else if (end < ITEMS && sorted[end] == row) {
        store_floats(parts, ((u64)stretch * 2 + 1) * PIECES + at, sum);
    } else {
        store_piece(dtable, (u64)row * PIECES + at, sum);
    }
}
