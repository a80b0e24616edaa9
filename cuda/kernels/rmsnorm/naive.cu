// RMS normalisation of rows and its backward pass, one element at a time. The definition is in core/workloads/src/ops/rmsnorm.
//
// rmsnorm_statistics      one block of ROW_THREADS per row: the normalising factor
// rmsnorm_naive           the same, and a second pass: the result
// rmsnorm_backward_naive  one block per row: a mean over the row, the gradient of x
// rmsnorm_columns         one thread per column: the gradient of gamma

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

// Normalising factor of a row.
__device__ __forceinline__ float row_scale(const elem* __restrict__ x, u64 row) {
    __shared__ float partial[ROW_THREADS / 32];
    float square_sum = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const float value = load(x[row * COLUMNS + j]);
        square_sum = fmaf(value, value, square_sum);
    }
    return rsqrtf(block_sum(square_sum, partial) / COLUMNS + EPS);
}

extern "C" __global__ void rmsnorm_statistics(const elem* __restrict__ x, float* __restrict__ only_rstd) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const float scale = row_scale(x, row);
    if (threadIdx.x == 0) only_rstd[row] = scale;
}

extern "C" __global__ void rmsnorm_naive(const elem* __restrict__ x, const elem* __restrict__ gamma,
                                         elem* __restrict__ out, float* __restrict__ row_rstd) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const float scale = row_scale(x, row);
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        out[row * COLUMNS + j] = to_elem(load(x[row * COLUMNS + j]) * scale * load(gamma[j]));
    }
    if (threadIdx.x == 0) row_rstd[row] = scale;
}

extern "C" __global__ void rmsnorm_backward_naive(const elem* __restrict__ x, const elem* __restrict__ gamma,
                                                  const float* __restrict__ rstd, const elem* __restrict__ dout,
                                                  elem* __restrict__ dx) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float along = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        along = fmaf(load(dout[base + j]) * load(gamma[j]), load(x[base + j]) * rstd[row], along);
    }
    along = block_sum(along, partial) / COLUMNS;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const float gradient = load(dout[base + j]) * load(gamma[j]);
        dx[base + j] = to_elem(rstd[row] * (gradient - load(x[base + j]) * rstd[row] * along));
    }
}

extern "C" __global__ void rmsnorm_columns(const elem* __restrict__ x, elem* __restrict__ dgamma,
                                           const float* __restrict__ rstd, const elem* __restrict__ dout) {
    const u64 column = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (column >= COLUMNS) return;
    float sum = 0.0f;
    for (unsigned row = 0; row < ROWS; row++) {
        const u64 at = (u64)row * COLUMNS + column;
        sum = fmaf(load(dout[at]), load(x[at]) * rstd[row], sum);
    }
    dgamma[column] = to_elem(sum);
}
