// Products of matrices, one for each of BATCH: C of M x N is A of M x K times B of K x N. C is stored row by row; so are A and
// B, unless A_BY_COLUMN or B_BY_COLUMN. Here: how they are stored, and the order of tiles.

#include "lib/elem.cuh"

// Elements of one of the batch.
constexpr u64 a_elements = (u64)A_HEIGHT * A_WIDTH, b_elements = (u64)B_HEIGHT * B_WIDTH, c_elements = (u64)M * N;

// Elements of a product as they are.
struct Plain {
    __device__ __forceinline__ float operator()(u64, unsigned, float sum) const { return sum; }
};

// Column and row of the index-th of across x down tiles. Tiles are taken column by column within bands of eight rows, so
// that blocks that run together share rows of A and columns of B in the cache.
__device__ __forceinline__ uint2 tile_at(u64 index, unsigned across, unsigned down) {
    constexpr unsigned band = 8;
    const u64 in_band = (u64)band * across;
    const unsigned first = (unsigned)(index / in_band) * band;
    const unsigned rows = min(band, down - first), within = (unsigned)(index % in_band);
    return make_uint2(within / rows, first + within % rows);
}
