// Elements moved from one order to another, in pieces: N0 x N1 x N2 rows of N3 pieces. The definition is in
// core/ir/src/rearrange.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void rearrange(const elem* __restrict__ given, elem* __restrict__ moved) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const u64 row = at / N3, i0 = row / (N1 * N2), i3 = at % N3;
    const u64 i1 = row / N2 % N1, i2 = row % N2;
    const u64 from = FIRST_FROM + i0 * FROM0 + i1 * FROM1 + i2 * FROM2 + i3;
    const u64 to = FIRST_TO + i0 * TO0 + i1 * TO1 + i2 * TO2 + i3;
    reinterpret_cast<stored*>(moved)[to] = reinterpret_cast<const stored*>(given)[from];
}
