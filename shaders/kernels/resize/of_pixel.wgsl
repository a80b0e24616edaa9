// Gradient of a pixel from those of its outputs, in pieces of neighbouring channels. The definition is in
// core/workloads/src/ops/resize/backward.rs.

#import resize/taps

@group(0) @binding(0) var<storage, read> dout: array<stored>;

fn of_pixel(first: u32, row: u32, column: u32, channel: u32) -> piece {
    let rows = around(row, H, OH);
    let columns = around(column, W, OW);
    var sum = piece();
    for (var y = rows.x; y < rows.y; y++) {
        let down = weight_in(row, y, H, OH);
        for (var x = columns.x; x < columns.y; x++) {
            let weight = down * weight_in(column, x, W, OW);
            sum += weight * piece(dout[position(first, y, x, channel, OH, OW)]);
        }
    }
    return sum;
}
