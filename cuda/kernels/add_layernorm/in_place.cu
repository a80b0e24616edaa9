// Sum in place of a term, and its layer normalisation, in pieces. The definition is in core/workloads/src/ops/add_layernorm.

#include "layernorm/forward.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm_row(const elem* __restrict__ gamma, const elem* __restrict__ beta, elem* __restrict__ out,
                  float* __restrict__ mean, float* __restrict__ rstd, const elem* __restrict__ x,
                  elem* __restrict__ sum) {
    const auto add = [=](u64 at) {
        piece value = load_piece(x, at);
        const piece other = load_piece(sum, at);
        // Rounded to the element type, as the stored sum. The normalisation then does not depend on the variant.
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) value.at[i] = load(to_elem(value.at[i] + other.at[i]));
        return value;
    };
    normalise_row(add, [=](u64 at, const piece& value) { store_piece(sum, at, value); }, gamma, beta, out, mean, rstd);
}
