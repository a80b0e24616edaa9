// Means of strips of a channel's elements, and sums of squared distances from them, where channels are not last. A workgroup
// reads its strip twice. Strips are short, so that the second pass reads from a cache. The definition is in
// core/workloads/src/ops/conv_block.

#import conv_block/strip
#import lib/launch
#import lib/pieces{WIDTH}
#import lib/reduce

@group(0) @binding(0) var<storage, read> given: array<stored>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

fn piece_of(channel: u32, at: u32) -> piece {
    return piece(given[place_in(channel, at)]);
}

@compute @workgroup_size(ROW_THREADS)
fn conv_block_planes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let strip = strip_of(flat_group(group, groups));
    if strip.channel >= CHANNELS {
        return;
    }
    let elements = (strip.end - strip.begin) * WIDTH;
    var sum = 0.0;
    for (var at = strip.begin + lane; at < strip.end; at += ROW_THREADS) {
        sum += piece_sum(piece_of(strip.channel, at));
    }
    let mean = row_sum(lane, sum) / f32(elements);
    var around = 0.0;
    for (var at = strip.begin + lane; at < strip.end; at += ROW_THREADS) {
        let far = piece_of(strip.channel, at) - piece(mean);
        around += piece_sum(far * far);
    }
    let total = row_sum(lane, around);
    if lane == 0u {
        parts[2u * strip.part * CHANNELS + strip.channel] = mean;
        parts[(2u * strip.part + 1u) * CHANNELS + strip.channel] = total;
    }
}
