// Start value of each stretch: the sum of all earlier stretches, by one workgroup. The definition is in
// core/workloads/src/ops/scan.rs.

@group(0) @binding(0) var<storage, read_write> parts: array<f32>;

var<workgroup> sums: array<f32, THREADS>;

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
    // Sums over all threads up to this one: each step sums twice as many neighbours.
    sums[lane] = mine;
    workgroupBarrier();
    for (var step = 1u; step < THREADS; step *= 2u) {
        var more = 0.0;
        if lane >= step {
            more = sums[lane - step];
        }
        workgroupBarrier();
        sums[lane] += more;
        workgroupBarrier();
    }
    var before = 0.0;
    if lane > 0u {
        before = sums[lane - 1u];
    }
    for (var i = 0u; i < OWN; i++) {
        let at = lane * OWN + i;
        if at < PARTS {
            parts[at] = before + own[i];
        }
    }
}
