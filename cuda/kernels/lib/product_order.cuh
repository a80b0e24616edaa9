// Order of the tiles of a GEMM among blocks.

#include "lib/elem.cuh"

// Column and row of tile `index` of across x down tiles. Tiles run column by column within bands of eight rows, so that blocks
// that run together share rows of A and columns of B in the cache.
__device__ __forceinline__ uint2 tile_at(u64 index, unsigned across, unsigned down) {
    constexpr unsigned band = 8;
    const u64 in_band = (u64)band * across;
    const unsigned first = (unsigned)(index / in_band) * band;
    const unsigned rows = min(band, down - first), within = (unsigned)(index % in_band);
    return make_uint2(within / rows, first + within % rows);
}
