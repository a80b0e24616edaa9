// Layer normalisation of rows and its backward pass, one element at a time. The definition is in
// core/workloads/src/ops/layernorm.
//
// layernorm_statistics      one block of ROW_THREADS per row: the mean, then the deviation from it
// layernorm_apply           the same, and the result
// layernorm_backward_naive  the same: two means over the row, and the gradient of x
// layernorm_columns         one thread per column: the gradients of gamma and beta

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void layernorm_statistics(const elem* __restrict__ x, float* __restrict__ row_mean,
                                                float* __restrict__ row_rstd) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float sum = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) sum += load(x[base + j]);
    const float middle = block_sum(sum, partial) / COLUMNS;
    float square_sum = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const float deviation = load(x[base + j]) - middle;
        square_sum = fmaf(deviation, deviation, square_sum);
    }
    square_sum = block_sum(square_sum, partial);
    if (threadIdx.x == 0) {
        row_mean[row] = middle;
        row_rstd[row] = rsqrtf(square_sum / COLUMNS + EPS);
    }
}

extern "C" __global__ void layernorm_apply(const elem* __restrict__ x, const float* __restrict__ mean,
                                           const float* __restrict__ rstd, const elem* __restrict__ gamma,
                                           const elem* __restrict__ beta, elem* __restrict__ out) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const u64 at = row * COLUMNS + j;
        out[at] = to_elem(fmaf((load(x[at]) - mean[row]) * rstd[row], load(gamma[j]), load(beta[j])));
    }
}

extern "C" __global__ void layernorm_backward_naive(const elem* __restrict__ x, const float* __restrict__ mean,
                                                    const float* __restrict__ rstd, const elem* __restrict__ gamma,
                                                    const elem* __restrict__ dout, elem* __restrict__ dx) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float level = 0.0f, along = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const float gradient = load(dout[base + j]) * load(gamma[j]);
        level += gradient;
        along = fmaf(gradient, (load(x[base + j]) - mean[row]) * rstd[row], along);
    }
    level = block_sum(level, partial) / COLUMNS;
    along = block_sum(along, partial) / COLUMNS;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const float normalised = (load(x[base + j]) - mean[row]) * rstd[row];
        const float gradient = load(dout[base + j]) * load(gamma[j]);
        dx[base + j] = to_elem(rstd[row] * (gradient - level - normalised * along));
    }
}

extern "C" __global__ void layernorm_columns(const elem* __restrict__ x, const float* __restrict__ mean,
                                             const float* __restrict__ rstd, elem* __restrict__ dgamma,
                                             const elem* __restrict__ dout, elem* __restrict__ dbeta) {
    const u64 column = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (column >= COLUMNS) return;
    float along = 0.0f, level = 0.0f;
    for (unsigned row = 0; row < ROWS; row++) {
        const u64 at = (u64)row * COLUMNS + column;
        level += load(dout[at]);
        along = fmaf(load(dout[at]), (load(x[at]) - mean[row]) * rstd[row], along);
    }
    dgamma[column] = to_elem(along);
    dbeta[column] = to_elem(level);
}
