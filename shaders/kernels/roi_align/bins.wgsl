// Boxes of images resampled to bins, a bin of several channels per thread. The definition is in core/workloads/src/ops/roi_align.rs.
//
// A workgroup has one box, up to WIDE of its bins, and CHANNELS channels. TEAMS teams of WIDE threads share the channels. A thread
// keeps the pixels and weights of its bin for all of its channels. Neighbouring threads write neighbouring elements.

#import lib/launch
#import roi_align/taps

@compute @workgroup_size(THREADS)
fn roi_align_bins(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles = (P * P + WIDE - 1u) / WIDE;
    let parts = (C + CHANNELS - 1u) / CHANNELS;
    let block = flat_group(group, groups);
    let team = lane / WIDE;
    let bin = block % tiles * WIDE + lane % WIDE;
    if block >= tiles * parts * R || team >= TEAMS || bin >= P * P {
        return;
    }
    let own = block / tiles / parts;
    var taps = taps_of(boxes[own], bin);
    let first = block / tiles % parts * CHANNELS;
    for (var channel = first + team; channel < min(first + CHANNELS, C); channel += TEAMS) {
        let plane = (index[own] * C + channel) * (H * W);
        var sum = 0.0;
        for (var i = 0u; i < S; i++) {
            let row = taps.rows[i];
            for (var j = 0u; j < S; j++) {
                let column = taps.columns[j];
                let above = between(plane + row.low * W, column);
                let below = between(plane + row.high * W, column);
                sum += select(0.0, (1.0 - row.weight) * above + row.weight * below, row.inside && column.inside);
            }
        }
        out[(own * C + channel) * (P * P) + bin] = elem(sum * SHARE);
    }
}
