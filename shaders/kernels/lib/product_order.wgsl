// Order of the tiles of a GEMM among workgroups.

const BAND: u32 = 8u;

// Column and row of tile `index` of across x down tiles. Tiles run column by column within bands of eight rows, so that
// workgroups that run together share rows of A and columns of B in the cache.
fn tile_at(index: u32, across: u32, down: u32) -> vec2<u32> {
    let first = index / (BAND * across) * BAND;
    let rows = min(BAND, down - first);
    let within = index % (BAND * across);
    return vec2<u32>(within / rows, first + within % rows);
}
