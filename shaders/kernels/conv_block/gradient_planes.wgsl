// Of strips of a channel's elements the sum of the gradient, and of its products with distances from the mean, where channels are not
// last: a workgroup for each strip. The definition is in core/src/suite/workloads/conv_block.

#import conv_block/gated
#import lib/launch
#import lib/reduce

@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(3) var<storage, read_write> strips: array<f32>;
#when GATED @group(0) @binding(4) var<storage, read> result: array<stored>;

const PLANE_PIECES: u32 = PLANE / WIDTH;

@compute @workgroup_size(ROW_THREADS)
fn conv_block_gradient_planes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    let channel = flat / PARTS;
    let part = flat % PARTS;
    if channel >= CHANNELS {
        return;
    }
    let middle = piece(mean[channel]);
    let begin = part * (STRIP / WIDTH);
    let end = begin + min(STRIP, ROWS - part * STRIP) / WIDTH;
    var sum = 0.0;
    var product = 0.0;
    for (var i = begin + lane; i < end; i += ROW_THREADS) {
        let at = (i / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + i % PLANE_PIECES;
        let own = gradient_at(at);
        sum += piece_sum(own);
        product += piece_sum(own * (piece(given[at]) - middle));
    }
    let all = row_sum(lane, sum);
    let products = row_sum(lane, product);
    if lane == 0u {
        strips[2u * part * CHANNELS + channel] = all;
        strips[(2u * part + 1u) * CHANNELS + channel] = products;
    }
}
