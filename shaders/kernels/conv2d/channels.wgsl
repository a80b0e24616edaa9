// Gradient of the bias where channels are not last: sums over images and positions of each channel, in parts. The definition is
// in core/workloads/src/ops/conv2d/backward.rs.

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> gradient: array<elem>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;

@compute @workgroup_size(ROW_THREADS)
fn conv2d_channels(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups);
    let channel = index / PARTS;
    if channel >= CHANNELS {
        return;
    }
    var sum = 0.0;
    for (var e = index % PARTS * ROW_THREADS + lane; e < IMAGES * POSITIONS; e += PARTS * ROW_THREADS) {
        sum += f32(gradient[(e / POSITIONS * CHANNELS + channel) * POSITIONS + e % POSITIONS]);
    }
    let total = row_sum(lane, sum);
    if lane == 0u {
        sums[index % PARTS * CHANNELS + channel] = total;
    }
}
