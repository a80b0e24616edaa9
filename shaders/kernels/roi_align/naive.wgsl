// Boxes of images resampled to bins, one bin of a channel per thread. The definition is in core/workloads/src/ops/roi_align.rs.

#import lib/launch
#import roi_align/taps

@compute @workgroup_size(THREADS)
fn roi_align_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let own = at / (P * P) / C;
    var taps = taps_of(boxes[own], at % (P * P));
    let plane = (index[own] * C + at / (P * P) % C) * (H * W);
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
    out[at] = elem(sum * SHARE);
}
