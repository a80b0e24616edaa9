// Squares of 2 × 2 results by Winograd: how they are counted, and where what is computed with lies. Of each of 16 products, pixels
// and sums lie group by group: as matrices of channels by squares, or of squares by channels where channels come last.

const TILES: u32 = IMAGES * TILES_Y * TILES_X;

// Where the first of a tile's 16 elements of a channel lies, of `channels` in each group; the others are TILES times all
// channels apart.
fn element_of(channel: u32, tile: u32, channels: u32) -> u32 {
    if LAST {
        return (channel / channels * TILES + tile) * channels + channel % channels;
    }
    return channel * TILES + tile;
}

// Channel and tile of a thread, neighbours being neighbours in memory.
fn of_thread(index: u32, channels: u32) -> vec2<u32> {
    if LAST {
        return vec2<u32>(index % channels, index / channels);
    }
    return vec2<u32>(index / TILES, index % TILES);
}

// Image, and row and column of a tile's first result.
fn corner_of(tile: u32) -> vec3<u32> {
    let within = tile % (TILES_Y * TILES_X);
    let image = tile / (TILES_Y * TILES_X);
    return vec3<u32>(image, within / TILES_X * 2u, within % TILES_X * 2u);
}
