// A block's tile from the table of `schedule`.

#include "lib/product_order.cuh"

struct GroupedTile {
    unsigned group, row, column, end;
};

// Finds the tile of this block, if it has one.
__device__ __forceinline__ bool find_tile(const unsigned* __restrict__ tiles, u64 index, GroupedTile& found) {
    const uint4* table = reinterpret_cast<const uint4*>(tiles);
    constexpr unsigned across = (N + BLOCK_MN - 1) / BLOCK_MN;
    const unsigned down = table[0].x;
    if (index >= (u64)across * down) return false;
    const uint2 tile = tile_at(index, across, down);
    const uint4 rows = table[1 + tile.y];
    found = GroupedTile{rows.x, rows.y, tile.x * BLOCK_MN, rows.z};
    return true;
}
