// Result of a window, in pieces of neighbouring channels. The definition is in core/workloads/src/ops/pool/mod.rs.

#import pool/window

@group(0) @binding(0) var<storage, read> x: array<stored>;

fn of_window(first: u32, row: u32, column: u32, channel: u32) -> piece {
    let rows = window(row, H, OH, KH);
    let columns = window(column, W, OW, KW);
    var value = piece();
    if LARGEST {
        // Padding takes no part in a maximum.
        value = piece(x[position(first, rows.x, columns.x, channel, H, W)]);
    }
    for (var i = rows.x; i < rows.y; i++) {
        for (var j = columns.x; j < columns.y; j++) {
            let own = piece(x[position(first, i, j, channel, H, W)]);
            if LARGEST {
                value = larger(value, own);
            } else {
                value += own;
            }
        }
    }
    if LARGEST {
        return value;
    }
    if ADAPTIVE {
        return value / f32((rows.y - rows.x) * (columns.y - columns.x));
    }
    return value / f32(KH * KW);
}
