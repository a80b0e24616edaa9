// Gradient of attention's sinks. The definition is in core/workloads/src/ops/attention.
//
// attention_dsinks  a workgroup per head of an item: the sink's share of each query's sum, times delta

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> lse: array<f32>;
@group(0) @binding(1) var<storage, read> delta: array<f32>;
@group(0) @binding(2) var<storage, read> sinks: array<elem>;
@group(0) @binding(3) var<storage, read_write> dsinks: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn attention_dsinks(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let head = flat_group(group, groups);
    if head >= ITEM_HEADS {
        return;
    }
    let sink = f32(sinks[head]);
    var sum = 0.0;
    for (var i = lane; i < HEADS / ITEM_HEADS * S; i += ROW_THREADS) {
        let row = (i / S * ITEM_HEADS + head) * S + i % S;
        sum -= exp(sink - lse[row]) * delta[row];
    }
    sum = row_sum(lane, sum);
    if lane == 0u {
        dsinks[head] = elem(sum);
    }
}
