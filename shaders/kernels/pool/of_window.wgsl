// Result of a window, in pieces of neighbouring channels. The definition is in core/workloads/src/ops/pool/mod.rs.

#import pool/window

@group(0) @binding(0) var<storage, read> x: array<stored>;

// Most pixels of a window along each extent.
const MOST_ROWS: u32 = select(KH, (H + OH - 1u) / OH + 1u, ADAPTIVE);
const MOST_COLUMNS: u32 = select(KW, (W + OW - 1u) / OW + 1u, ADAPTIVE);

fn of_window(first: u32, row: u32, column: u32, channel: u32) -> piece {
    let rows = window(row, H, OH, KH);
    let columns = window(column, W, OW, KW);
    var value = piece();
    if LARGEST {
        // Padding takes no part in a maximum.
        value = piece(x[position(first, rows.x, columns.x, channel, H, W)]);
    }
    // Trip counts are constant, so that compilers write the loops out.
    for (var i = 0u; i < MOST_ROWS; i++) {
        for (var j = 0u; j < MOST_COLUMNS; j++) {
            if rows.x + i < rows.y && columns.x + j < columns.y {
                let own = piece(x[position(first, rows.x + i, columns.x + j, channel, H, W)]);
                if LARGEST {
                    value = larger(value, own);
                } else {
                    value += own;
                }
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
