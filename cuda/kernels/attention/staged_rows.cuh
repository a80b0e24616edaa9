// Rows of Q, K, V and their gradients in shared memory, in the element type, for tensor cores. Blocks of 16 x 16 threads.

#include "lib/async_copy.cuh"

// head_dim, padded with zeros to a multiple of the instruction's depth.
constexpr unsigned PADDED = (D + 15) / 16 * 16;
// Elements per row in shared memory: an odd number of 16-byte chunks, so that eight rows start in eight bank groups.
constexpr unsigned ROW_ELEMS = (PADDED / 8 + 1) * 8;

// Copies `count` rows from row `first` on to shared memory, zeros from row `end` on and past the last column.
template <unsigned count>
__device__ __forceinline__ void stage_rows(elem* stage, const elem* __restrict__ matrix, unsigned first, unsigned end) {
    const unsigned thread = threadIdx.y * 16 + threadIdx.x;
    for (unsigned i = thread; i < count * (PADDED / 8); i += 256) {
        const unsigned row = i / (PADDED / 8), column = i % (PADDED / 8) * 8;
        elem* const to = stage + row * ROW_ELEMS + column;
        const bool inside = first + row < end;
        const elem* const from = matrix + (u64)(inside ? first + row : 0) * D;
        if constexpr (D % 8 == 0) {
            copy_async(to, from + (column < D ? column : 0), inside && column < D);
        } else {
            // Rows do not start at multiples of 16 bytes.
#pragma unroll
            for (unsigned e = 0; e < 8; e++) {
                elem x;
                x.bits = 0;
                if (inside && column + e < D) x = from[column + e];
                to[e] = x;
            }
        }
    }
    close_copies();
}

// Waits for this thread's copies, then for the block's.
__device__ __forceinline__ void staged_by_all() {
    wait_for_copies<0>();
    __syncthreads();
}
