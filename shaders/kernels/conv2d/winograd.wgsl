// Index arithmetic of Winograd's F(2 × 2, 3 × 3): tiles of 2 × 2 results. Each of the 16 GEMMs has its operands group by group,
// as matrices of channels by tiles, or of tiles by channels where channels come last.

const TILES: u32 = IMAGES * TILES_Y * TILES_X;

// Index of the first of a tile's 16 elements of a channel, with `channels` per group. The others are TILES times all channels
// apart.
fn element_of(channel: u32, tile: u32, channels: u32) -> u32 {
    if LAST {
        return (channel / channels * TILES + tile) * channels + channel % channels;
    }
    return channel * TILES + tile;
}

// Channel and tile of a thread. Neighbouring threads have neighbours in memory.
fn of_thread(index: u32, channels: u32) -> vec2<u32> {
    if LAST {
        return vec2<u32>(index % channels, index / channels);
    }
    return vec2<u32>(index / TILES, index % TILES);
}

// Image, row and column of a tile's first result.
fn corner_of(tile: u32) -> vec3<u32> {
    let within = tile % (TILES_Y * TILES_X);
    let image = tile / (TILES_Y * TILES_X);
    return vec3<u32>(image, within / TILES_X * 2u, within % TILES_X * 2u);
}
