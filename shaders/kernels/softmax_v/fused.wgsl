// Softmax of rows times a matrix, in one stage: weights stay in workgroup memory. The definition is in
// core/workloads/src/ops/softmax_v.
//
// A workgroup owns 64 rows of x, and processes them in tiles of 32 elements with an online softmax. LANES neighbouring threads
// keep a row's statistics. Thread (x, y) of 16×16 sums columns 4(x + 16j).. of rows 4y..4y+3, in registers.

#import lib/lanes
#import lib/launch
#import lib/lowest

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> v: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

const WIDTH: u32 = COLUMNS * 16u;
const STRIDE: u32 = KEYS + 1u;
const OF_LANE: u32 = KEYS / LANES;

var<workgroup> weights: array<f32, ROWS * STRIDE>;
var<workgroup> values: array<vec4<f32>, STAGED>;
var<workgroup> rescale: array<f32, ROWS>;

fn vec4_of_v(row: u32, col: u32, inside: bool) -> vec4<f32> {
    var loaded = vec4<f32>();
    for (var e = 0u; e < 4u; e++) {
        if inside && col + e < D { loaded[e] = f32(v[row * D + col + e]); }
    }
    return loaded;
}

@compute @workgroup_size(16, 16)
fn softmax_v_fused(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = flat_group(group, groups);
    let item = flat / blocks;
    if item >= BATCH {
        return;
    }
    let first_row = flat % blocks * ROWS;
    let my_row = thread / LANES;
    let part = thread % LANES;
    // Rows past the end repeat the last one, and are not written.
    let base = (item * S + min(first_row + my_row, S - 1u)) * T;
    var top = LOWEST;
    // Sum over this thread's elements, until the end.
    var sum = 0.0;
    var sums: array<vec4<f32>, 4u * COLUMNS>;

    for (var first = 0u; first < T; first += KEYS) {
        var mine = array<f32, OF_LANE>();
        var highest = LOWEST;
        for (var i = 0u; i < OF_LANE; i++) {
            let j = first + part + i * LANES;
            mine[i] = LOWEST;
            if j < T { mine[i] = f32(x[base + j]); }
            highest = max(highest, mine[i]);
        }
        let before = top;
        top = max(top, lanes_max(thread, highest));
        let shrink = exp(before - top);
        sum *= shrink;
        for (var i = 0u; i < OF_LANE; i++) {
            let weight = select(0.0, exp(mine[i] - top), first + part + i * LANES < T);
            sum += weight;
            weights[my_row * STRIDE + part + i * LANES] = weight;
        }
        if part == 0u {
            rescale[my_row] = shrink;
        }
        workgroupBarrier();
        let row = local.y * 4u;
        for (var j = 0u; j < 4u * COLUMNS; j++) {
            sums[j] *= rescale[row + j / COLUMNS];
        }
        for (var staged = 0u; staged < KEYS; staged += VALUES) {
            for (var e = thread; e < VALUES * WIDTH; e += 256u) {
                let j = first + staged + e / WIDTH;
                values[e] = vec4_of_v(item * T + j, e % WIDTH * 4u, j < T);
            }
            workgroupBarrier();
            for (var i = 0u; i < VALUES; i++) {
                let at = row * STRIDE + staged + i;
                let weight =
                    vec4<f32>(weights[at], weights[at + STRIDE], weights[at + 2u * STRIDE], weights[at + 3u * STRIDE]);
                for (var j = 0u; j < COLUMNS; j++) {
                    let value = values[i * WIDTH + local.x + 16u * j];
                    sums[j] += weight.x * value;
                    sums[COLUMNS + j] += weight.y * value;
                    sums[2u * COLUMNS + j] += weight.z * value;
                    sums[3u * COLUMNS + j] += weight.w * value;
                }
            }
            workgroupBarrier();
        }
    }

    let total = lanes_sum(thread, sum);
    if part == 0u {
        rescale[my_row] = 1.0 / total;
    }
    workgroupBarrier();
    for (var j = 0u; j < 4u * COLUMNS; j++) {
        let own = local.y * 4u + j / COLUMNS;
        let mean = sums[j] * rescale[own];
        let col = (local.x + 16u * (j % COLUMNS)) * 4u;
        for (var e = 0u; e < 4u; e++) {
            if first_row + own < S && col + e < D {
                out[(item * S + first_row + own) * D + col + e] = elem(mean[e]);
            }
        }
    }
}
