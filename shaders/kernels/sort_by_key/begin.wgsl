// Begin of the keys of a digit in each stretch, among all keys of this digit: its counts are scanned over the stretches, by a
// workgroup per digit. The definition is in core/workloads/src/ops/sort_by_key.rs.

#import lib/before

alias summed = u32;

@group(0) @binding(0) var<storage, read_write> counts: array<u32>;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;

// Stretches per thread, neighbours.
const OWN: u32 = MOST_PARTS / THREADS;

@compute @workgroup_size(THREADS)
fn sort_by_key_begin(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let digit = group.x;
    var own = array<u32, OWN>();
    var mine = 0u;
    for (var i = 0u; i < OWN; i++) {
        let stretch = lane * OWN + i;
        own[i] = mine;
        if stretch < STRETCHES {
            mine += counts[stretch * BINS + digit];
        }
    }
    let before = sum_before(lane, mine);
    for (var i = 0u; i < OWN; i++) {
        let stretch = lane * OWN + i;
        if stretch < STRETCHES {
            counts[stretch * BINS + digit] = before + own[i];
        }
    }
    if lane == THREADS - 1u {
        totals[digit] = before + mine;
    }
}
