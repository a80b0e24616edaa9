// Place of a block in its table: a strip of rows times a block of columns, LANES threads per row. The definition is in
// core/workloads/src/ops/standard_scaler.rs.

#include "lib/rows.cuh"

struct Place {
    // Strip, its first row, one past its last, and the thread's piece of a row.
    unsigned part, begin, end, piece_at;
};

__device__ __forceinline__ bool beyond_all() { return flat_workgroup() >= (u64)PARTS * BLOCKS; }

__device__ __forceinline__ Place place_of() {
    const unsigned flat = (unsigned)flat_workgroup(), part = flat / BLOCKS, begin = part * STRIP;
    return Place{part, begin, begin + min(STRIP, ROWS - begin), flat % BLOCKS * LANES + threadIdx.x % LANES};
}
