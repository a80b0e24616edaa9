// The order in which workgroups compute the tiles of a product.

const BAND: u32 = 8u;

// Column and row of the index-th of across x down tiles. Tiles are taken column by column within bands of eight rows, so
// that workgroups that run together share rows of A and columns of B in the cache.
fn tile_at(index: u32, across: u32, down: u32) -> vec2<u32> {
    let first = index / (BAND * across) * BAND;
    let rows = min(BAND, down - first);
    let within = index % (BAND * across);
    return vec2<u32>(within / rows, first + within % rows);
}
