// Gradient of a pixel from those of its windows, in pieces of neighbouring channels. The definition is in
// core/workloads/src/ops/pool/backward.rs.

#import pool/window

@group(0) @binding(0) var<storage, read> dout: array<stored>;
// Pixel that receives a window's gradient, as a piece of integers.
#if LARGEST
@group(0) @binding(2) var<storage, read> place: array<whole>;
#endif

// Number of pixels in an average.
fn pixels_of(y: u32, x: u32) -> f32 {
    if ADAPTIVE {
        let rows = window(y, H, OH, KH);
        let columns = window(x, W, OW, KW);
        return f32((rows.y - rows.x) * (columns.y - columns.x));
    }
    return f32(KH * KW);
}

fn share(at: u32, row: u32, column: u32, y: u32, x: u32) -> piece {
    let all = piece(dout[at]);
#if LARGEST
    return select(piece(), all, place[at] == whole(row * W + column));
#else
    return all / pixels_of(y, x);
#endif
}

fn of_pixel(first: u32, row: u32, column: u32, channel: u32) -> piece {
    let rows = around(row, H, OH, KH);
    let columns = around(column, W, OW, KW);
    var sum = piece();
    for (var y = rows.x; y < rows.y; y++) {
        for (var x = columns.x; x < columns.y; x++) {
            sum += share(position(first, y, x, channel, OH, OW), row, column, y, x);
        }
    }
    return sum;
}
