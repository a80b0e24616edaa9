// What becomes of the sums of a product: the bias of the column is added; GELU is taken; a residual is added.

#include "gelu/share.cuh"
#include "lib/elem.cuh"

struct Bias {
    const elem* __restrict__ bias;
    __device__ __forceinline__ float operator()(u64, unsigned column, float sum) const { return sum + load(bias[column]); }
};

struct BiasGelu {
    const elem* __restrict__ bias;
    __device__ __forceinline__ float operator()(u64, unsigned column, float sum) const {
        return gelu_tanh(sum + load(bias[column]));
    }
};

struct BiasGeluResidual {
    const elem* __restrict__ bias;
    const elem* __restrict__ residual;
    __device__ __forceinline__ float operator()(u64 at, unsigned column, float sum) const {
        return gelu_tanh(sum + load(bias[column])) + load(residual[at]);
    }
};
