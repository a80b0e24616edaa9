// Step of AdamW in four stages, in pieces. The definition is in core/workloads/src/ops/adamw.rs.
//
// adamw_first      first moment: the mean of gradients
// adamw_second     second moment: the mean of squared gradients
// adamw_direction  ratio of the two
// adamw_apply      weight decay and update

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read_write> m: array<piece>;
@group(0) @binding(0) var<storage, read_write> v: array<piece>;
@group(0) @binding(1) var<storage, read> grad: array<stored>;
// Bindings of adamw_direction.
@group(0) @binding(0) var<storage, read_write> direction: array<piece>;
@group(0) @binding(1) var<storage, read> first: array<piece>;
@group(0) @binding(2) var<storage, read> second: array<piece>;
// Bindings of adamw_apply.
@group(0) @binding(0) var<storage, read_write> param: array<stored>;
@group(0) @binding(1) var<storage, read> along: array<piece>;

@compute @workgroup_size(THREADS)
fn adamw_first(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        m[at] = BETA1 * m[at] + REST1 * piece(grad[at]);
    }
}

@compute @workgroup_size(THREADS)
fn adamw_second(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        let gradient = piece(grad[at]);
        v[at] = BETA2 * v[at] + REST2 * gradient * gradient;
    }
}

@compute @workgroup_size(THREADS)
fn adamw_direction(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        direction[at] = first[at] / (sqrt(UNBIASED * second[at]) + piece(EPS));
    }
}

@compute @workgroup_size(THREADS)
fn adamw_apply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        param[at] = stored(DECAYED * piece(param[at]) - STEP * along[at]);
    }
}
