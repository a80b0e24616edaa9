// Transpose by tiles, 16 bytes per access, as bits. The definition is in core/workloads/src/ops/transpose.rs.
//
// A tile is TILE_ROWS rows of 256 bytes. It is stored transposed in shared memory, in words of 32 bits: an element each, or two
// 16-bit neighbours of a column, joined by the thread that read both rows. Eight neighbouring threads read half of the vectors of
// a row, and write vectors of a column. PITCH is odd, so that a column's words lie in different banks.
//
// Measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose_vector(const elem* __restrict__ x, elem* __restrict__ out) {
    static_assert(THREADS == 512 && TILE_ROWS == 64, "each thread reads two vectors");
    __shared__ unsigned transposed[TILE_COLUMNS * PITCH];
    // Vectors of a row and of a column, and of a column of the tile.
    constexpr unsigned across = COLUMNS / PER_VECTOR, along = ROWS / PER_VECTOR, vectors = TILE_ROWS / PER_VECTOR;
    constexpr bool pairs = PER_VECTOR == 8;
    constexpr unsigned tiles_across = (COLUMNS + TILE_COLUMNS - 1) / TILE_COLUMNS;
    constexpr unsigned tiles_down = (ROWS + TILE_ROWS - 1) / TILE_ROWS;
    const u64 tile = flat_workgroup(), matrix = tile / ((u64)tiles_across * tiles_down);
    if (matrix >= MATRICES) return;
    // Neighbouring blocks write neighbours.
    const unsigned first_row = (unsigned)(tile % tiles_down) * TILE_ROWS;
    const unsigned first_column = (unsigned)(tile / tiles_down % tiles_across) * TILE_COLUMNS;

    const uint4* from = reinterpret_cast<const uint4*>(x) + matrix * ROWS * across;
    // Warps alternate between the two halves of four rows.
    const unsigned of_row = threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8, below = threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8;
    const unsigned near = pairs ? 2 * below : below, far = pairs ? 2 * below + 1 : below + 32;
    const unsigned at = first_column / PER_VECTOR + of_row;
    uint4 first = make_uint4(0, 0, 0, 0), second = first;
    if (at < across && first_row + near < ROWS) first = from[(u64)(first_row + near) * across + at];
    if (at < across && first_row + far < ROWS) second = from[(u64)(first_row + far) * across + at];
    const unsigned a[4] = {first.x, first.y, first.z, first.w}, b[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        if constexpr (pairs) {
            const unsigned column = of_row * 8 + 2 * i;
            transposed[column * PITCH + below] = __byte_perm(a[i], b[i], 0x5410);
            transposed[(column + 1) * PITCH + below] = __byte_perm(a[i], b[i], 0x7632);
        } else {
            const unsigned column = of_row * 4 + i;
            transposed[column * PITCH + near] = a[i];
            transposed[column * PITCH + far] = b[i];
        }
    }
    __syncthreads();

    uint4* to = reinterpret_cast<uint4*>(out) + matrix * COLUMNS * along;
#pragma unroll
    for (unsigned e = threadIdx.x; e < TILE_COLUMNS * vectors; e += THREADS) {
        const unsigned column = e / vectors, of_column = e % vectors;
        if (first_column + column < COLUMNS && first_row + of_column * PER_VECTOR < ROWS) {
            const unsigned* word = transposed + column * PITCH + 4 * of_column;
            to[(u64)(first_column + column) * along + first_row / PER_VECTOR + of_column] =
                make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}
