// Index of the item of each element of a bag's maximum: the first of the largest, or the last NaN. An empty bag has none, which
// is the largest 32-bit number. The definition is in core/workloads/src/ops/embedding_bag.

#import lib/launch
#import lib/nan

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> offsets: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<elem>;
@group(0) @binding(3) var<storage, read_write> winner: array<u32>;

@compute @workgroup_size(THREADS)
fn embedding_bag_winner(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let bag = at / PIECES;
    let begin = offsets[bag];
    let end = offsets[bag + 1u];
    var best = 0xffffffffu;
    var largest = 0.0;
    for (var item = begin; item < end; item++) {
        let x = f32(table[index[item] * PIECES + at % PIECES]);
        if item == begin || x > largest || is_nan(x) {
            best = item;
            largest = x;
        }
    }
    winner[at] = best;
}
