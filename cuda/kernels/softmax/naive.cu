// Softmax of rows and its backward pass, one block of ROW_THREADS per row, one element at a time. The definition is in
// core/workloads/src/ops/softmax.
//
// softmax_naive           three passes over the row: maximum, sum, result
// softmax_backward_naive  two passes: the sum of y * dout, the gradient

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void softmax_naive(const elem* __restrict__ x, elem* __restrict__ out) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float top = negative_infinity();
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) top = fmaxf(top, load(x[base + j]));
    top = block_max(top, partial);
    float sum = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) sum += expf(load(x[base + j]) - top);
    sum = block_sum(sum, partial);
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        out[base + j] = to_elem(expf(load(x[base + j]) - top) / sum);
    }
}

extern "C" __global__ void softmax_backward_naive(const elem* __restrict__ y, const elem* __restrict__ dout,
                                                  elem* __restrict__ dx) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float dot = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) dot = fmaf(load(y[base + j]), load(dout[base + j]), dot);
    dot = block_sum(dot, partial);
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        dx[base + j] = to_elem(load(y[base + j]) * (load(dout[base + j]) - dot));
    }
}
