// Sums over strips of a channel's elements, where channels are not last: of the gradient, and of its products with distances from
// the mean. A workgroup has a strip. The definition is in core/workloads/src/ops/conv_block.

#import conv_block/gated
#import conv_block/strip
#import lib/launch
#import lib/pieces{WIDTH}
#import lib/reduce

@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(3) var<storage, read_write> strips: array<f32>;
#if GATED
@group(0) @binding(4) var<storage, read> result: array<stored>;
#endif

@compute @workgroup_size(ROW_THREADS)
fn conv_block_gradient_planes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let strip = strip_of(flat_group(group, groups));
    if strip.channel >= CHANNELS {
        return;
    }
    let middle = piece(mean[strip.channel]);
    var sum = 0.0;
    var product = 0.0;
    for (var i = strip.begin + lane; i < strip.end; i += ROW_THREADS) {
        let at = place_in(strip.channel, i);
        let own = gradient_at(at);
        sum += piece_sum(own);
        product += piece_sum(own * (piece(given[at]) - middle));
    }
    let all = row_sum(lane, sum);
    let products = row_sum(lane, product);
    if lane == 0u {
        strips[2u * strip.part * CHANNELS + strip.channel] = all;
        strips[(2u * strip.part + 1u) * CHANNELS + strip.channel] = products;
    }
}
