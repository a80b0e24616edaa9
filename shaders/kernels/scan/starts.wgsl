// Start value of each stretch: the sum of all earlier stretches, by one workgroup. The definition is in
// core/workloads/src/ops/scan.rs.

#import lib/before

alias summed = f32;

@group(0) @binding(0) var<storage, read_write> parts: array<f32>;

// Parts per thread, neighbours.
const OWN: u32 = MOST_PARTS / THREADS;

@compute @workgroup_size(THREADS)
fn scan_starts(@builtin(local_invocation_index) lane: u32) {
    var own = array<f32, OWN>();
    var mine = 0.0;
    for (var i = 0u; i < OWN; i++) {
        let at = lane * OWN + i;
        own[i] = mine;
        if at < PARTS {
            mine += parts[at];
        }
    }
    let before = sum_before(lane, mine);
    for (var i = 0u; i < OWN; i++) {
        let at = lane * OWN + i;
        if at < PARTS {
            parts[at] = before + own[i];
        }
    }
}
