// Step of AdamW in one stage, in pieces. The definition is in core/workloads/src/ops/adamw.rs.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read_write> param: array<stored>;
@group(0) @binding(1) var<storage, read> grad: array<stored>;
@group(0) @binding(2) var<storage, read_write> m: array<piece>;
@group(0) @binding(3) var<storage, read_write> v: array<piece>;

@compute @workgroup_size(THREADS)
fn adamw_step(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let gradient = piece(grad[at]);
    let first = BETA1 * m[at] + REST1 * gradient;
    let second = BETA2 * v[at] + REST2 * gradient * gradient;
    m[at] = first;
    v[at] = second;
    let direction = first / (sqrt(UNBIASED * second) + piece(EPS));
    param[at] = stored(DECAYED * piece(param[at]) - STEP * direction);
}
