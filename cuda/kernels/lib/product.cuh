// Layouts of GEMMs, one for each of BATCH: C of M x N is A of M x K times B of K x N. C is row-major, and so are A and B, unless
// A_TRANSPOSED or B_TRANSPOSED.

#include "lib/product_order.cuh"

// Elements per matrix of the batch.
constexpr u64 a_elements = (u64)A_HEIGHT * A_WIDTH, b_elements = (u64)B_HEIGHT * B_WIDTH, c_elements = (u64)M * N;

// Epilogue that leaves sums unchanged.
struct Plain {
    __device__ __forceinline__ float operator()(u64, unsigned, float sum) const { return sum; }
};
