// Epilogues of a GEMM: adds the column's bias; applies GELU, and stores its argument for the backward pass; adds a residual. In
// the backward pass, multiplies a sum by GELU's slope, and recomputes GELU.

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

struct BiasGeluKept {
    const elem* __restrict__ bias;
    elem* __restrict__ pre;
    __device__ __forceinline__ float operator()(u64 at, unsigned column, float sum) const {
        const float value = sum + load(bias[column]);
        pre[at] = to_elem(value);
        return gelu_tanh(value);
    }
};

// One thread reads each element before it writes it: both may be one buffer.
struct Slope {
    const elem* pre;
    elem* hidden;
    __device__ __forceinline__ float operator()(u64 at, unsigned, float sum) const {
        const float value = load(pre[at]);
        hidden[at] = to_elem(gelu_tanh(value));
        return sum * slope_tanh(value);
    }
};
