// First stage of attention's backward passes. The definition is in core/workloads/src/ops/attention.
//
// attention_delta  delta = dout · out, by LANES neighbouring threads per row

#import lib/lanes
#import lib/launch

@group(0) @binding(0) var<storage, read_write> delta: array<f32>;
@group(0) @binding(1) var<storage, read> dout: array<elem>;
@group(0) @binding(2) var<storage, read> out: array<elem>;

@compute @workgroup_size(THREADS)
fn attention_delta(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups) * (THREADS / LANES) + thread / LANES;
    var sum = 0.0;
    if row < HEADS * S {
        for (var x = thread % LANES; x < D; x += LANES) {
            sum += f32(dout[row * D + x]) * f32(out[row * D + x]);
        }
    }
    sum = lanes_sum(thread, sum);
    if row < HEADS * S && thread % LANES == 0u {
        delta[row] = sum;
    }
}
