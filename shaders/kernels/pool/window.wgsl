// Windows of a pooling, and index arithmetic. The definition is in core/workloads/src/ops/pool/mod.rs.
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

// First pixel of a window along an extent, and one past its last.
fn window(at: u32, extent: u32, outputs: u32, kernel: u32) -> vec2<u32> {
    if ADAPTIVE {
        return vec2<u32>(at * extent / outputs, ((at + 1u) * extent + outputs - 1u) / outputs);
    }
    let begin = at * STRIDE;
    return vec2<u32>(max(begin, PAD) - PAD, min(begin + kernel - PAD, extent));
}

// First window that contains a pixel, and one past the last.
fn around(pixel: u32, extent: u32, outputs: u32, kernel: u32) -> vec2<u32> {
    if ADAPTIVE {
        return vec2<u32>(pixel * outputs / extent, ((pixel + 1u) * outputs + extent - 1u) / extent);
    }
    let reach = pixel + PAD;
    var first = 0u;
    if reach >= kernel {
        first = (reach - kernel) / STRIDE + 1u;
    }
    return vec2<u32>(first, min(reach / STRIDE + 1u, outputs));
}
