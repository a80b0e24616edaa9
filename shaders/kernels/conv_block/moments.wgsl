// Tiled convolution as in conv2d/implicit, with partial statistics for batch normalisation: per channel, the mean over the tile's
// positions, and the sum of squared distances from it. The definition is in core/workloads/src/ops/conv_block.
//
// A thread sums distances, and squared distances, from its first value of a channel. That value is one of the few summed, so
// little precision is lost by deriving the variance from them.

#import conv2d/epilogue
#import conv2d/pixels
#import lib/launch

@group(0) @binding(2) var<storage, read_write> result: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;

const CHANNELS: u32 = GROUPS * TO_C;
const_assert M_VEC4 * THREADS_N <= BLOCK_K * N_VEC4;

// Moments of the four channels in each register tile of a thread, over its positions.
var<private> begins: array<vec4<f32>, REG_TILES_M>;
var<private> far: array<vec4<f32>, REG_TILES_M>;
var<private> far_squared: array<vec4<f32>, REG_TILES_M>;
// Number of register tiles stored.
var<private> tiles_stored: u32;

// Stores an element, and returns it as stored.
fn store(group: u32, row: u32, column: u32, sum: f32) -> f32 {
    if row >= TO_C {
        return 0.0;
    }
    let value = elem(epilogue(group * TO_C + row, sum));
    result[result_at(group, row, column / TO, column % TO)] = value;
    return f32(value);
}

fn store_column(tile_row: u32, begin: bool, group: u32, row: u32, column: u32, sums: vec4<f32>) {
    if column >= POSITIONS {
        return;
    }
    let values = vec4<f32>(
        store(group, row, column, sums.x),
        store(group, row + 1u, column, sums.y),
        store(group, row + 2u, column, sums.z),
        store(group, row + 3u, column, sums.w),
    );
    if begin {
        begins[tile_row] = values;
    }
    let by = values - begins[tile_row];
    far[tile_row] += by;
    far_squared[tile_row] += by * by;
}

// Columns of a thread increase: if its first is past the end, all are.
fn store_tile(group: u32, row: u32, column: u32, slot: u32, tile: mat4x4<f32>) {
    let at = tiles_stored / REG_TILES_N;
    let first = tiles_stored % REG_TILES_N == 0u;
    store_column(at, first, group, row, column + column_of(slot, 0u), tile[0]);
    store_column(at, false, group, row, column + column_of(slot, 1u), tile[1]);
    store_column(at, false, group, row, column + column_of(slot, 2u), tile[2]);
    store_column(at, false, group, row, column + column_of(slot, 3u), tile[3]);
    tiles_stored += 1u;
}

// Stores a thread's value of four channels in the right tile.
fn keep_thread(row4: u32, across: u32, value: vec4<f32>) {
    right_tile[row4 / REG_TILES_N][row4 % REG_TILES_N * THREADS_N + across] = value;
}

// Sums over the threads of four channels.
fn over_threads(row4: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var i = 0u; i < THREADS_N; i++) {
        sum += right_tile[row4 / REG_TILES_N][row4 % REG_TILES_N * THREADS_N + i];
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

    let down = select(lane / THREADS_N, lane % THREADS_M, ROWS_TOGETHER);
    let across = select(lane % THREADS_N, lane / THREADS_M, ROWS_TOGETHER);
    // Positions of this thread, and of the tile.
    var own = 0.0;
    for (var s = 0u; s < REG_TILES_N; s++) {
        for (var i = 0u; i < 4u; i++) {
            own += select(0.0, 1.0, at.z + column_of(across + s * THREADS_N, i) < POSITIONS);
        }
    }
    let all = f32(min(BLOCK_N, POSITIONS - at.z));
    workgroupBarrier();
    for (var r = 0u; r < REG_TILES_M; r++) {
        keep_thread(down + r * THREADS_M, across, own * begins[r] + far[r]);
    }
    workgroupBarrier();
    if lane < M_VEC4 {
        left_tile[0][lane] = over_threads(lane) / all;
    }
    workgroupBarrier();
    for (var r = 0u; r < REG_TILES_M; r++) {
        var around = vec4<f32>();
        if own > 0.0 {
            let further = far[r] / own;
            let from_mean = begins[r] + further - left_tile[0][down + r * THREADS_M];
            around = max(far_squared[r] - further * far[r], vec4<f32>()) + own * from_mean * from_mean;
        }
        keep_thread(down + r * THREADS_M, across, around);
    }
    workgroupBarrier();
    if lane < M_VEC4 {
        let mean = left_tile[0][lane];
        let around = over_threads(lane);
        let row = at.y + 4u * lane;
        let place = at.z / BLOCK_N * 2u * CHANNELS + at.x * TO_C + row;
        for (var i = 0u; i < 4u; i++) {
            if row + i < TO_C {
                parts[place + i] = mean[i];
                parts[place + CHANNELS + i] = around[i];
            }
        }
    }
}
