// Per-channel values applied to images. The definition is in core/workloads/src/ops/conv_block.
//
// conv_block_bias       adds a value per channel
// conv_block_normalise  normalises by mean, variance, factor and offset of each channel; with RELU it applies ReLU
// conv_block_relu       applies ReLU

#import conv_block/of_channel
#import conv_block/place
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> given: array<stored>;
@group(0) @binding(1) var<storage, read_write> made: array<stored>;

#if LAST
@group(0) @binding(2) var<storage, read> bias: array<stored>;
#else
@group(0) @binding(2) var<storage, read> bias: array<elem>;
#endif

#if LAST
@group(0) @binding(2) var<storage, read> mean: array<piece>;
@group(0) @binding(3) var<storage, read> variance: array<piece>;
@group(0) @binding(4) var<storage, read> gamma: array<stored>;
@group(0) @binding(5) var<storage, read> beta: array<stored>;
#else
@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(3) var<storage, read> variance: array<f32>;
@group(0) @binding(4) var<storage, read> gamma: array<elem>;
@group(0) @binding(5) var<storage, read> beta: array<elem>;
#endif

@compute @workgroup_size(THREADS)
fn conv_block_bias(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let place = place_of(flat_group(group, groups) * THREADS + lane);
    if place.begin >= place.end {
        return;
    }
    let more = of_channel(bias[place.channel]);
    for (var at = place.begin; at < place.end; at += TOGETHER) {
        made[at] = stored(piece(given[at]) + more);
    }
}

@compute @workgroup_size(THREADS)
fn conv_block_normalise(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let place = place_of(flat_group(group, groups) * THREADS + lane);
    if place.begin >= place.end {
        return;
    }
    let middle = piece(mean[place.channel]);
    let factor = of_channel(gamma[place.channel]) / sqrt(piece(variance[place.channel]) + piece(EPS));
    let offset = of_channel(beta[place.channel]);
    for (var at = place.begin; at < place.end; at += TOGETHER) {
        var value = (piece(given[at]) - middle) * factor + offset;
        if RELU {
            value = piece_relu(value);
        }
        made[at] = stored(value);
    }
}

@compute @workgroup_size(THREADS)
fn conv_block_relu(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let place = place_of(flat_group(group, groups) * THREADS + lane);
    for (var at = place.begin; at < place.end; at += TOGETHER) {
        made[at] = stored(piece_relu(piece(given[at])));
    }
}
