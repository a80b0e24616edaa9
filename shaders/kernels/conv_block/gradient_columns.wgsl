// Sums over strips of positions, per channel, where channels are last: of the gradient, and of its products with distances from
// the mean. A thread has the channels of a piece in a strip. The definition is in core/workloads/src/ops/conv_block.

#import conv_block/gated
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(2) var<storage, read> mean: array<piece>;
@group(0) @binding(3) var<storage, read_write> strips: array<piece>;
#if GATED
@group(0) @binding(4) var<storage, read> result: array<stored>;
#endif

const CHANNEL_PIECES: u32 = CHANNELS / WIDTH;

@compute @workgroup_size(THREADS)
fn conv_block_gradient_columns(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let thread = flat_group(group, groups) * THREADS + lane;
    let part = thread / CHANNEL_PIECES;
    let channels = thread % CHANNEL_PIECES;
    if part >= PARTS {
        return;
    }
    let middle = mean[channels];
    let end = min((part + 1u) * STRIP, ROWS) * CHANNEL_PIECES;
    var sum = piece();
    var product = piece();
    for (var at = part * STRIP * CHANNEL_PIECES + channels; at < end; at += CHANNEL_PIECES) {
        let own = gradient_at(at);
        sum += own;
        product += own * (piece(given[at]) - middle);
    }
    strips[2u * part * CHANNEL_PIECES + channels] = sum;
    strips[(2u * part + 1u) * CHANNEL_PIECES + channels] = product;
}
