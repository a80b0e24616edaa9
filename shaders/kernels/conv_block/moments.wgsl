// Convolution by tiles, as conv2d/implicit does it, which also leaves what batch normalisation asks for: of each channel the mean
// over the tile's positions, and the sum of squares around that mean. The definition is in core/workloads/src/ops/conv_block.
//
// A thread keeps sums of distances from the first value that it has of a channel, and of their squares. As that value is one of
// the few, little is lost when squares around their mean are told from these.

#import conv2d/finished
#import conv2d/pixels
#import lib/launch

@group(0) @binding(2) var<storage, read_write> result: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;

const CHANNELS: u32 = GROUPS * TO_C;
const_assert LEFT * ACROSS <= DEPTH * RIGHT;

// Of the four channels in each square of a thread, over its positions.
var<private> begins: array<vec4<f32>, ROW_SQUARES>;
var<private> far: array<vec4<f32>, ROW_SQUARES>;
var<private> far_squared: array<vec4<f32>, ROW_SQUARES>;
// Squares that were put.
var<private> squares_put: u32;

// Stores an element, and returns it as it was stored.
fn put(group: u32, row: u32, column: u32, sum: f32) -> f32 {
    if row >= TO_C {
        return 0.0;
    }
    let value = elem(finished(group * TO_C + row, sum));
    result[result_at(group, row, column / TO, column % TO)] = value;
    return f32(value);
}

fn put_column(square_row: u32, begin: bool, group: u32, row: u32, column: u32, sums: vec4<f32>) {
    if column >= POSITIONS {
        return;
    }
    let values = vec4<f32>(
        put(group, row, column, sums.x),
        put(group, row + 1u, column, sums.y),
        put(group, row + 2u, column, sums.z),
        put(group, row + 3u, column, sums.w),
    );
    if begin {
        begins[square_row] = values;
    }
    let by = values - begins[square_row];
    far[square_row] += by;
    far_squared[square_row] += by * by;
}

// Columns of a thread rise: where its first is past the end, so are all.
fn put_square(group: u32, row: u32, column: u32, slot: u32, square: mat4x4<f32>) {
    let at = squares_put / COLUMN_SQUARES;
    let first = squares_put % COLUMN_SQUARES == 0u;
    put_column(at, first, group, row, column + column_of(slot, 0u), square[0]);
    put_column(at, false, group, row, column + column_of(slot, 1u), square[1]);
    put_column(at, false, group, row, column + column_of(slot, 2u), square[2]);
    put_column(at, false, group, row, column + column_of(slot, 3u), square[3]);
    squares_put += 1u;
}

// Sums over the threads that have four channels, of what they left in the place of the right tile.
fn over_threads(four: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var i = 0u; i < ACROSS; i++) {
        sum += right_tile[four * ACROSS + i];
    }
    return sum;
}

@compute @workgroup_size(256)
fn conv_block_moments(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = tile_of(flat_group(workgroup, workgroups));
    if at.x >= GROUPS {
        return;
    }
    tile_product(at.x, at.yz, 0u, TERMS, lane);

    let down = select(lane / ACROSS, lane % DOWN, ROWS_TOGETHER);
    let across = select(lane % ACROSS, lane / DOWN, ROWS_TOGETHER);
    // Positions of this thread, and of the tile.
    var own = 0.0;
    for (var s = 0u; s < COLUMN_SQUARES; s++) {
        for (var i = 0u; i < 4u; i++) {
            own += select(0.0, 1.0, at.z + column_of(across + s * ACROSS, i) < POSITIONS);
        }
    }
    let all = f32(min(TILE_COLUMNS, POSITIONS - at.z));
    workgroupBarrier();
    for (var r = 0u; r < ROW_SQUARES; r++) {
        right_tile[(down + r * DOWN) * ACROSS + across] = own * begins[r] + far[r];
    }
    workgroupBarrier();
    if lane < LEFT {
        left_tile[lane] = over_threads(lane) / all;
    }
    workgroupBarrier();
    for (var r = 0u; r < ROW_SQUARES; r++) {
        var around = vec4<f32>();
        if own > 0.0 {
            let further = far[r] / own;
            let from_mean = begins[r] + further - left_tile[down + r * DOWN];
            around = max(far_squared[r] - further * far[r], vec4<f32>()) + own * from_mean * from_mean;
        }
        right_tile[(down + r * DOWN) * ACROSS + across] = around;
    }
    workgroupBarrier();
    if lane < LEFT {
        let mean = left_tile[lane];
        let around = over_threads(lane);
        let row = at.y + 4u * lane;
        let place = at.z / TILE_COLUMNS * 2u * CHANNELS + at.x * TO_C + row;
        for (var i = 0u; i < 4u; i++) {
            if row + i < TO_C {
                parts[place + i] = mean[i];
                parts[place + CHANNELS + i] = around[i];
            }
        }
    }
}
