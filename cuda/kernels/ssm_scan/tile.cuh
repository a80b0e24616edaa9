// Tiles of 64 x 64 results with DEPTH products each at a time.
//
// Both factors lie in shared memory as vectors of four neighbouring rows or columns, one index of the depth after the other. Of 128
// threads, each has four columns of the result, and eight rows: four of the upper half and four of the lower.

#include "lib/launch.cuh"

// One vector more between indices of the depth, against bank conflicts of transposed stores.
constexpr unsigned QUADS = 16, STRIDE = QUADS + 1, VECTORS = DEPTH * QUADS;
static_assert(THREADS == 128, "eight rows of 64");

// Row of a thread's sum.
__device__ __forceinline__ unsigned row_of(unsigned sum) { return threadIdx.x / QUADS * 4 + sum / 4 * 32 + sum % 4; }

struct Tiles {
    float4 left[DEPTH * STRIDE], right[DEPTH * STRIDE];

    // Adds the products to the sums from `first` to before `last`. With EARLIER, the depth counts tokens from `token` on, and those later
    // than a row's are left out.
    template <unsigned first, unsigned last, bool EARLIER>
    __device__ __forceinline__ void add(float (&sums)[8][4], unsigned token = 0) const {
#pragma unroll
        for (unsigned k = 0; k < DEPTH; k++) {
            const float4 columns = right[k * STRIDE + threadIdx.x % QUADS];
            const float4 upper = left[k * STRIDE + threadIdx.x / QUADS], lower = left[k * STRIDE + threadIdx.x / QUADS + 8];
            const float rows[8] = {upper.x, upper.y, upper.z, upper.w, lower.x, lower.y, lower.z, lower.w};
            const float of_columns[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
            for (unsigned i = first; i < last; i++) {
                if (EARLIER && token + k > row_of(i)) continue;
#pragma unroll
                for (unsigned j = 0; j < 4; j++) sums[i][j] = fmaf(rows[i], of_columns[j], sums[i][j]);
            }
        }
    }
};

// Four neighbours of a row of `extent` elements, from element `place` on; zeros outside.
__device__ __forceinline__ float4 quad_of(const elem* __restrict__ row, unsigned place, unsigned extent) {
    float four[4] = {};
    if constexpr (WIDTH == 4) {
        if (place < extent) {
            const elem4 all = *reinterpret_cast<const elem4*>(row + place);
#pragma unroll
            for (unsigned i = 0; i < 4; i++) four[i] = load(all.at[i]);
        }
    } else {
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (place + i < extent) four[i] = load(row[place + i]);
        }
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

__device__ __forceinline__ float4 times(float factor, const float4& x) {
    return make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
}
