// Squares of 2 × 2 results by Winograd: how they are counted, and where what is computed with lies. Of each of 16 products, pixels
// and sums lie group by group: as matrices of channels by squares, or of squares by channels where channels come last.

const SQUARES: u32 = IMAGES * SQUARES_DOWN * SQUARES_ACROSS;

// Where the first of a square's 16 elements of a channel lies, of `channels` in each group; the others are SQUARES times all
// channels apart.
fn square_at(channel: u32, square: u32, channels: u32) -> u32 {
    if LAST {
        return (channel / channels * SQUARES + square) * channels + channel % channels;
    }
    return channel * SQUARES + square;
}

// Channel and square of a thread, neighbours being neighbours in memory.
fn of_thread(index: u32, channels: u32) -> vec2<u32> {
    if LAST {
        return vec2<u32>(index % channels, index / channels);
    }
    return vec2<u32>(index / SQUARES, index % SQUARES);
}

// Image, and row and column of a square's first result.
fn corner_of(square: u32) -> vec3<u32> {
    let within = square % (SQUARES_DOWN * SQUARES_ACROSS);
    let image = square / (SQUARES_DOWN * SQUARES_ACROSS);
    return vec3<u32>(image, within / SQUARES_ACROSS * 2u, within % SQUARES_ACROSS * 2u);
}
