// Rows of a block and scale of scores, for `flash` and `flash_mma`.

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "lib/exp2.cuh"
#include "lib/launch.cuh"

// Head and tile of ROWS query rows of this block. Returns false past the last tile.
__device__ __forceinline__ bool flash_tile(u64& head, unsigned& first_row) {
    constexpr unsigned tiles = (S + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)HEADS * tiles) return false;
    if constexpr (CAUSAL) {
        // The last rows see the most keys, and come first, so that no long block runs last.
        head = index % HEADS;
        first_row = (tiles - 1 - (unsigned)(index / HEADS)) * ROWS;
    } else {
        head = index / tiles;
        first_row = (unsigned)(index % tiles) * ROWS;
    }
    return true;
}

// Exponentials are to base two, as the hardware computes them. The scale includes the change of base.
__device__ __forceinline__ float flash_scale() { return LOG2_E / sqrtf((float)D); }
