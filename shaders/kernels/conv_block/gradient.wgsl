// Gradient of the normalised input. With INFERENCE the statistics are given. Otherwise they depend on the input: this removes the
// gradient's mean, and its mean product with the normalised values times these. The definition is in
// core/workloads/src/ops/conv_block.

#import conv_block/gated
#import conv_block/of_channel
#import conv_block/place
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(3) var<storage, read_write> made: array<stored>;
#if LAST
@group(0) @binding(2) var<storage, read> mean: array<piece>;
@group(0) @binding(4) var<storage, read> variance: array<piece>;
@group(0) @binding(5) var<storage, read> gamma: array<stored>;
@group(0) @binding(6) var<storage, read> totals: array<piece>;
#else
@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(4) var<storage, read> variance: array<f32>;
@group(0) @binding(5) var<storage, read> gamma: array<elem>;
@group(0) @binding(6) var<storage, read> totals: array<f32>;
#endif
#if GATED
@group(0) @binding(7) var<storage, read> result: array<stored>;
#endif

// Distance between the totals of the gradient and those of its products.
const TOTALS: u32 = select(CHANNELS, CHANNEL_PIECES, LAST);

@compute @workgroup_size(THREADS)
fn conv_block_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let place = place_of(flat_group(group, groups) * THREADS + lane);
    if place.begin >= place.end {
        return;
    }
    let wide = piece(variance[place.channel]) + piece(EPS);
    let factor = of_channel(gamma[place.channel]) / sqrt(wide);
    let middle = piece(mean[place.channel]);
    let lift = piece(totals[place.channel]) / piece(f32(ROWS));
    let slope = piece(totals[place.channel + TOTALS]) / (piece(f32(ROWS)) * wide);
    for (var at = place.begin; at < place.end; at += TOGETHER) {
        var value = gradient_at(at);
        if !INFERENCE {
            value -= lift + (piece(given[at]) - middle) * slope;
        }
        made[at] = stored(value * factor);
    }
}
