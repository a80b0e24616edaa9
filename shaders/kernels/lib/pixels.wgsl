// Index arithmetic of images.
//
// Channels are counted in pieces. In nchw the first index covers images and channels, in nhwc images alone. STEP is the distance
// of neighbours in a row: the channels of a pixel, or one.

// Element of a tensor with these rows and columns: first index, row, column, and the channel within its pixel.
fn split(at: u32, rows: u32, columns: u32) -> vec4<u32> {
    return vec4<u32>(at / (STEP * columns * rows), at / (STEP * columns) % rows, at / STEP % columns, at % STEP);
}

fn position(first: u32, row: u32, column: u32, channel: u32, rows: u32, columns: u32) -> u32 {
    return ((first * rows + row) * columns + column) * STEP + channel;
}
