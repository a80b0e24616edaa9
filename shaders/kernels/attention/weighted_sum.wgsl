// Last stage of attention with the score matrix in device memory. The definition is in core/workloads/src/ops/attention.
//
// attention_weighted_sum  S×D products of 16×16 tiles: of weights and V, or in the backward pass of dS and K

#import attention/common
#import lib/launch

@group(0) @binding(0) var<storage, read_write> scores: array<f32>;
@group(0) @binding(1) var<storage, read> v: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

var<workgroup> tile_a: array<f32, TILE * TILE>;
var<workgroup> tile_b: array<f32, TILE * TILE>;

@compute @workgroup_size(TILE, TILE)
fn attention_weighted_sum(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (D + TILE - 1u) / TILE;
    let down = (S + TILE - 1u) / TILE;
    let flat = flat_group(group, groups);
    let head = flat / (across * down);
    if head >= HEADS {
        return;
    }
    let row = flat / across % down * TILE + local.y;
    let col = flat % across * TILE + local.x;
    // Weights beyond the length are zero. Values there may be NaN.
    let keys = keys_of(head);
    var sum = 0.0;
    for (var j = 0u; j < T; j += TILE) {
        let slot = local.y * TILE + local.x;
        var a = 0.0;
        var b = 0.0;
        if row < S && j + local.x < keys {
            a = scores[(head * S + row) * T + j + local.x];
        }
        if j + local.y < keys && col < D {
            b = f32(v[(head / GROUP * T + j + local.y) * D + col]);
        }
        tile_a[slot] = a;
        tile_b[slot] = b;
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            sum += tile_a[local.y * TILE + i] * tile_b[i * TILE + local.x];
        }
        workgroupBarrier();
    }
    if row < S && col < D {
        out[(head * S + row) * D + col] = elem(sum);
    }
}
