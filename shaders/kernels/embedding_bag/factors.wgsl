// Gradients of factors: product of each item's row with its bag's gradient, and zero outside all bags. LANES threads share an
// item. The definition is in core/workloads/src/ops/embedding_bag.

#import lib/lanes
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> bag: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<stored>;
@group(0) @binding(3) var<storage, read> dout: array<stored>;
@group(0) @binding(4) var<storage, read_write> dweight: array<f32>;

@compute @workgroup_size(THREADS)
fn embedding_bag_factors(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = flat_group(group, groups) * (THREADS / LANES) + thread / LANES;
    let lane = thread % LANES;
    // Threads without an item stay for the sums over their workgroup.
    var mine = BAGS;
    if item < ITEMS {
        mine = bag[item];
    }
    var sum = piece();
    if mine < BAGS {
        let row = index[item];
        for (var at = lane; at < PIECES; at += LANES) {
            sum += piece(table[row * PIECES + at]) * piece(dout[mine * PIECES + at]);
        }
    }
    let total = lanes_sum(thread, piece_sum(sum));
    if item < ITEMS && lane == 0u {
        dweight[item] = total;
    }
}
