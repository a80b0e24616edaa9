// Scaled dot-product attention, backward, with the probabilities in device memory. The definition is in
// core/workloads/src/ops/attention.
//
// attention_dscores  probabilities and gradients of scores in 16×16 tiles: two GEMMs of depth D in one loop

#import attention/common //= FORM: #import attention/scores
#import lib/launch

@group(0) @binding(0) var<storage, read> delta: array<f32>;
@group(0) @binding(1) var<storage, read> dout: array<elem>;
@group(0) @binding(2) var<storage, read_write> probabilities: array<f32>;
@group(0) @binding(3) var<storage, read_write> dscores: array<f32>;
@group(0) @binding(4) var<storage, read> q: array<elem>;
@group(0) @binding(5) var<storage, read> k: array<elem>;
@group(0) @binding(6) var<storage, read> v: array<elem>;
@group(0) @binding(7) var<storage, read> lse: array<f32>;

var<workgroup> tile_q: array<f32, TILE * TILE>;
var<workgroup> tile_k: array<f32, TILE * TILE>;
var<workgroup> tile_dout: array<f32, TILE * TILE>;
var<workgroup> tile_v: array<f32, TILE * TILE>;

@compute @workgroup_size(TILE, TILE)
fn attention_dscores(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (T + TILE - 1u) / TILE;
    let down = (S + TILE - 1u) / TILE;
    let flat = flat_group(group, groups);
    let head = flat / (across * down);
    if head >= HEADS {
        return;
    }
    let row = flat / across % down * TILE + local.y;
    let first_col = flat % across * TILE;
    let col = first_col + local.x;
    let slot = local.y * TILE + local.x;
    var score = 0.0;
    var dprobability = 0.0;
    for (var x = 0u; x < D; x += TILE) {
        let inside = x + local.x < D;
        // K and V are read along their rows too, so that neighbouring threads read neighbours.
        let key = first_col + local.y;
        var staged = vec4<f32>();
        if inside && row < S {
            let at = (head * S + row) * D + x + local.x;
            staged.x = f32(q[at]);
            staged.z = f32(dout[at]);
        }
        if inside && key < T {
            let at = (head / GROUP * T + key) * D + x + local.x;
            staged.y = f32(k[at]);
            staged.w = f32(v[at]);
        }
        tile_q[slot] = staged.x;
        tile_k[slot] = staged.y;
        tile_dout[slot] = staged.z;
        tile_v[slot] = staged.w;
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            score += tile_q[local.y * TILE + i] * tile_k[local.x * TILE + i];
            dprobability += tile_dout[local.y * TILE + i] * tile_v[local.x * TILE + i];
        }
        workgroupBarrier();
    }
    if row < S && col < T {
        let scale = inverseSqrt(f32(D)); //+ CHANGES: let bounded = capped(score); score = sloped(bounded, slope_of(head), row, col);
        // Both are zero for hidden keys, also where these hold NaN.
        var probability = 0.0;
        var dscore = 0.0;
        let biased_score = biased(score * scale, row, col, 1.0);
        // Tested by equality, because naga does not regard NaN as unequal to a number.
        if sees(head, row, col) && !(biased_score == HIDDEN) {
            probability = exp(biased_score - lse[head * S + row]);
            dscore = probability * (dprobability - delta[head * S + row]) * scale; //+ CHANGES: dscore *= slope_of_cap(bounded);
        }
        let at = (head * S + row) * T + col;
        probabilities[at] = probability;
        dscores[at] = dscore;
    }
}
