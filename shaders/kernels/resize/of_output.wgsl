// Pixel of a resized image, in pieces of neighbouring channels. The definition is in core/workloads/src/ops/resize/mod.rs.

#import resize/taps

@group(0) @binding(0) var<storage, read> x: array<stored>;

// The second does not count at a weight of zero, even if it is NaN.
fn blend(weight: f32, first: piece, second: piece) -> piece {
    return select((1.0 - weight) * first + weight * second, first, weight == 0.0);
}

fn of_row(first: u32, row: u32, columns: Taps, channel: u32) -> piece {
    let left = piece(x[position(first, row, columns.first, channel, H, W)]);
    if NEAREST {
        return left;
    }
    let right = piece(x[position(first, row, columns.second, channel, H, W)]);
    return blend(columns.weight, left, right);
}

fn of_output(first: u32, row: u32, column: u32, channel: u32) -> piece {
    let rows = taps(row, H, OH);
    let columns = taps(column, W, OW);
    let upper = of_row(first, rows.first, columns, channel);
    if NEAREST {
        return upper;
    }
    return blend(rows.weight, upper, of_row(first, rows.second, columns, channel));
}
