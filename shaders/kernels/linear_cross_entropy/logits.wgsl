// Logits by tiles. The definition is in core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_logits  stores the logits, in f32
// linear_cross_entropy_parts   stores the part of each row in a tile: no logit is stored

#import lib/lanes
#import lib/launch
#import lib/lowest
#import lib/product_order
#import loss_sigmoid/tile

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
// Parts of all ROWS rows, one after the other: a maximum, and the sum of exponentials of the logits minus it.
@group(0) @binding(3) var<storage, read_write> parts: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> picked: array<f32>;

const ACROSS: u32 = (CLASSES + TILE - 1u) / TILE;
const DOWN: u32 = (ROWS + TILE - 1u) / TILE;

fn left(row: u32, term: u32) -> f32 {
    if row < ROWS && term < DEPTH {
        return f32(x[row * DEPTH + term]);
    }
    return 0.0;
}

fn right(term: u32, column: u32) -> f32 {
    if column < CLASSES && term < DEPTH {
        return f32(w[column * DEPTH + term]);
    }
    return 0.0;
}

@compute @workgroup_size(THREADS)
fn linear_cross_entropy_logits(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    if index >= ACROSS * DOWN {
        return;
    }
    let tile = tile_at(index, ACROSS, DOWN) * TILE;
    var dots = tile_product(tile.y, tile.x, thread);
    for (var i = 0u; i < 16u; i++) {
        let row = tile.y + thread / 16u * 4u + i / 4u;
        let column = tile.x + thread % 16u * 4u + i % 4u;
        if row < ROWS && column < CLASSES {
            logits[row * CLASSES + column] = dots[i / 4u][i % 4u];
        }
    }
}

@compute @workgroup_size(THREADS)
fn linear_cross_entropy_parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    if index >= ACROSS * DOWN {
        return;
    }
    let tile = tile_at(index, ACROSS, DOWN) * TILE;
    var dots = tile_product(tile.y, tile.x, thread);
    let column = tile.x + thread % 16u * 4u;
    let inside = column + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(CLASSES);
    for (var i = 0u; i < 4u; i++) {
        let row = tile.y + thread / 16u * 4u + i;
        let own = dots[i];
        let there = select(vec4<f32>(LOWEST), own, inside);
        // The maximum may lose NaN, and the sum keeps it.
        let top = lanes_max(thread, max(max(there.x, there.y), max(there.z, there.w)));
        let weights = select(vec4<f32>(), exp(own - vec4<f32>(top)), inside);
        let sum = lanes_sum(thread, weights.x + weights.y + weights.z + weights.w);
        if row < ROWS {
            if thread % 16u == 0u {
                parts[tile.x / TILE * ROWS + row] = vec2<f32>(top, sum);
            }
            let chosen = targets[row];
            if chosen < CLASSES && chosen - column < 4u {
                picked[row] = own[chosen - column];
            }
        }
    }
}
