// Loss of each row from its parts, by 32 rows times DOWN threads that take every DOWN-th part. PARTS parts of all ROWS rows are one
// after the other. The definition is in core/workloads/src/ops/linear_cross_entropy.

#import lib/launch
#import linear_cross_entropy/part

@group(0) @binding(0) var<storage, read> parts: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> picked: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;
@group(0) @binding(4) var<storage, read_write> lse: array<f32>;

var<workgroup> partial: array<vec2<f32>, 32u * DOWN>;

@compute @workgroup_size(32, DOWN)
fn linear_cross_entropy_combine(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let row = flat_group(group, groups) * 32u + local.x;
    var whole = no_part();
    if row < ROWS {
        for (var part = local.y; part < PARTS; part += DOWN) {
            whole = joined(whole, parts[part * ROWS + row]);
        }
    }
    partial[local.y * 32u + local.x] = whole;
    workgroupBarrier();
    if local.y != 0u || row >= ROWS {
        return;
    }
    for (var i = 1u; i < DOWN; i++) {
        whole = joined(whole, partial[i * 32u + local.x]);
    }
    let total = log_sum(whole);
    lse[row] = total;
    loss[row] = 0.0;
    if targets[row] < CLASSES {
        loss[row] = total - picked[row];
    }
}
