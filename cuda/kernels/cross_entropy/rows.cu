// Cross-entropy of rows, in pieces: see lib/rows.cuh. The definition is in core/workloads/src/ops/cross_entropy.
//
// cross_entropy_online       one pass over a row; each thread keeps a running maximum and sum
// cross_entropy_log_softmax  the same, and a second pass that stores the logarithm of each weight
// cross_entropy_row          the row stays in registers, PIECES pieces in each of LANES threads

#include "lib/exponential.cuh"
#include "lib/rows.cuh"

// Pieces of a thread in flight, in one pass over a row.
constexpr unsigned BATCH = 4;

// Logarithm of the sum of a row's exponentials, by all threads of the block.
__device__ __forceinline__ float log_sum(const elem* __restrict__ logits, u64 base) {
    // A thread may have no piece, or only minus infinity.
    float top = LOWEST;
    float sum = 0.0f;
    for (unsigned first = threadIdx.x; first < row_pieces; first += BATCH * LANES) {
        stored own[BATCH];
#pragma unroll
        for (unsigned k = 0; k < BATCH; k++) {
            if (first + k * LANES < row_pieces) own[k] = load_stored(logits, base + first + k * LANES);
        }
        float higher = top;
#pragma unroll
        for (unsigned k = 0; k < BATCH; k++) {
            if (first + k * LANES >= row_pieces) continue;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) higher = fmaxf(higher, load(own[k].at[i]));
        }
        sum *= exponential(top - higher);
#pragma unroll
        for (unsigned k = 0; k < BATCH; k++) {
            if (first + k * LANES >= row_pieces) continue;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) sum += exponential(load(own[k].at[i]) - higher);
        }
        top = higher;
    }
    const float row_top = row_max(top);
    return row_top + logf(row_sum(sum * exponential(top - row_top)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_online(const elem* __restrict__ logits, float* __restrict__ lse, float* __restrict__ loss,
                         const unsigned* __restrict__ targets) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const float total = log_sum(logits, row * row_pieces);
    if (threadIdx.x == 0) {
        lse[row] = total;
        loss[row] = total - load(logits[row * COLUMNS + targets[row]]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_log_softmax(const elem* __restrict__ logits, float* __restrict__ lse,
                              float* __restrict__ log_softmax) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * row_pieces;
    const float total = log_sum(logits, base);
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < row_pieces; at += LANES) {
        piece value = load_piece(logits, base + at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) value.at[i] -= total;
        store_floats(log_softmax, base + at, value);
    }
    if (threadIdx.x == 0) lse[row] = total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_row(const elem* __restrict__ logits, float* __restrict__ lse, float* __restrict__ loss,
                      const unsigned* __restrict__ targets) {
    const u64 row = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in the reductions.
    piece kept[PIECES];
    float top = negative_infinity();
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        kept[k] = row < ROWS && at < row_pieces ? load_piece(logits, base + at) : piece_of(negative_infinity());
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) top = fmaxf(top, kept[k].at[i]);
    }
    top = row_max(top);
    float sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += exponential(kept[k].at[i] - top);
    }
    const float total = top + logf(row_sum(sum));
    if (row < ROWS && lane == 0) {
        lse[row] = total;
        loss[row] = total - load(logits[row * COLUMNS + targets[row]]);
    }
}
