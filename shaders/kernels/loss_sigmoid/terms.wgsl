// Parts of the loss from stored logits, by PARTS workgroups. The definition is in core/workloads/src/ops/loss_sigmoid.

#import lib/launch
#import lib/reduce
#import loss_sigmoid/pair

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

@compute @workgroup_size(THREADS)
fn loss_sigmoid_terms(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    var sum = 0.0;
    for (var at = part * THREADS + lane; at < COUNT; at += PARTS * THREADS) {
        sum += softplus(against(at / N, at % N, logits[at]));
    }
    sum = row_sum(lane, sum);
    if lane == 0u {
        parts[part] = sum;
    }
}
