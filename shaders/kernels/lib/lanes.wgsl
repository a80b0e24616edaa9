// Reductions over the LANES neighbouring threads that share a row, in a workgroup of THREADS, both powers of two. Every thread of
// the workgroup must call, and gets the result of its row.
//
// Up to sixteen threads per row combine values that are sixteen apart, and then all threads combine these: two barriers, not one
// per halving.

const LANES_FEW: u32 = min(LANES, 16u);

var<workgroup> lanes_all: array<f32, THREADS>;
var<workgroup> lanes_few: array<f32, THREADS / LANES * LANES_FEW>;

fn lanes_sum(thread: u32, x: f32) -> f32 {
    let row = thread / LANES;
    let lane = thread % LANES;
    lanes_all[thread] = x;
    workgroupBarrier();
    if lane < LANES_FEW {
        var sum = 0.0;
        for (var i = 0u; i < LANES; i += LANES_FEW) {
            sum += lanes_all[row * LANES + i + lane];
        }
        lanes_few[row * LANES_FEW + lane] = sum;
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < LANES_FEW; i++) {
        total += lanes_few[row * LANES_FEW + i];
    }
    return total;
}

fn lanes_max(thread: u32, x: f32) -> f32 {
    let row = thread / LANES;
    let lane = thread % LANES;
    lanes_all[thread] = x;
    workgroupBarrier();
    if lane < LANES_FEW {
        var top = x;
        for (var i = 0u; i < LANES; i += LANES_FEW) {
            top = max(top, lanes_all[row * LANES + i + lane]);
        }
        lanes_few[row * LANES_FEW + lane] = top;
    }
    workgroupBarrier();
    var top = x;
    for (var i = 0u; i < LANES_FEW; i++) {
        top = max(top, lanes_few[row * LANES_FEW + i]);
    }
    return top;
}
