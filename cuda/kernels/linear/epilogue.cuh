// What becomes of the sums of a product: the bias of the column is added; GELU is taken, and its argument kept for the backward
// pass; a residual is added. In the backward pass, a sum is multiplied with GELU's slope, and GELU is taken anew.

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

// Each element is read before it is written, by one thread: both may be one buffer.
struct Slope {
    const elem* pre;
    elem* hidden;
    __device__ __forceinline__ float operator()(u64 at, unsigned, float sum) const {
        const float value = load(pre[at]);
        hidden[at] = to_elem(gelu_tanh(value));
        return sum * slope_tanh(value);
    }
};
