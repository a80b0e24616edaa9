// Logits of all pairs, by tiles. The definition is in core/workloads/src/ops/loss_sigmoid.
//
// loss_sigmoid_logits  stores the logits
// loss_sigmoid_fused   PARTS workgroups process the tiles, and each stores its part of the loss
// loss_sigmoid_slopes  stores the loss's slopes by logit, and the parts of two sums of these: see `scalars`

#import lib/launch
#import lib/reduce
#import loss_sigmoid/pair
#import loss_sigmoid/tile

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> y: array<elem>;
@group(0) @binding(2) var<storage, read> temperature: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> logits: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;
// Binding of the backward pass.
@group(0) @binding(5) var<storage, read> dloss: array<f32>;
@group(0) @binding(6) var<storage, read_write> slopes: array<f32>;

fn left(row: u32, term: u32) -> f32 {
    if row < N && term < D {
        return f32(x[row * D + term]);
    }
    return 0.0;
}

fn right(term: u32, column: u32) -> f32 {
    if column < N && term < D {
        return f32(y[column * D + term]);
    }
    return 0.0;
}

@compute @workgroup_size(256)
fn loss_sigmoid_logits(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = flat_group(group, groups);
    if tile >= TILES {
        return;
    }
    let corner = vec2<u32>(tile / ACROSS, tile % ACROSS) * TILE;
    var dots = tile_product(corner.x, corner.y, thread);
    for (var i = 0u; i < 16u; i++) {
        let row = corner.x + thread / 16u * 4u + i / 4u;
        let column = corner.y + thread % 16u * 4u + i % 4u;
        if row < N && column < N {
            logits[row * N + column] = temperature[0] * dots[i / 4u][i % 4u] + bias[0];
        }
    }
}

@compute @workgroup_size(256)
fn loss_sigmoid_fused(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    var sum = 0.0;
    for (var tile = part; tile < TILES; tile += PARTS) {
        let corner = vec2<u32>(tile / ACROSS, tile % ACROSS) * TILE;
        var dots = tile_product(corner.x, corner.y, thread);
        var of_tile = 0.0;
        for (var i = 0u; i < 16u; i++) {
            let row = corner.x + thread / 16u * 4u + i / 4u;
            let column = corner.y + thread % 16u * 4u + i % 4u;
            if row < N && column < N {
                of_tile += softplus(against(row, column, temperature[0] * dots[i / 4u][i % 4u] + bias[0]));
            }
        }
        sum += of_tile;
    }
    sum = row_sum(thread, sum);
    if thread == 0u {
        parts[part] = sum;
    }
}

@compute @workgroup_size(256)
fn loss_sigmoid_slopes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = flat_group(group, groups);
    if tile >= TILES {
        return;
    }
    let corner = vec2<u32>(tile / ACROSS, tile % ACROSS) * TILE;
    var dots = tile_product(corner.x, corner.y, thread);
    var along = 0.0;
    var level = 0.0;
    for (var i = 0u; i < 16u; i++) {
        let row = corner.x + thread / 16u * 4u + i / 4u;
        let column = corner.y + thread % 16u * 4u + i % 4u;
        if row < N && column < N {
            let dot = dots[i / 4u][i % 4u];
            let slope = slope_of(row, column, temperature[0] * dot + bias[0]) * (dloss[0] * SHARE);
            slopes[row * N + column] = slope;
            along += slope * dot;
            level += slope;
        }
    }
    along = row_sum(thread, along);
    level = row_sum(thread, level);
    if thread == 0u {
        parts[2u * tile] = along;
        parts[2u * tile + 1u] = level;
    }
}
