// Two sums over the threads of a row with the barriers of one: see `lanes`.

const LANES_FEW: u32 = min(LANES, 16u);

var<workgroup> lanes_all: array<vec2<f32>, THREADS>;
var<workgroup> lanes_few: array<vec2<f32>, THREADS / LANES * LANES_FEW>;

fn lanes_sum2(thread: u32, x: vec2<f32>) -> vec2<f32> {
    let row = thread / LANES;
    let lane = thread % LANES;
    lanes_all[thread] = x;
    workgroupBarrier();
    if lane < LANES_FEW {
        var sum = vec2<f32>();
        for (var i = 0u; i < LANES; i += LANES_FEW) {
            sum += lanes_all[row * LANES + i + lane];
        }
        lanes_few[row * LANES_FEW + lane] = sum;
    }
    workgroupBarrier();
    var total = vec2<f32>();
    for (var i = 0u; i < LANES_FEW; i++) {
        total += lanes_few[row * LANES_FEW + i];
    }
    return total;
}
